"""Rooflines, and speed against peers."""

from __future__ import annotations

import math
from typing import Any

from ._files import Ceilings, File, Timing
from ._style import COLOURS, GRID, INK, MARKERS, Plot, grid_of_axes, load_matplotlib, series, short, slug
from ._summary import FEW, MANY


# ---- roofline ----


def _kinds_of(timings: list[Timing], ceilings: Ceilings) -> list[str]:
    """The ceilings that the kernels of these rows can meet, by the types in their names; all where none is there."""
    words = " ".join(t.kernel.replace("_", " ").replace("-", " ") for t in timings).split()
    routes = {"f32": "f32fma", "bf16": "bf16dot", "int8": "i8dot"}  # of CPUs; others are named by their types
    cpu = any(word in routes.values() for word in words)
    operands = {word for t in timings for word in t.kernel.replace("_", "-").split("-")[:4]}
    found = [kind for kind in ceilings.tflops if (routes.get(kind) in words if cpu else kind.split()[0] in operands)]
    found = [kind for kind in found if kind != "bf16" or cpu or "e4m3" not in operands]  # bf16 is D's type there
    return found or list(ceilings.tflops)


def _draw_ceilings(axis: Any, ceilings: Ceilings, kinds: list[str], unit: float, spare: tuple[float, float]) -> None:
    left, right = spare
    rates = sorted(((ceilings.tflops[kind] * unit, kind) for kind in kinds), reverse=True)
    slope = ceilings.tbps * unit if ceilings.tbps else None
    for i, (rate, kind) in enumerate(rates):
        start = max(left, rate / slope) if slope else left
        axis.plot([start, right], [rate, rate], color=INK, linewidth=0.9, linestyle="-" if i == 0 else (0, (4, 2)))
        # Outside of the axes, where no point is.
        axis.annotate(
            kind.replace(" ", "\n"),
            (right, rate),
            xytext=(3, 0),
            textcoords="offset points",
            va="bottom" if i == 0 and len(rates) > 1 else "top" if i == 1 else "center",
            fontsize=7,
            annotation_clip=False,
        )
    if slope and rates:
        top = rates[0][0]
        axis.plot([left, top / slope], [left * slope, top], color=INK, linewidth=0.9)


def roofline(device: str, files: list[File]) -> Plot:
    figure, axes = grid_of_axes(len(files), 3, 3.7, 3.1)
    points = [(t.intensity, t.tflops) for f in files for t in f.timings if t.intensity and t.tflops]
    reached = [rate for _, rate in points]
    gpu = max(reached) > 10  # else GFLOP/s say more
    unit, word = (1.0, "TFLOP/s") if gpu else (1e3, "GFLOP/s")
    tops = [value for f in files if f.ceilings for value in f.ceilings.tflops.values()]
    rates = (min(reached) * unit / 1.8, max([*tops, *reached]) * unit * 1.6)
    spare = (min(x for x, _ in points) / 1.6, max(x for x, _ in points) * 2.2)
    for file, axis in zip(files, axes):
        mine = [t for t in file.timings if t.intensity and t.tflops]
        if file.ceilings:
            _draw_ceilings(axis, file.ceilings, _kinds_of(mine, file.ceilings), unit, spare)
        _roofline_points(axis, mine, unit)
        axis.set_title(file.name, loc="left")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlim(*spare)
        axis.set_ylim(*rates)
    for axis in axes:
        if axis.get_subplotspec().is_first_col():
            axis.set_ylabel(word)
    figure.supxlabel("operations per byte", fontsize=9, color=INK)
    caption = (
        "Operations per byte of A, B, scales and D against rate; one point a shape. Lines: what the same device was measured "
        "to do, reading from memory (slope) and multiplying (flat), just before the runs where the file has it. "
        "Hollow: the peer on the same operands. Of more than six schemes the colour is the route of the kernel."
    )
    return Plot(f"roofline-{slug(device)}", f"Roofline: {device or 'device not named'}", caption, figure)


def _route(kernel: str) -> str:
    """ "f32fma" of "gemm_any_any-f32-any_any_f32fma_...": how a kernel multiplies (docs/kernel-names.md)."""
    fields = kernel.split("_")
    return fields[4] if len(fields) > 4 and fields[0] == "gemm" else kernel


def _roofline_points(axis: Any, timings: list[Timing], unit: float) -> None:
    schemes = list(dict.fromkeys(t.scheme for t in timings))
    few = len(schemes) <= 6
    groups: dict[str, dict[Any, Timing]] = {}  # one point a shape and scheme, however many peers
    for t in timings:
        group = short(t.scheme) if few else _route(t.kernel)
        groups.setdefault(group, {})[(t.scheme, t.name, t.m, t.n, t.k)] = t
    styles = series(list(groups))
    for group, points in groups.items():
        axis.scatter(
            [t.intensity for t in points.values()],
            [t.tflops * unit for t in points.values() if t.tflops],
            s=16,
            color=styles[group][0],
            marker=styles[group][1],
            linewidths=0,
            alpha=0.95 if few else 0.6,
            label=group,
            zorder=3,
        )
    timed = [t for t in timings if t.ratio and not t.peer.endswith("(another run)") and t.peer not in schemes]
    for i, peer in enumerate(dict.fromkeys(t.peer for t in timed)):
        mine = [t for t in timed if t.peer == peer]
        axis.scatter(
            [t.intensity for t in mine],
            [t.tflops / t.ratio * unit for t in mine if t.tflops and t.ratio],
            s=20,
            facecolors="none",
            edgecolors=COLOURS[(len(groups) + i) % len(COLOURS)],
            marker=MARKERS[(i + 1) % len(MARKERS)],
            linewidths=0.9,
            label=peer,
            zorder=2,
        )
    axis.legend(loc="lower right", handletextpad=0.2, borderaxespad=0.2)


# ---- speed against peers ----


def _ratio_text(value: float, _: Any = None) -> str:
    return f"{value:.3g}×"


def _shapes(timings: list[Timing]) -> list[str]:
    """Labels, fewest rows of activations first."""
    ordered = sorted(timings, key=lambda t: (t.m, t.n * t.k, t.name))
    return list(dict.fromkeys(t.label for t in ordered))


def speed_dots(file: File, timings: list[Timing]) -> Plot:
    shapes = _shapes(timings)
    peers = list(dict.fromkeys(t.peer for t in timings))
    figure = load_matplotlib().Figure(figsize=(8.2, 1.3 + 0.21 * len(shapes)), layout="constrained")
    axis = figure.subplots()
    rows = {label: len(shapes) - i for i, label in enumerate(shapes)}
    styles = series(peers)
    axis.axvline(1, color=INK, linewidth=1)
    for peer in peers:
        mine = [t for t in timings if t.peer == peer]
        colour, marker = styles[peer]
        ys = [rows[t.label] for t in mine]
        ratios = [t.ratio for t in mine if t.ratio]
        if len(peers) == 1:
            axis.hlines(ys, 1, ratios, color=colour, linewidth=1.6, alpha=0.5)
        axis.scatter(ratios, ys, s=26, color=colour, marker=marker, linewidths=0, label=peer, zorder=3)
    _ratio_axis(axis, [t.ratio for t in timings if t.ratio])
    axis.set_yticks(list(rows.values()), shapes, fontsize=8, fontfamily="DejaVu Sans Mono")
    axis.set_ylim(0.3, len(shapes) + 0.7)
    _mark_few_and_many(axis, timings, rows)
    axis.grid(True, axis="both")
    axis.set_axisbelow(True)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(3, len(peers)), handletextpad=0.2)
    scheme = timings[0].scheme
    caption = f"Time of the peer over that of scalegemm, scheme {scheme}: to the right of 1 scalegemm is faster."
    caption += " Shapes that a peer cannot do are not there."
    name = file.name if len({t.scheme for t in file.timings}) == 1 else f"{file.name} {scheme}"
    return Plot(f"speed-{slug(name)}", f"Speed against each peer: {name}", caption, figure)


def _ratio_axis(axis: Any, ratios: list[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = min([*ratios, 1]) / 1.06, max([*ratios, 1]) * 1.06
    # The first ones matter most; the others fill what room is left.
    steps = [
        1,
        2,
        0.5,
        5,
        0.2,
        10,
        0.1,
        20,
        0.05,
        50,
        0.02,
        1.5,
        3,
        0.7,
        0.3,
        1.2,
        0.8,
        0.9,
        1.1,
        1.3,
        1.7,
        2.5,
        4,
        7,
        0.6,
        0.4,
    ]
    room = math.log(high / low) / 12
    shown: list[float] = []
    for step in steps:
        if low <= step <= high and all(abs(math.log(step / other)) >= room for other in shown):
            shown.append(step)
    axis.set_xscale("log", base=2)
    axis.set_xlim(low, high)
    axis.xaxis.set_major_locator(FixedLocator(sorted(shown)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(_ratio_text))
    axis.set_xlabel("time of the peer / time of scalegemm")


def _mark_few_and_many(axis: Any, timings: list[Timing], rows: dict[str, int]) -> None:
    """A line where M passes 128 and 512."""
    for limit, text in ((FEW, f"M ≤ {FEW}"), (MANY - 1, f"M ≥ {MANY}")):
        above = [rows[t.label] for t in timings if t.m <= limit]
        below = [rows[t.label] for t in timings if t.m > limit]
        if above and below:
            axis.axhline(min(above) - 0.5, color=GRID, linewidth=0.9, linestyle=(0, (4, 3)))
        if text.startswith("M ≤") and above:
            axis.text(1.01, max(above), text, transform=axis.get_yaxis_transform(), va="top", fontsize=8, rotation=-90)
        if text.startswith("M ≥") and below:
            axis.text(1.01, max(below), text, transform=axis.get_yaxis_transform(), va="top", fontsize=8, rotation=-90)


def speed_map(file: File, timings: list[Timing]) -> Plot:
    """Schemes against shapes: too many series for dots."""
    import matplotlib
    from matplotlib.colors import TwoSlopeNorm

    shapes = _shapes(timings)
    schemes = list(dict.fromkeys(t.scheme for t in timings))
    peer = timings[0].peer
    values = {(t.scheme, t.label): math.log2(t.ratio) for t in timings if t.ratio and t.peer == peer}
    table = [[values.get((scheme, shape), math.nan) for shape in shapes] for scheme in schemes]
    most = max(0.5, max(map(abs, values.values())))
    narrow = len(shapes) > 16
    figure = load_matplotlib().Figure(
        figsize=(2.6 + (0.42 if narrow else 0.62) * len(shapes), 2.1 + 0.26 * len(schemes)), layout="constrained"
    )
    axis = figure.subplots()
    colours = matplotlib.colormaps["RdBu"]
    norm = TwoSlopeNorm(0, -most, most)
    axis.imshow(table, cmap=colours, norm=norm, aspect="auto")
    for y, line in enumerate(table):
        for x, value in enumerate(line):
            if not math.isnan(value):
                dark = abs(value) > 0.62 * most
                text = f"{2**value:.2f}" if 2**value < 9.95 else f"{2**value:.0f}"
                # Not INK: the cell's colour does not follow the page.
                axis.text(
                    x,
                    y,
                    text,
                    ha="center",
                    va="center",
                    fontsize=6.5 if narrow else 7.5,
                    color="#fff" if dark else "#111",
                )
    axis.set_yticks(range(len(schemes)), [short(s) for s in schemes], fontsize=8)
    axis.set_xticks(range(len(shapes)), shapes, rotation=55, ha="right", rotation_mode="anchor", fontsize=7.5)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    caption = f"Time of {peer} over that of the scheme, on the same shape in the same run: above 1 (blue) the scheme is faster."
    return Plot(f"speed-{slug(file.name)}", f"Speed against {peer}: {file.name}", caption, figure)
