"""Quality of schemes, and errors of results."""

from __future__ import annotations

import math

from ._files import ErrorRow, File
from ._style import COLOURS, INK, Plot, grid_of_axes, load_matplotlib, series, short, slug


def quality(file: File) -> Plot:
    schemes = list(dict.fromkeys(q.scheme for q in file.qualities))
    spans = {}
    for scheme in schemes:
        values = [q.sqnr_db for q in file.qualities if q.scheme == scheme]
        bits = max(q.bits for q in file.qualities if q.scheme == scheme)
        if max(values) < math.inf:  # exact ones have no place on the axis
            spans[scheme] = (min(values), max(values), bits)
    exact = [s for s in schemes if s not in spans]
    ordered = sorted(spans, key=lambda s: spans[s][0])
    figure = load_matplotlib().Figure(figsize=(8.2, 1.0 + 0.24 * max(1, len(ordered))), layout="constrained")
    axis = figure.subplots()
    for y, scheme in enumerate(ordered):
        low, high, bits = spans[scheme]
        axis.plot([low, high], [y, y], color=COLOURS[0], linewidth=3)
        axis.scatter([low, high], [y, y], s=22, color=COLOURS[0], linewidths=0, zorder=3)
        axis.annotate(
            f"{bits:.3g} bits", (high, y), xytext=(6, 0), textcoords="offset points", va="center", fontsize=7.5
        )
    axis.set_yticks(range(len(ordered)), [short(s) for s in ordered], fontsize=8)
    axis.set_xlabel("SQNR of outputs against f32, dB: least to best of the shapes")
    axis.margins(x=0.1)
    axis.grid(True, axis="x")
    caption = (
        "Signal to quantisation noise of layer outputs, activations and weights quantised, and bits a weight, "
        "scales counted."
    )
    if exact:
        caption += f" Exact, so not shown: {', '.join(exact)}."
    return Plot(f"quality-{slug(file.name)}", f"Quality of each scheme: {file.name}", caption, figure)


def _modes(file: File) -> list[tuple[str, str]]:
    return list(dict.fromkeys((e.scheme, e.accuracy) for e in file.errors))


def errors_by_k(file: File) -> Plot:
    kinds = list(dict.fromkeys(e.data for e in file.errors))
    figure, axes = grid_of_axes(len(kinds), 2, 4.6, 3.3)
    styles = series([" ".join(mode) for mode in _modes(file)])
    values = [value for e in file.errors for value in (e.rms, e.max) if value > 0] or [1e-9]
    for data, axis in zip(kinds, axes):
        for mode in _modes(file):
            mine = sorted(
                (e for e in file.errors if e.data == data and (e.scheme, e.accuracy) == mode), key=lambda e: e.k
            )
            colour, marker = styles[" ".join(mode)]
            # 0 has no place on a logarithmic axis.
            axis.plot(
                [e.k for e in mine],
                [e.max or math.nan for e in mine],
                color=colour,
                marker=marker,
                markersize=4,
                label=" ".join(mode),
            )
            axis.plot(
                [e.k for e in mine], [e.rms or math.nan for e in mine], color=colour, linestyle=":", linewidth=1.2
            )
        axis.set_title(f"data: {data}", loc="left")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_ylim(min(values) / 2, max(values) * 2)
        axis.set_xlabel("K")
    axes[0].set_ylabel("error / Σ|ab|")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
    caption = "Largest error (solid) and root mean square (dotted) of the elements of D, over the sum of |a b|, against float64."
    return Plot(f"errors-{slug(file.name)}", f"Error against K: {file.name}", caption, figure)


def error_histograms(file: File) -> Plot:
    import matplotlib

    rows = [e for e in file.errors if e.histogram is not None]
    panels = [
        (mode, data)
        for data in dict.fromkeys(e.data for e in rows)
        for mode in _modes(file)
        if any((e.scheme, e.accuracy) == mode and e.data == data for e in rows)
    ]
    figure, axes = grid_of_axes(len(panels), 4, 2.9, 2.5)
    ks = sorted({e.k for e in rows})
    colours = matplotlib.colormaps["viridis"]
    shades = {k: colours(0.08 + 0.82 * i / max(1, len(ks) - 1)) for i, k in enumerate(ks)}
    low, high = _exponents(rows)
    for i, ((mode, data), axis) in enumerate(zip(panels, axes)):
        mine = sorted((e for e in rows if (e.scheme, e.accuracy) == mode and e.data == data), key=lambda e: e.k)
        for row in mine:
            shares = [(row.histogram or {}).get(e, 0) / row.elements for e in range(low, high)]
            axis.stairs(shares, range(low, high + 1), color=shades[row.k], linewidth=1.4)
        axis.text(0.03, 0.96, exact_text(mine), transform=axis.transAxes, va="top", fontsize=7.5)
        axis.set_title(f"{' '.join(mode)}, {data}", loc="left", fontsize=8.5)
        axis.set_xlim(low - 1, high + 1)
        axis.set_ylim(bottom=0)
        axis.margins(y=0.12)
        axis.xaxis.set_major_formatter(lambda x, _: f"$2^{{{x:.0f}}}$")
    for axis in axes:
        if axis.get_subplotspec().is_first_col():
            axis.set_ylabel("share of elements")
    figure.supxlabel("error / Σ|ab|", fontsize=9, color=INK)
    handles = [matplotlib.lines.Line2D([], [], color=shades[k], linewidth=2, label=f"K = {k:,}") for k in ks]
    figure.legend(handles=handles, loc="outside right upper")
    caption = (
        "How the errors of the elements of D spread, in powers of two. Exact: error 0. The axis begins where less than "
        f"{_TAIL:.1%} of the elements of every case lie to the left."
    )
    return Plot(f"histograms-{slug(file.name)}", f"Error histograms: {file.name}", caption, figure)


_TAIL = 0.001


def _exponents(rows: list[ErrorRow]) -> tuple[int, int]:
    """The bins to show: all but a long thin tail of small errors."""
    bins = sorted({e for row in rows for e in row.histogram or {}})
    if not bins:
        return -30, -20
    low = bins[0]
    while all(sum(n for e, n in (row.histogram or {}).items() if e <= low) < _TAIL * row.elements for row in rows):
        low += 1
    return low, bins[-1] + 1


def exact_text(rows: list[ErrorRow]) -> str:
    def percent(share: float) -> str:
        return "<1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")

    exact = [1 - sum((row.histogram or {}).values()) / row.elements for row in rows]
    texts = list(dict.fromkeys([percent(min(exact)), percent(max(exact))]))
    return f"exact: {' to '.join(texts)}"
