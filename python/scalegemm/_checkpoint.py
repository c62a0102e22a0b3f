"""What Checkpoint.weight() returns."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from ._core import Quantized


class Weight(NamedTuple):
    """A matrix of a checkpoint's layer: N x K, quantised as it is stored."""

    quantized: Quantized
    """Codes, scales, zero points and global factor, as pack(), matmul() and Plan.run() take B."""
    scheme: str
    """What runs it: pack(w.quantized, w.scheme), matmul(x, w.quantized, w.scheme)."""
    columns: Optional[Any]
    """Act-order: int32[K]; codes[:, j] belongs to column columns[j] of x, so that x[:, columns] is what to multiply
    with. None: the columns are in order, as in every other format."""
