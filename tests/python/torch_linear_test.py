"""scalegemm.torch: operators, QuantLinear, quantize_; on CUDA tensors too where torch sees a device."""

import copy
import gc
import io

import pytest
from conftest import assert_close

import scalegemm as sg

torch = pytest.importorskip("torch", reason="torch is not installed")
st = pytest.importorskip("scalegemm.torch")
from scalegemm.torch import _ops, _parts, _two_pass  # noqa: E402

SCHEMES = [scheme.name for scheme in sg.schemes()]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")
nn = torch.nn


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


def quantized(layer, device="cpu"):
    """The layer's weight as the rest of the package has it, on the CPU."""
    parts = {name: getattr(layer, name) for name in _parts.PARTS}
    parts = {name: part if part is None else part.cpu() for name, part in parts.items()}
    return sg.Quantized(parts.pop("codes"), sg.operands(layer.scheme)[1], **parts)


def activations(layer, x):
    """What the layer multiplies, on the CPU."""
    a = _parts.operand_a(layer.scheme, layer.activations, x.dtype)
    x = x.detach().cpu().reshape(-1, x.shape[-1])
    if a.scale is None and a.dtype in ("f32", "f16", "bf16"):
        return sg.Quantized(x.to(_parts.torch_dtype(a.dtype)), a)
    return sg.quantize(x.float(), a, "a")


def assert_output(y, layer, x):
    """Within the bound of fp32 sums on the CPU; tensor cores keep fewer bits of a sum, 13 at least."""
    qa, qb = activations(layer, x), quantized(layer)
    a, b = sg.dequantize(qa).double(), sg.dequantize(qb).double()
    bias = 0 if layer.bias is None else layer.bias.detach().cpu().double()
    ref = a @ b.T + bias
    size = a.abs() @ b.abs().T + (0 if layer.bias is None else bias.abs())
    unit = 2.0**-24 * (a.shape[1] + 3) if not y.is_cuda else 2.0**-11
    rounding = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}[y.dtype]
    error = (y.detach().cpu().reshape(ref.shape).double() - ref).abs()
    assert y.dtype == x.dtype and y.shape == (*x.shape[:-1], layer.out_features)
    assert (error <= size * unit + (ref.abs() + size * unit) * rounding).all(), error.max()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("activation", ["scheme", "keep"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme(scheme, activation, device):
    linear = nn.Linear(256, 33, bias=activation == "keep").to(device)
    layer = st.QuantLinear.from_linear(linear, scheme, activations=activation)
    for x in (torch.randn(2, 3, 256, device=device), torch.randn(256, device=device).bfloat16()):
        assert_output(layer(x), layer, x)
    q, want = quantized(layer), sg.quantize(linear.weight.detach().cpu(), scheme)
    assert torch.equal(sg.dequantize(q), sg.dequantize(want))
    assert torch.equal(layer.dequantize().cpu(), sg.dequantize(want))


@pytest.mark.parametrize("device", DEVICES)
def test_shapes_and_types(device):
    layer = st.QuantLinear.from_linear(nn.Linear(64, 24).to(device), "mxfp8")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for x in (torch.randn(64), torch.randn(1, 64), torch.randn(64, 5).T, torch.randn(2, 5, 3, 128)[..., ::2]):
            x = x.to(dtype).to(device)
            assert_output(layer(x), layer, x)
    assert layer(torch.empty(3, 0, 64, device=device)).shape == (3, 0, 24)


def test_partial_blocks_and_zero_points():
    for scheme in ("abquant:bn=128", "bquant:b=uint4,scale=f16,zero=uint4", "bquant:b=int4,g=32,zero=int4", "nvfp4"):
        layer = st.QuantLinear.from_linear(nn.Linear(258, 130), scheme)
        x = torch.randn(5, 258)
        assert_output(layer(x), layer, x)
        assert torch.equal(layer.dequantize(), sg.dequantize(quantized(layer)))


def test_refused():
    layer = st.QuantLinear.from_linear(nn.Linear(64, 24), "mxfp8")
    with pytest.raises(sg.InvalidArgument, match="x: dtype must be torch.float32, float16 or bfloat16, got"):
        layer(torch.ones(2, 64, dtype=torch.float64))
    with pytest.raises(sg.InvalidArgument, match="must have the K of a, 32, has 64"):
        layer(torch.ones(2, 32))
    with pytest.raises(sg.InvalidArgument, match="activations: must be 'scheme' or 'keep', got 'none'"):
        st.QuantLinear(64, 24, "mxfp8", activations="none")
    with pytest.raises(sg.InvalidArgument, match="in_features: must be even for e2m1, got 63"):
        st.QuantLinear(63, 24, "mxfp4")
    with pytest.raises(sg.Error, match="mxfp5"):
        st.QuantLinear(64, 24, "mxfp5")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scheme", ["mxfp4", "rowcol", "bquant:b=uint4,scale=f16,zero=uint4", "nvfp4"])
def test_gradients(scheme, device):
    layer = st.QuantLinear.from_linear(nn.Linear(96, 40).to(device), scheme)
    x = torch.randn(3, 5, 96, device=device, requires_grad=True)
    grad = torch.randn(3, 5, 40, device=device)
    layer(x).backward(grad)
    want = grad.double() @ layer.dequantize().double()
    size = grad.double().abs() @ layer.dequantize().double().abs()
    assert ((x.grad.double() - want).abs() <= size * 2.0**-24 * 42).all()
    assert torch.allclose(layer.bias.grad, grad.sum((0, 1)), rtol=0, atol=1e-5)
    assert not layer.codes.requires_grad and layer.codes.grad is None
    half = x.detach().bfloat16().requires_grad_()
    layer(half).sum().backward()
    assert half.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scheme", ["int8", "bquant:g=32", "none", "mxfp4", "rowcol", "nvfp4"])
def test_opcheck(scheme, device):
    """Schema, fake kernel, autograd and AOT dispatch with dynamic shapes, as torch tests its own operators."""
    checks = ["test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if scheme in ("int8", "bquant:g=32", "none"):
        checks.append("test_schema")  # compares inputs before and after, which torch cannot for float8 on the CPU
    layer = st.QuantLinear.from_linear(nn.Linear(64, 32).to(device), scheme)
    parts = tuple(getattr(layer, name) for name in _parts.PARTS)
    x = torch.randn(2, 3, 64, device=device, requires_grad=True)
    bias = layer.bias.detach().requires_grad_()
    ops, check = torch.ops.scalegemm, torch.library.opcheck
    check(ops.linear.default, (x, *parts, bias, scheme, "scheme"), test_utils=checks)
    check(ops.linear.default, (x.detach().half(), *parts, None, scheme, "keep"), test_utils=checks)
    check(ops.dequantize.default, (*parts, scheme), test_utils=checks)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64, bias=False)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(backend, device):
    torch._dynamo.reset()
    eager = st.quantize_(Block(), "mxfp8").to(device)
    compiled = torch.compile(eager, backend=backend, fullgraph=True, dynamic=True)
    for m in (1, 7, 16):
        x = torch.randn(m, 64, device=device, requires_grad=True)
        y = compiled(x)
        y.square().sum().backward()
        want = x.detach().clone().requires_grad_()
        eager(want).square().sum().backward()
        # gelu and its gradient are torch's own in both, fused in one
        assert torch.allclose(y, eager(x), rtol=1e-5, atol=1e-5)
        assert torch.allclose(x.grad, want.grad, rtol=1e-4, atol=1e-4)


def test_compiled_graph_has_one_node_for_a_layer():
    graphs = []

    def keep(module, inputs):
        graphs.append(module)
        return module

    torch._dynamo.reset()
    torch.compile(st.quantize_(Block(), "mxfp4"), backend=keep, fullgraph=True)(torch.randn(3, 64))
    targets = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    assert targets.count("scalegemm.linear.default") == 2


@pytest.mark.parametrize("device", DEVICES)
def test_export(device, tmp_path):
    model = st.quantize_(Block(), "nvfp4").to(device)
    rows = torch.export.Dim("rows", min=1, max=1024)
    program = torch.export.export(model, (torch.randn(4, 64, device=device),), dynamic_shapes=({0: rows},))
    assert sum("scalegemm.linear" in str(node.target) for node in program.graph.nodes) == 2
    x = torch.randn(9, 64, device=device)
    assert torch.equal(program.module()(x), model(x))
    torch.export.save(program, tmp_path / "block.pt2")
    assert torch.equal(torch.export.load(tmp_path / "block.pt2").module()(x), model(x))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_state_dict_round_trip(scheme):
    layer = st.QuantLinear.from_linear(nn.Linear(64, 24), scheme)
    x = torch.randn(3, 64)
    want = layer(x)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    fresh = st.QuantLinear(64, 24, scheme)
    zero = fresh(x)
    assert not zero.any()  # packed as zeros, so a stale copy would show below
    fresh.load_state_dict(state)
    assert torch.equal(fresh(x), want)
    with torch.device("meta"):
        empty = st.QuantLinear(64, 24, scheme)
    empty.load_state_dict(state, assign=True)
    assert torch.equal(empty(x), want)
    assert torch.equal(copy.deepcopy(layer)(x), want)


def test_state_dict_as_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    layer = st.QuantLinear.from_linear(nn.Linear(64, 24), "mxfp8")
    safetensors.save_file(layer.state_dict(), tmp_path / "layer.safetensors")
    fresh = st.QuantLinear(64, 24, "mxfp8")
    fresh.load_state_dict(safetensors.load_file(tmp_path / "layer.safetensors"))
    x = torch.randn(3, 64)
    assert torch.equal(fresh(x), layer(x))


def test_state_dict_of_another_scheme_is_refused():
    state = st.QuantLinear.from_linear(nn.Linear(64, 24), "rowcol").state_dict()
    fresh = st.QuantLinear(64, 24, "int8")
    with pytest.raises(sg.InvalidArgument, match="state_dict: codes must be torch.int8, is torch.float8_e4m3fn"):
        fresh.load_state_dict(state)
    assert not fresh.codes.any()
    # Same types and shapes, another meaning of the bytes.
    state = st.QuantLinear.from_linear(nn.Linear(64, 24), "bquant:b=int4,g=32").state_dict()
    with pytest.raises(sg.InvalidArgument, match=r"must be .*uint4\*f32\[1x32\].*, is .*\(int4\*f32\[1x32\]"):
        st.QuantLinear(64, 24, "bquant:b=uint4,g=32").load_state_dict(state)


@pytest.mark.parametrize("scheme", ["mxfp8", "rowcol", "nvfp4", "none:a=f32"])
def test_moves_leave_codes_alone(scheme):
    layer = st.QuantLinear.from_linear(nn.Linear(64, 24), scheme)
    before = {name: part.clone() for name, part in layer.named_buffers()}
    for moved in (layer.half(), layer.double(), layer.to("cpu", torch.bfloat16)):
        assert moved is layer
        for name, part in layer.named_buffers():
            assert part.dtype == before[name].dtype
            assert torch.equal(part.view(torch.uint8), before[name].view(torch.uint8))
    assert layer.bias.dtype == torch.bfloat16
    x = torch.randn(3, 64, dtype=torch.bfloat16)
    assert_output(layer(x), layer, x)
    assert {name: part.shape for name, part in layer.to("meta").named_buffers()} == {
        name: part.shape for name, part in before.items()
    }


def test_packed_weights_follow_writes_and_die_with_the_layer():
    gc.collect()
    kept = len(_ops._packed)
    layer = st.QuantLinear.from_linear(nn.Linear(64, 24, bias=False), "int8")
    x = torch.randn(3, 64)
    y = layer(x)
    assert len(_ops._packed) == kept + 1
    packed = _ops._packed[id(layer.codes.untyped_storage())][2]
    assert torch.equal(layer(x), y) and torch.equal(torch.compile(layer, backend="aot_eager")(x), y)
    assert len(_ops._packed) == kept + 1 and _ops._packed[id(layer.codes.untyped_storage())][2] is packed
    with torch.no_grad():
        layer.scales.mul_(2)
    assert torch.equal(layer(x), 2 * y)
    layer.codes.neg_()
    assert torch.equal(layer(x), -2 * y)
    layer.activations = "keep"  # another A, another order of the weights
    assert_output(layer(x), layer, x)
    with torch.inference_mode():
        other = st.QuantLinear.from_linear(nn.Linear(64, 24, bias=False), "int8")
        first = other(x)
        other.scales.mul_(2)  # not counted by torch
        assert torch.equal(other(x), 2 * first)
    del layer, y
    gc.collect()
    assert len(_ops._packed) == kept


def test_quantize_():
    model = nn.Sequential(Block(), nn.Sequential(nn.Linear(64, 8), nn.MultiheadAttention(64, 2)))
    model[1].append(model[1][0])  # one layer in two places
    names = []
    kept = lambda name, layer: names.append(name) or not name.endswith("down")  # noqa: E731
    assert st.quantize_(model, "mxfp4", kept) is model
    assert names == ["0.up", "0.down", "1.0", "1.2"]
    assert type(model[0].up) is st.QuantLinear and type(model[0].down) is nn.Linear
    assert type(model[1][0]) is st.QuantLinear and model[1][2] is model[1][0]
    assert isinstance(model[1][1].out_proj, nn.Linear)
    assert repr(model[0].up) == (
        "QuantLinear(in_features=64, out_features=128, bias=True, scheme='mxfp4', activations='scheme')"
    )


def test_quantize_changes_nothing_when_a_layer_does_not_fit():
    model = nn.Sequential(nn.Linear(64, 31), nn.Linear(31, 8))
    with pytest.raises(sg.InvalidArgument, match="^1: in_features: must be even for e2m1, got 31"):
        st.quantize_(model, "mxfp4")
    assert all(type(layer) is nn.Linear for layer in model)
    with pytest.raises(sg.InvalidArgument, match="module: must hold linear layers, is one"):
        st.quantize_(nn.Linear(4, 4), "mxfp4")


@pytest.mark.parametrize("scheme", ["tensor", "nvfp4"])
def test_scales_of_whole_matrices_have_the_bits_of_the_library(scheme):
    """What GPUs use for activations whose scales need two passes."""
    a = sg.operands(scheme)[0]
    x = torch.randn(37, 258) * torch.exp2(torch.randint(-20, 20, (37, 1)).float())
    x[3] = 0
    spoiled = x.clone()
    spoiled[5, 7], spoiled[9, 1] = torch.nan, torch.inf
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5, 0])
    for case in (x, spoiled, torch.zeros(3, 32), torch.full((2, 32), 1e-42), torch.randn(4, 32) * 1e38, ties[None]):
        want, got = sg.quantize(case, a), _two_pass.quantize(case, a)
        for name in ("codes", "scales", "global_scale"):
            mine, theirs = getattr(got, name), getattr(want, name)
            if theirs is not None:
                mine, theirs = mine.float(), theirs.float()
                assert torch.equal(mine.isnan(), theirs.isnan()), name
                assert torch.equal(mine.nan_to_num(), theirs.nan_to_num()), name
                assert torch.equal(mine.signbit() & ~mine.isnan(), theirs.signbit() & ~theirs.isnan()), name


@needs_cuda
@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if sg.operands(scheme)[0].scale is not None])
def test_cuda_activations_have_the_bits_of_the_cpu(scheme):
    a = sg.operands(scheme)[0]
    x = torch.randn(33, 512)
    on_cpu, on_gpu = _ops._activations(x, a), _ops._activations(x.cuda(), a)
    for name in ("codes", "scales", "global_scale"):
        want, got = getattr(on_cpu, name), getattr(on_gpu, name)
        assert (want is None) == (got is None)
        assert want is None or torch.equal(got.cpu().view(torch.uint8), want.view(torch.uint8)), name


@needs_cuda
@pytest.mark.parametrize("scheme", SCHEMES)
def test_cuda_graph(scheme):
    """Captured once, replayed with other inputs; all memory is torch's."""
    layer = st.QuantLinear.from_linear(nn.Linear(256, 128).cuda(), scheme)
    x = torch.randn(16, 256, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(2):
            layer(x)  # plans and kernels are made
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        y = layer(x)
    for _ in range(3):
        x.copy_(torch.randn(16, 256))
        graph.replay()
        with torch.no_grad():
            assert torch.equal(y, layer(x))
        assert_output(y, layer, x)


@needs_cuda
def test_cuda_compile_with_graphs():
    torch._dynamo.reset()
    model = st.quantize_(Block(), "rowcol").cuda()
    compiled = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(16, 64, device="cuda")
            assert torch.allclose(compiled(x).clone(), model(x), rtol=1e-4, atol=1e-4)


@needs_cuda
def test_cuda_moves():
    layer = st.QuantLinear.from_linear(nn.Linear(64, 24), "mxfp8")
    x = torch.randn(3, 64)
    there = copy.deepcopy(layer).cuda()
    assert there.codes.is_cuda and there.codes.dtype == layer.codes.dtype
    assert_output(there(x.cuda()), there, x.cuda())
    back = there.cpu()
    assert torch.equal(back(x), layer(x))
    with pytest.raises(sg.InvalidArgument, match="x: must be on cpu, as the weight, is on cuda:0"):
        layer(x.cuda())


@needs_cuda
def test_cuda_work_is_on_the_current_stream():
    layer = st.QuantLinear.from_linear(nn.Linear(512, 256).cuda(), "rowcol")
    source = torch.randn(64, 512, device="cuda")
    with torch.no_grad():
        want = layer(source)
        x = torch.zeros_like(source)
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(200_000_000)
            x.copy_(source)
            y = layer(x)  # on another stream it would meet zeros
            torch.cuda.current_stream().synchronize()
    assert want.any() and torch.equal(y, want)


def test_linear_takes_what_quantize_gives():
    w, x = torch.randn(20, 64), torch.randn(4, 64)
    for scheme in ("int8", "nvfp4", "bquant:b=uint4,scale=f16,zero=uint4,g=32"):
        q = sg.quantize(w, scheme)
        parts = {name: getattr(q, name) for name in _parts.PARTS}
        y = st.linear(x, **parts, scheme=scheme)
        qa = sg.quantize(x, scheme, "a")
        assert_close(y.numpy(), qa, q)
        assert torch.equal(st.dequantize(**parts, scheme=scheme), sg.dequantize(q))
