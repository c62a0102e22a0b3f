"""What the Python tests share: operands by dtype, references in float64."""

import numpy as np
import pytest

import scalegemm


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def reference(qa, qb):
    """A @ B.T in float64 of what the codes stand for, and the bound of fp32 sums: |A| @ |B|.T times K units."""
    a = np.asarray(scalegemm.dequantize(qa), np.float64)
    b = np.asarray(scalegemm.dequantize(qb), np.float64)
    bt = np.swapaxes(b, -1, -2)
    # Each of at most K + 2 roundings of a sum is at most half a unit, 2^-24, of sum |a b|.
    return a @ bt, (np.abs(a) @ np.abs(bt)) * (a.shape[-1] + 2) * 2.0**-24


def assert_close(d, qa, qb):
    ref, bound = reference(qa, qb)
    error = np.abs(np.asarray(d, np.float64) - ref)
    assert d.shape == ref.shape
    assert (error <= bound).all(), f"largest error/bound {(error / np.maximum(bound, 1e-300)).max():.3g}"
