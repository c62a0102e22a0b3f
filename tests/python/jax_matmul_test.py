"""scalegemm.jax.matmul: on the CPU, in and outside jit."""

import numpy as np
import pytest
from conftest import assert_close

import scalegemm as sg

jax = pytest.importorskip("jax", reason="JAX is not installed")
jax.config.update("jax_platforms", "cpu")
jnp = jax.numpy
sj = pytest.importorskip("scalegemm.jax")


@pytest.fixture
def weight(rng):
    return sg.pack(rng.standard_normal((33, 128), np.float32), "mxfp4")


@pytest.mark.parametrize("scheme", [scheme.name for scheme in sg.schemes()])
def test_every_scheme_under_jit(scheme, rng):
    w = sg.pack(sg.quantize(rng.standard_normal((33, 128), np.float32), scheme), scheme)
    x = jnp.asarray(rng.standard_normal((5, 128), np.float32))
    a = sg.operands(scheme)[0]
    if a.scale is None:
        x = x.astype({"f32": jnp.float32, "bf16": jnp.bfloat16}[a.dtype])
    d = jax.jit(lambda x: sj.matmul(x, w, scheme))(x)
    assert isinstance(d, jax.Array) and d.dtype == jnp.float32
    qa = sg.Quantized(np.asarray(x), a) if a.scale is None else sg.quantize(x, a, "a")
    assert_close(np.asarray(d), qa, w.unpack())
    assert np.array_equal(sj.matmul(x, w, scheme), d)


def test_leading_dimensions_bias_and_types(weight, rng):
    x = jnp.asarray(rng.standard_normal((2, 3, 4, 128), np.float32))
    bias = jnp.arange(33.0)

    @jax.jit
    def f(x, bias):
        return sj.matmul(2 * x, weight, "mxfp4", bias=bias, activation="relu", out_dtype="bf16")

    d = f(x, bias)
    rows = 2 * np.asarray(x).reshape(24, 128)
    want = sg.matmul(rows, weight, "mxfp4", bias=np.asarray(bias), activation="relu", out_dtype="bf16")
    assert d.dtype == jnp.bfloat16 and np.array_equal(d, want.reshape(2, 3, 4, 33))
    assert sj.matmul(x[0, 0, 0], weight, "mxfp4").shape == (33,)
    assert sj.matmul(x[:0], weight, "mxfp4").shape == (0, 3, 4, 33)


def test_traced_weights():
    a, b = jnp.arange(6.0).reshape(2, 3), jnp.arange(12.0).reshape(4, 3)
    assert np.array_equal(jax.jit(sj.matmul)(a, b), a @ b.T)


def test_vmap_is_a_call_for_each_element(weight, rng):
    x = jnp.asarray(rng.standard_normal((3, 5, 128), np.float32))
    d = jax.jit(jax.vmap(lambda x: sj.matmul(x, weight, "mxfp4")))(x)
    assert np.array_equal(d, sj.matmul(x, weight, "mxfp4"))


def test_one_compilation_follows_large_arrays():
    w = sg.pack(np.ones((512, 2048), np.float32), "none:a=f32")
    f = jax.jit(lambda x: sj.matmul(x + 1, w) + 1)
    for value in (1, 2, 3):
        assert (f(jnp.full((1024, 2048), float(value))) == 2048 * (value + 1) + 1).all()


def test_refused(weight, monkeypatch):
    x = jnp.ones((3, 128))
    with pytest.raises(sg.InvalidArgument, match="b: must have the K of a, 64, has 128"):
        sj.matmul(x[:, :64], weight, "mxfp4")
    with pytest.raises(sg.InvalidArgument, match=r"bias: must be \(33,\), is \(32,\)"):
        sj.matmul(x, weight, "mxfp4", bias=jnp.ones(32))
    with pytest.raises(sg.InvalidArgument, match="out_dtype: must be one of"):
        sj.matmul(x, weight, "mxfp4", out_dtype="f64")
    with pytest.raises(Exception, match="desc.source_dtype: must be f32, f16 or bf16, got int8"):
        jax.jit(lambda x: sj.matmul(x, weight, "mxfp4"))(x.astype(jnp.int8)).block_until_ready()
    with pytest.raises(ValueError, match="do not support JVP"):
        jax.grad(lambda x: sj.matmul(x, weight, "mxfp4").sum())(x)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # no GPU of JAX is tested anywhere
    with pytest.raises(sg.Unsupported, match="a: must be on the CPU, is on gpu"):
        jax.jit(lambda x: sj.matmul(x, weight, "mxfp4"))(x)
    with jax.default_device(jax.devices("cpu")[0]):
        assert jax.jit(lambda x: sj.matmul(x, weight, "mxfp4"))(x).shape == (3, 33)
