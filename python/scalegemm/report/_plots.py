"""Every plot of a report."""

from __future__ import annotations

import dataclasses

from ._error_plots import error_histograms, errors_by_k, quality
from ._files import File
from ._speed_plots import roofline, speed_dots, speed_map
from ._style import Plot, load_matplotlib


def plots(files: list[File]) -> list[Plot]:
    """Every plot that the files have the data for."""
    load_matplotlib()
    out = []
    for device in dict.fromkeys(f.device for f in files):
        mine = [f for f in files if f.device == device and any(t.intensity for t in f.timings)]
        if mine:
            out.append(roofline(device, mine))
    for file in files:
        compared = [t for t in file.timings if t.ratio]
        schemes = list(dict.fromkeys(t.scheme for t in compared))
        if len(schemes) > 1 and len({t.peer for t in compared}) == 1:
            out.append(speed_map(file, compared))
        else:
            out += [speed_dots(file, [t for t in compared if t.scheme == scheme]) for scheme in schemes]
    for file in files:
        if file.qualities:
            out.append(quality(file))
        if file.errors:
            out.append(errors_by_k(file))
        if any(e.histogram is not None for e in file.errors):
            out.append(error_histograms(file))
    return _with_names_of_their_own(out)


def _with_names_of_their_own(plots: list[Plot]) -> list[Plot]:
    """Files of one name in several folders give plots of one name, which would overwrite each other."""
    seen: dict[str, int] = {}
    out = []
    for plot in plots:
        seen[plot.name] = seen.get(plot.name, 0) + 1
        count = seen[plot.name]
        out.append(plot if count == 1 else dataclasses.replace(plot, name=f"{plot.name}-{count}"))
    return out
