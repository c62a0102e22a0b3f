"""Tensors of torch, where it is installed."""

import numpy as np
import pytest
from conftest import assert_close

import scalegemm as sg

torch = pytest.importorskip("torch", reason="torch is not installed")

TYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn,
    "e4m3_fnuz": torch.float8_e4m3fnuz,
    "e5m2": torch.float8_e5m2,
    "e5m2_fnuz": torch.float8_e5m2fnuz,
    "int8": torch.int8,
}


def integers(*shape, low=-4, high=5):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(3)).float()


@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    a, b = integers(3, 40).to(TYPES[name]), integers(6, 40).to(TYPES[name])
    d = sg.matmul(a, b)
    assert isinstance(d, torch.Tensor) and d.dtype == torch.float32
    assert torch.equal(d, a.float() @ b.float().T)


@pytest.mark.parametrize("name", ["bf16", "f16", "e4m3", "e5m2"])
def test_results(name):
    a, b = integers(3, 8, low=-2, high=3), integers(6, 8, low=-1, high=2)
    d = sg.matmul(a, b, out_dtype=name)
    assert d.dtype == TYPES[name] and torch.equal(d.float(), (a @ b.T).to(TYPES[name]).float())
    out = torch.empty(3, 6, dtype=TYPES[name])
    assert sg.matmul(a, b, out=out) is out and torch.equal(out.float(), d.float())


@pytest.mark.parametrize("scheme", [scheme.name for scheme in sg.schemes()])
def test_schemes(scheme):
    x, w = torch.randn(5, 256), torch.randn(33, 256)
    qa, qb = sg.quantize(x, scheme, "a"), sg.quantize(w, scheme)
    assert isinstance(qa.codes, torch.Tensor)
    assert_close(sg.matmul(qa, sg.pack(qb, scheme)), qa, qb)
    of_numpy = sg.quantize(w.numpy(), scheme)
    assert torch.equal(qb.codes.view(torch.uint8).flatten(), torch.from_numpy(of_numpy.codes.view(np.uint8)).flatten())


def test_own_types_of_quantized():
    q = sg.quantize(torch.randn(4, 64), "mxfp8")
    assert q.codes.dtype == torch.float8_e4m3fn and q.scales.dtype == torch.float8_e8m0fnu
    q = sg.quantize(torch.randn(4, 64, dtype=torch.bfloat16), "mxfp4", "a")
    assert q.codes.dtype == torch.uint8 and q.codes.shape == (4, 32)


def test_strides_and_parameters():
    a, b = integers(40, 3).T, torch.nn.Parameter(integers(6, 80))[:, 5:45]
    assert torch.equal(sg.matmul(a, b), a @ b.T)
    memory = torch.full((6, 20), torch.nan)
    out = memory[::2, 1:13:2]
    sg.matmul(a, b, out=out)
    assert torch.equal(out, (a @ b.T).detach()) and memory.isnan().sum() == memory.numel() - out.numel()


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no float4_e2m1fn_x2")
def test_float4():
    q = sg.quantize(torch.randn(6, 64), "mxfp4")
    typed = sg.Quantized(q.codes.view(torch.float4_e2m1fn_x2), q.operand, scales=q.scales)
    x = integers(3, 64)
    assert typed.shape == (6, 64) and torch.equal(sg.matmul(x, typed), sg.matmul(x, q))


def test_refused():
    a = integers(3, 8)
    with pytest.raises(sg.InvalidArgument, match="a: dtype must be .*, got torch.float64"):
        sg.matmul(a.double(), a)
    with pytest.raises(sg.InvalidArgument, match="a: is on a device that scalegemm does not know: meta"):
        sg.matmul(a.to("meta"), a)
    with pytest.raises(sg.InvalidArgument, match="b: unsigned integers are bytes"):
        sg.matmul(a, a.to(torch.uint8))


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")


def to_cuda(q):
    return sg.Quantized(q.codes.cuda(), q.operand, scales=q.scales.cuda())


def powers_of_two(rows, role):
    q = sg.quantize(torch.ones(rows, 512), "rowcol", role)
    scales = torch.exp2(torch.arange(rows) % 5 - 2).view_as(q.scales)
    return sg.Quantized(integers(rows, 512, low=-1, high=2).to(torch.float8_e4m3fn), q.operand, scales=scales)


@needs_cuda
def test_work_is_on_the_current_stream():
    # Sums of up to 512 and scales that are powers of two: exact also in the 13 bits that tensor cores keep.
    qa, qb = powers_of_two(64, "a"), powers_of_two(256, "b")
    a, b = to_cuda(qa), to_cuda(qb)
    codes = a.codes.clone()
    a.codes.view(torch.uint8).zero_()
    sg.matmul(a, b)  # the plan is made
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(200_000_000)
        a.codes.copy_(codes)
        d = sg.matmul(a, b)  # on another stream it would meet zeros
        torch.cuda.current_stream().synchronize()
    assert d.device == a.codes.device
    assert d.any() and torch.equal(d.cpu(), (qa.codes.float() * qa.scales) @ (qb.codes.float() * qb.scales).T)
    with pytest.raises(sg.InvalidArgument, match="b: must be on cuda:0, is on cpu"):
        sg.matmul(a, qb)


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_activations_are_quantised_on_the_gpu(dtype):
    x = torch.randn(33, 512).to(dtype)
    want = sg.quantize(x, "abquant", "a")
    got = sg.quantize(x.cuda(), "abquant", "a")
    assert torch.equal(got.codes.cpu().view(torch.uint8), want.codes.view(torch.uint8))
    assert torch.equal(got.scales.cpu(), want.scales)
