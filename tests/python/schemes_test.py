"""Every scheme from floats to a result, by every way in."""

import numpy as np
import pytest
from conftest import assert_close

import scalegemm as sg

SCHEMES = [scheme.name for scheme in sg.schemes()]
FIELDS = ("codes", "scales", "zeros", "global_scale")


def bytes_of(q):
    return {name: None if getattr(q, name) is None else getattr(q, name).tobytes() for name in FIELDS}


def test_schemes_are_described():
    assert {"mxfp4", "nvfp4", "rowcol", "int8", "none"} <= set(SCHEMES)
    for scheme in sg.schemes():
        assert scheme.description and 4 <= scheme.bits_per_weight <= 32


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("m,n,k", [(1, 1, 2), (5, 33, 258)])
def test_quantized_packed_and_plan(scheme, m, n, k, rng):
    x = rng.standard_normal((m, k), np.float32)
    w = rng.standard_normal((n, k), np.float32)
    qa = sg.quantize(x, scheme, "a")
    qb = sg.quantize(w, scheme)
    assert (qa.shape, qb.shape) == ((m, k), (n, k))
    assert (qa.operand, qb.operand) == sg.operands(scheme)

    d = sg.matmul(qa, qb)
    assert d.dtype == np.float32
    assert_close(d, qa, qb)

    packed = sg.pack(qb, scheme)
    assert packed.shape == (n, k) and packed.info().operand == qb.operand
    assert_close(sg.matmul(qa, packed), qa, qb)
    assert bytes_of(packed.unpack()) == bytes_of(qb)

    plan = sg.plan(sg.problem(scheme, m, n, k, packed=True))
    out = np.full((m, n), np.nan, np.float32)
    assert plan.run(qa, packed, out) is out
    assert plan.kernel.startswith("gemm_")
    assert_close(out, qa, qb)


@pytest.mark.parametrize("scheme", ["mxfp4", "rowcol", "int8", "abquant:bn=128", "none:a=f32"])
def test_floats_with_a_scheme(scheme, rng):
    x = rng.standard_normal((4, 256), np.float32)
    w = rng.standard_normal((16, 256), np.float32)
    qa, qb = sg.quantize(x, scheme, "a"), sg.quantize(w, scheme)
    assert np.array_equal(sg.matmul(x, w, scheme), sg.matmul(qa, qb))
    assert np.array_equal(sg.matmul(x, sg.pack(w, scheme), scheme), sg.matmul(qa, sg.pack(qb, scheme)))


def test_weights_alone_quantised(rng):
    """Without a scheme an array is what its type says."""
    x = rng.standard_normal((3, 128), np.float32)
    w = sg.quantize(rng.standard_normal((8, 128), np.float32), "mxfp4")
    assert_close(sg.matmul(x, w), sg.Quantized(x, sg.Operand("f32")), w)


@pytest.mark.parametrize("scheme", ["mxfp8", "int8", "bquant:b=uint4,scale=f16,zero=uint4"])
def test_batch(scheme, rng):
    qa = sg.quantize(rng.standard_normal((3, 5, 64), np.float32), scheme, "a")
    qb = sg.quantize(rng.standard_normal((3, 7, 64), np.float32), scheme)
    assert qa.shape == (3, 5, 64)
    assert_close(sg.matmul(qa, qb), qa, qb)
    assert_close(sg.matmul(qa, sg.pack(qb, scheme)), qa, qb)
    one = sg.quantize(rng.standard_normal((7, 64), np.float32), scheme)
    assert_close(sg.matmul(qa, one), qa, one)


def test_a_batch_has_no_global_factor():
    with pytest.raises(sg.Unsupported, match="one global factor"):
        sg.quantize(np.ones((2, 4, 64), np.float32), "nvfp4")


def test_int4_zero_points_are_signed(rng):
    operand = sg.Operand("int4", scale="f32", block=(1, 32), zero="int4")
    q = sg.quantize(rng.uniform(-4, 1, (6, 64)).astype(np.float32), operand)
    signed = sg.Quantized(q.codes, operand, scales=q.scales, zeros=q.zeros | np.where(q.zeros & 8, 0xF0, 0).astype("u1"))
    assert np.array_equal(sg.dequantize(signed), sg.dequantize(q))  # only the low nibble counts
    x = rng.standard_normal((2, 64), np.float32)
    assert_close(sg.matmul(x, q), sg.Quantized(x, sg.Operand("f32")), q)


@pytest.mark.parametrize("rounding", ["floor", "even", "ceil"])
def test_rounding_of_scales(rounding):
    q = sg.quantize(np.full((1, 32), 7.0, np.float32), "mxfp4", rounding=rounding)
    # 7 / 2^0 is beyond 6: floor clips it, ceil takes 2^1.
    assert int(q.scales[0, 0]) == {"floor": 127, "even": 128, "ceil": 128}[rounding]


def test_bf16_source_is_quantised_to_the_same_bits(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="bf16 of NumPy comes from ml_dtypes")
    x = rng.standard_normal((4, 128), np.float32).astype(ml_dtypes.bfloat16)
    want = sg.quantize(x.astype(np.float32), "mxfp8", "a")
    assert bytes_of(sg.quantize(x, "mxfp8", "a")) == bytes_of(want)
