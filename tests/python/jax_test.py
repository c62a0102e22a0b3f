"""Arrays of JAX on the CPU, where it is installed."""

import numpy as np
import pytest
from conftest import assert_close

import scalegemm as sg
from scalegemm import _arrays

jax = pytest.importorskip("jax", reason="JAX is not installed")
jax.config.update("jax_platforms", "cpu")
jnp = jax.numpy


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8"])
def test_types(name, rng):
    a = jnp.asarray(rng.integers(-4, 5, (3, 40))).astype(name)
    b = jnp.asarray(rng.integers(-4, 5, (6, 40))).astype(name)
    d = sg.matmul(a, b)
    assert isinstance(d, jax.Array) and d.dtype == jnp.float32
    assert np.array_equal(d, np.asarray(a, np.float32) @ np.asarray(b, np.float32).T)


def test_weights_of_numpy_beside_activations_of_jax(rng):
    w = sg.pack(rng.standard_normal((33, 128), np.float32), "mxfp4")
    x = jnp.asarray(rng.standard_normal((3, 128), np.float32))
    d = sg.matmul(x, w, "mxfp4")
    assert isinstance(d, jax.Array)
    assert_close(np.asarray(d), sg.quantize(x, "mxfp4", "a"), w.unpack())


def test_memory_is_taken_over():
    x = jnp.ones((64, 64))
    out = _arrays.empty_out(x, (64, 64), "bf16")
    assert _arrays.finish_out(x, out).unsafe_buffer_pointer() == out.ctypes.data


def test_arrays_of_jax_are_not_written():
    x = jnp.ones((3, 3))
    with pytest.raises(sg.InvalidArgument, match="out: must be writable"):
        sg.matmul(x, x, out=jnp.zeros((3, 3)))
