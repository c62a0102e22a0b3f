"""What the plots share: matplotlib, colours, panels. The ink is one colour, so that the page can follow light and dark."""

from __future__ import annotations

import dataclasses
from typing import Any

INK = "#1b1f24"  # text and axes; the page puts its own colour in its place
GRID = "#8b949e"
# Okabe and Ito 2008, in tones that show on white and on black.
COLOURS = ("#2f81c4", "#e08214", "#2a9d6f", "#c45fa0", "#b8a000", "#c4483a", "#56b4e9", "#8c6bb1")
MARKERS = "osD^vPX*"


class MissingMatplotlib(ImportError):
    """matplotlib is not installed."""


def load_matplotlib() -> Any:
    """matplotlib.figure, set to the style of the page. Nothing of a display is used."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise MissingMatplotlib(f"needed matplotlib ({error}): pip install scalegemm[report]") from None
    matplotlib.rcParams.update(
        {
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "axes.titlesize": 10,
            "axes.titleweight": "bold",
            "axes.spines.right": False,
            "axes.spines.top": False,
            "font.family": "DejaVu Sans",  # comes with matplotlib
            "font.size": 9,
            "grid.alpha": 0.35,
            "grid.color": GRID,
            "grid.linewidth": 0.6,
            "legend.fontsize": 8,
            "legend.frameon": False,
            "svg.hashsalt": "scalegemm",
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    )
    return matplotlib.figure


@dataclasses.dataclass(frozen=True)
class Plot:
    name: str
    """Of the PNG."""
    title: str
    caption: str
    figure: Any


def grid_of_axes(count: int, columns: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """A figure of so many panels, x shared by all and y by a row; the ones left over are taken away."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = load_matplotlib().Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, sharex=True, sharey="row", squeeze=False).flat)
    for axis in axes[count:]:
        axis.remove()
    for i, axis in enumerate(axes[:count]):
        axis.grid(True)
        axis.set_axisbelow(True)
        axis.tick_params(labelbottom=i + columns >= count, labelleft=i % columns == 0)
    return figure, axes[:count]


def series(names: list[str]) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each."""
    return {
        name: (COLOURS[i % len(COLOURS)], MARKERS[i // len(COLOURS) % len(MARKERS)]) for i, name in enumerate(names)
    }


def short(scheme: str) -> str:
    return scheme if len(scheme) <= 26 else scheme[:25] + "…"


def slug(text: str) -> str:
    words = "".join(c if c.isalnum() else "-" for c in text.lower()).split("-")
    return "-".join(w for w in words if w)[:60] or "device"
