"""Arrays in and out: NumPy with ml_dtypes, strides, what is refused."""

import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest
from conftest import assert_close

import scalegemm as sg

OWN = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e4m3_fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2": ml_dtypes.float8_e5m2,
    "e5m2_fnuz": ml_dtypes.float8_e5m2fnuz,
    "int8": np.int8,
}


@pytest.mark.parametrize("name", OWN)
def test_types_of_ml_dtypes(name, rng):
    a = rng.integers(-4, 5, (3, 40)).astype(OWN[name])
    b = rng.integers(-4, 5, (6, 40)).astype(OWN[name])
    want = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.array_equal(sg.matmul(a, b), want)  # small integers: all sums are exact


@pytest.mark.parametrize("name", ["bf16", "f16", "e4m3", "e5m2"])
def test_types_of_results(name, rng):
    a = rng.integers(-2, 3, (3, 8)).astype(np.float32)
    b = rng.integers(-1, 2, (6, 8)).astype(np.float32)
    d = sg.matmul(a, b, out_dtype=name)
    assert d.dtype == OWN[name]
    assert np.array_equal(d, (a @ b.T).astype(OWN[name]))
    out = np.empty((3, 6), OWN[name])
    assert sg.matmul(a, b, out=out) is out
    assert np.array_equal(out, d)
    raw = np.empty((3, 6), np.uint16 if name in ("bf16", "f16") else np.uint8)
    sg.matmul(a, b, out=sg.view(raw, name))
    assert np.array_equal(raw.view(OWN[name]), d)


def test_int32_result(rng):
    a = rng.integers(-128, 128, (3, 300)).astype(np.int8)
    b = rng.integers(-128, 128, (6, 300)).astype(np.int8)
    assert np.array_equal(sg.matmul(a, b, out_dtype="int32"), a.astype(np.int32) @ b.astype(np.int32).T)


@pytest.mark.parametrize(
    "name,own", [("e2m1", ml_dtypes.float4_e2m1fn), ("int4", ml_dtypes.int4), ("uint4", ml_dtypes.uint4)]
)
def test_4_bit_codes(name, own, rng):
    low = -4 if name != "uint4" else 0
    b = rng.integers(low, 5, (6, 40)).astype(own)
    a = rng.integers(-4, 5, (3, 40)).astype(np.float32)
    packed = sg.pack4(b)
    assert packed.array.shape == (6, 20) and packed.dtype == name
    want = a @ b.astype(np.float32).T
    assert np.array_equal(sg.matmul(a, packed), want)
    assert np.array_equal(sg.matmul(a, sg.view(packed.array, name)), want)
    with pytest.raises(sg.InvalidArgument, match="two: scalegemm.pack4"):
        sg.matmul(a, b)


@pytest.mark.parametrize("own", [ml_dtypes.int4, ml_dtypes.uint4])
def test_zero_points_of_ml_dtypes(own, rng):
    name = own.__name__
    values = np.arange(-8, 8) if name == "int4" else np.arange(16)
    operand = sg.Operand(name, scale="f32", block=(1, 2), zero=name)
    q = sg.Quantized(
        np.zeros((1, 16), np.uint8), operand, scales=np.ones((1, 16), np.float32), zeros=values.astype(own)[None]
    )
    want = -values.repeat(2).astype(np.float32)[None]
    assert np.array_equal(sg.dequantize(q), want)
    assert np.array_equal(sg.matmul(np.eye(32, dtype=np.float32), q), want.T)
    with pytest.raises(sg.InvalidArgument, match=f"zeros: dtype must be {name}, got int8"):
        sg.Quantized(q.codes, operand, scales=q.scales, zeros=np.zeros((1, 16), np.int8))


@pytest.mark.parametrize("layout", ["rcr", "rrr", "crr", "ccr"])
def test_layouts_are_strides(layout, rng):
    a = rng.integers(-4, 5, (3, 40)).astype(np.float32)
    b = rng.integers(-4, 5, (6, 40)).astype(np.float32)
    want = a @ b.T
    given_a = a if layout[0] == "r" else np.asfortranarray(a)
    given_b = b if layout[1] == "c" else np.asfortranarray(b)
    assert np.array_equal(sg.matmul(given_a, given_b), want)
    plan = sg.plan(sg.problem("none:a=f32", 3, 6, 40, layout=layout))
    assert np.array_equal(plan.run(given_a, given_b), want)


def test_views_are_not_copied(rng):
    a = rng.integers(-4, 5, (6, 80)).astype(np.float32)[::2, :40]
    b = rng.integers(-4, 5, (6, 90)).astype(np.float32)[:, 3:43]
    memory = np.full((8, 20), np.nan, np.float32)
    out = memory[1:7:2, 2:14:2]
    assert sg.matmul(a, b, out=out) is out
    assert np.array_equal(out, a @ b.T)
    assert np.isnan(memory).sum() == memory.size - out.size
    scales = np.asfortranarray(rng.uniform(1, 2, (3, 4)).astype(np.float32))
    operand = sg.Operand("int8", scale="f32", block=(1, 10))
    qa = sg.Quantized(rng.integers(-9, 9, (3, 40)).astype(np.int8), operand, scales=scales)
    plain = sg.Quantized(qa.codes, operand, scales=np.ascontiguousarray(scales))
    assert np.array_equal(sg.matmul(qa, b), sg.matmul(plain, b))


def test_epilogue(rng):
    a = rng.integers(-4, 5, (3, 16)).astype(np.float32)
    b = rng.integers(-4, 5, (6, 16)).astype(np.float32)
    bias = rng.integers(-4, 5, 6).astype(np.float32)
    c = rng.integers(-4, 5, (3, 6)).astype(ml_dtypes.bfloat16)
    d = sg.matmul(a, b, bias=bias, c=c, alpha=0.5, beta=2, activation="relu", clamp=(1, 9))
    want = np.clip(np.maximum(0.5 * (a @ b.T) + 2 * c.astype(np.float32) + bias, 0), 1, 9)
    assert np.array_equal(d, want)
    into = np.ones((3, 6), np.float32)
    sg.matmul(a, b, c=into, beta=1, out=into, accuracy="exact")
    assert np.array_equal(into, a @ b.T + 1)


def test_loose_scales_and_raw_bytes(rng):
    qa, qb = (sg.quantize(rng.standard_normal((r, 64), np.float32), "mxfp4", s) for r, s in ((3, "a"), (5, "b")))
    plan = sg.plan(sg.problem("mxfp4", 3, 5, 64))
    workspace = np.empty(plan.workspace_bytes + 64, np.int8)
    start = -workspace.ctypes.data % 64
    d = plan.run(
        sg.view(qa.codes, "e2m1"),
        qb,
        scale_a=sg.view(qa.scales, "e8m0"),
        workspace=workspace[start:],
    )
    assert_close(d, qa, qb)
    typed = plan.run(sg.view(qa.codes, "e2m1"), qb, scale_a=qa.scales.view(ml_dtypes.float8_e8m0fnu))
    assert np.array_equal(d, typed)
    with pytest.raises(sg.InvalidArgument, match="a: unsigned integers are bytes of any type"):
        plan.run(qa.codes, qb, scale_a=sg.view(qa.scales, "e8m0"))
    with pytest.raises(sg.InvalidArgument, match="brings its own scales"):
        plan.run(qa, qb, scale_a=sg.view(qa.scales, "e8m0"))
    with pytest.raises(sg.InvalidArgument, match="scale_a"):
        plan.run(sg.view(qa.codes, "e2m1"), qb)


ONES = np.ones((4, 8), np.float32)


@pytest.mark.parametrize(
    "call,text",
    [
        (lambda: sg.matmul(ONES, np.ones((3, 7), np.float32)), "b: must be N x K with the K of a, 8, has 7"),
        (lambda: sg.matmul(ONES.astype(np.float64), ONES), "a: dtype must be one of float32, .*, got float64"),
        (lambda: sg.matmul(ONES.astype(">f4"), ONES), "a: dtype must be .*, got >f4"),
        (lambda: sg.matmul([[1.0]], ONES), "a: must be an array"),
        (lambda: sg.matmul(ONES, ONES, out=np.ones((4, 5), np.float32)), "out: shape must be"),
        (lambda: sg.matmul(ONES, ONES, out=np.ones((4, 4), np.float16), out_dtype="f32"), "out: dtype must be f32"),
        (lambda: sg.matmul(ONES, ONES, out=np.broadcast_to(np.float32(0), (4, 4))), "out: must be writable"),
        (lambda: sg.matmul(ONES, ONES, out=ONES[:2].reshape(4, 4)), "out: must not overlap a"),
        (lambda: sg.matmul(ONES[:, ::2], ONES[:, ::2]), "contiguous"),
        (lambda: sg.matmul(ONES, ONES[::-1]), "stride"),
        (lambda: sg.matmul(ONES, ONES[:0]), "b: has no elements"),
        (lambda: sg.matmul(np.ones((1, 1, 4, 8), np.float32), ONES), "a: must have at most 3 dimensions"),
        (lambda: sg.matmul(ONES, ONES, bias=np.ones(3, np.float32)), "bias: shape"),
        (lambda: sg.matmul(ONES, ONES, activation="tanh"), "activation: must be one of none, relu"),
        (lambda: sg.matmul(ONES, ONES, accuracy="best"), "accuracy: must be one of promoted, fast, exact"),
        (lambda: sg.matmul(ONES, ONES, out_dtype="f64"), "out_dtype: must be one of f32"),
        (lambda: sg.matmul(ONES, ONES, "none"), "a: dtype must be bf16, got f32"),
        (lambda: sg.matmul(ONES, sg.quantize(ONES, "int8"), "mxfp4"), "b: the scheme needs"),
        (lambda: sg.matmul(ONES, ONES, "nothing"), "nothing"),
        (lambda: sg.quantize(ONES, "mxfp4", "c"), "side: must be 'a' or 'b'"),
        (lambda: sg.quantize(ONES[0], "mxfp4"), "x: must be rows x K"),
        (lambda: sg.quantize(ONES[:, :7], "mxfp4"), "x: K must be even"),
        (lambda: sg.quantize(ONES.astype(np.int32), "mxfp4"), "src: dtype|source_dtype"),
        (lambda: sg.view(ONES, "e4m3"), "array: must be uint8"),
        (lambda: sg.view(np.ones(4, np.uint16), "e4m3"), "elements of 1 bytes"),
        (lambda: sg.view(ONES, "fp8"), "dtype: must be one of"),
        (lambda: sg.pack(ONES, "none"), "weights: dtype must be bf16, got f32"),
        (lambda: sg.pack4(ONES), "array: must be ml_dtypes"),
        (lambda: sg.problem("mxfp4", 1, 1, 3), "even"),
        (lambda: sg.problem("mxfp4", 0, 1, 2), "M: needed a positive size; given 0"),
        (lambda: sg.Quantized(ONES, sg.Operand("int8")), "codes: dtype must be int8, got f32"),
        (lambda: sg.Quantized(ONES, sg.Operand("f32", scale="f32")), "scales: the operand needs a f32 array"),
        (lambda: sg.Quantized(ONES, sg.Operand("f32"), scales=ONES), "scales: must be None"),
        (lambda: sg.Quantized(ONES, sg.Operand("f32", scale="f32"), scales=ONES), "scales: must be 4 x 1, got 4 x 8"),
    ],
)
def test_what_is_refused(call, text):
    with pytest.raises(sg.InvalidArgument, match=text) as caught:
        call()
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, sg.Error)


class OnDevice:
    """As CuPy describes an array, without memory behind it."""

    dtype = np.dtype(np.float32)
    __cuda_array_interface__ = {"shape": (4, 8), "typestr": "<f4", "data": (4096, False), "version": 3, "strides": None}


def test_devices_must_agree():
    with pytest.raises(sg.InvalidArgument, match="b: must be on cpu, is on cuda:0"):
        sg.matmul(ONES, OnDevice())
    with pytest.raises(sg.InvalidArgument, match="out: must be on cpu, is on cuda:0"):
        sg.matmul(ONES, ONES, out=OnDevice())
    if not any(device.name.startswith("cuda") for device in sg.devices()):
        with pytest.raises(sg.NoDevice):
            sg.matmul(OnDevice(), OnDevice(), out=OnDevice())


def run_alone(program, *path):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *path], capture_output=True, text=True, check=False
    )


def test_nothing_is_imported():
    done = run_alone(
        """
        import sys, scalegemm
        scalegemm.devices(), scalegemm.schemes(), scalegemm.problem("mxfp4", 1, 1, 2)
        print(sorted({"numpy", "torch", "jax", "cupy", "ml_dtypes"} & set(sys.modules)))
        """
    )
    assert done.stdout == "[]\n", done.stderr


def test_numpy_is_enough():
    done = run_alone(
        """
        import sys
        sys.modules.update(ml_dtypes=None, torch=None, jax=None, cupy=None)
        import numpy as np, scalegemm as sg
        x = np.eye(4, 64, dtype=np.float32)
        for scheme in sg.schemes():
            d = sg.matmul(sg.quantize(x, scheme.name, "a"), sg.pack(sg.quantize(x, scheme.name), scheme.name))
            assert d.shape == (4, 4) and np.allclose(d, np.eye(4), atol=0.2), (scheme, d)
        try:
            sg.matmul(x, x, out_dtype="bf16")
        except NotImplementedError as error:
            print(error)
        """
    )
    assert done.stdout == "out_dtype: NumPy has bf16 only with ml_dtypes installed\n", done.stderr
