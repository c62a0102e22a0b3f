"""The table: how much faster than each peer, few rows of activations and many apart."""

from __future__ import annotations

import dataclasses
import math
from typing import Optional

from ._files import File

FEW = 128  # M of decoding and small batches: at most
MANY = 512  # M of prefill: at least; between them neither


@dataclasses.dataclass(frozen=True)
class Ratios:
    """Time of the peer over ours, of so many shapes."""

    count: int
    geomean: float
    least: float
    best: float

    @staticmethod
    def of(ratios: list[float]) -> Optional[Ratios]:
        if not ratios:
            return None
        geomean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        return Ratios(len(ratios), geomean, min(ratios), max(ratios))


@dataclasses.dataclass(frozen=True)
class SummaryRow:
    file: str
    scheme: str
    peer: str
    few: Optional[Ratios]
    """Of M <= 128; None: no such shape."""
    many: Optional[Ratios]
    """Of M >= 512."""
    best_tflops: Optional[float]


def summary(files: list[File]) -> list[SummaryRow]:
    """A row for each file, scheme and peer, in the order of the files."""
    rows = []
    for file in files:
        for scheme, peer in dict.fromkeys((t.scheme, t.peer) for t in file.timings):
            mine = [t for t in file.timings if t.scheme == scheme and t.peer == peer]
            few = Ratios.of([t.ratio for t in mine if t.ratio and t.m <= FEW])
            many = Ratios.of([t.ratio for t in mine if t.ratio and t.m >= MANY])
            rates = [t.tflops for t in mine if t.tflops]
            rows.append(SummaryRow(file.name, scheme, peer, few, many, max(rates) if rates else None))
    return rows
