"""scalegemm.torch.scaled_mm beside torch._scaled_mm where torch has it, and beside float64."""

import pytest

import scalegemm as sg

torch = pytest.importorskip("torch", reason="torch is not installed")
st = pytest.importorskip("scalegemm.torch")
F = torch.nn.functional

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
on_every_device = pytest.mark.parametrize("device", DEVICES)
needs_recipes = pytest.mark.skipif(not hasattr(F, "ScalingType"), reason="this torch has no ScalingType")
E4M3, E5M2, E8M0 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


def integers(*shape, dtype=E4M3, device="cpu"):
    """Whose sums are exact in fp32 and in what tensor cores keep."""
    return torch.randint(-2, 3, shape).float().to(dtype).to(device)


def powers(*shape, device="cpu"):
    return torch.exp2(torch.randint(-1, 2, shape).float()).to(device)


def spread(scale, rows, k):
    """A grid of scales over rows x K."""
    over_rows, over_k = -(-rows // scale.shape[0]), -(-k // scale.shape[1])
    if scale.shape[0] not in (1, rows):
        over_rows = 128
    if scale.shape[1] != 1:
        over_k = next(b for b in (16, 32, 128) if -(-k // b) == scale.shape[1])
    return scale.repeat_interleave(over_rows, 0)[:rows].repeat_interleave(over_k, 1)[:, :k].double()


def reference(a, b, scale_a, scale_b):
    """a of M x K, b of N x K and their grids, in float64 on the CPU."""
    a, b, scale_a, scale_b = (t.cpu().double() for t in (a, b, scale_a, scale_b))
    return (a * spread(scale_a, *a.shape)) @ (b * spread(scale_b, *b.shape)).T


@on_every_device
@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_tensorwise_and_rowwise_beside_torch(out_dtype, device):
    m, n, k = 48, 64, 96
    a, b = integers(m, k, device=device), integers(n, k, device=device)
    for scales in ((powers(1)[0], powers(1, 1)), (powers(m, 1), powers(1, n))):
        scales = [scale.to(device) for scale in scales]
        for fast in (False, True):
            got = st.scaled_mm(a, b.t(), *scales, out_dtype=out_dtype, use_fast_accum=fast)
            exact = (a.cpu().double() * scales[0].cpu()) @ (b.cpu().double().T * scales[1].cpu())
            assert got.dtype == out_dtype and torch.equal(got.cpu().double(), exact.to(out_dtype).double())
            if device == "cuda" and out_dtype != torch.bfloat16 and scales[0].numel() > 1:
                continue  # torch on Hopper has row-wise scales for bf16 alone in some versions
            want = torch._scaled_mm(a, b.t(), *scales, out_dtype=out_dtype, use_fast_accum=fast)
            assert torch.equal(got, want)


@on_every_device
def test_type_of_the_result_and_bias(device):
    m, n, k = 16, 32, 64
    a, b = integers(m, k, device=device), integers(n, k, device=device)
    scales = torch.tensor(0.25, device=device), torch.tensor([[0.5]], device=device)
    assert st.scaled_mm(a, b.t(), *scales).dtype == E4M3
    exact = a.cpu().double() @ b.cpu().double().T / 8
    assert torch.equal(st.scaled_mm(a, b.t(), *scales).cpu().float(), exact.to(E4M3).float())
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        bias = integers(n, dtype=dtype, device=device)
        got = st.scaled_mm(a, b.t(), *scales, bias, out_dtype=torch.bfloat16)
        assert torch.equal(got.cpu().double(), (exact + bias.cpu().double()).to(torch.bfloat16).double())
    want = torch._scaled_mm(a, b.t(), *scales, bias.bfloat16(), out_dtype=torch.bfloat16)
    assert torch.equal(got, want)


@on_every_device
@pytest.mark.parametrize("types", [(E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)])
def test_mixed_types(types, device):
    a, b = integers(17, 80, dtype=types[0], device=device), integers(33, 80, dtype=types[1], device=device)
    scales = powers(17, 1, device=device), powers(1, 33, device=device)
    got = st.scaled_mm(a, b.t(), *scales, out_dtype=torch.float32)
    assert torch.equal(got.cpu().double(), reference(a, b, scales[0], scales[1].T))


@on_every_device
@pytest.mark.parametrize("block_a,block_b", [((1, 128), (128, 128)), ((1, 128), (1, 128)), ((128, 128), (1, 128))])
def test_blocks_as_torch_scaled_mm_has_them(block_a, block_b, device):
    m, n, k = 144, 272, 640
    a, b = integers(m, k, device=device), integers(n, k, device=device)
    scale_a = powers(-(-m // block_a[0]), 5, device=device)
    scale_b = powers(-(-n // block_b[0]), 5, device=device)
    got = st.scaled_mm(a, b.t(), scale_a, scale_b.t(), out_dtype=torch.float32)
    assert torch.equal(got.cpu().double(), reference(a, b, scale_a, scale_b))


@on_every_device
@needs_recipes
def test_recipes_of_functional(device):
    S, W = F.ScalingType, F.SwizzleType
    m, n, k = 144, 272, 640
    a, b = integers(m, k, device=device), integers(n, k, device=device)
    padded = torch.full((8, -(-n // 128)), torch.nan, device=device)
    padded[:5] = powers(5, -(-n // 128))
    rows_a, rows_b = powers(m, 5, device=device).t().contiguous().t(), powers(n, 5, device=device)
    cases = [
        (powers(1, device=device), S.TensorWise, powers(1, 1, device=device), S.TensorWise, None, None),
        (powers(m, 1, device=device), S.RowWise, powers(1, n, device=device), S.RowWise, None, "t"),
        (rows_a, S.BlockWise1x128, rows_b, S.BlockWise1x128, None, None),
        (rows_a, S.BlockWise1x128, padded, S.BlockWise128x128, None, "t5"),
        (padded[:, :2], S.BlockWise128x128, rows_b, S.BlockWise1x128, "t5", None),
    ]
    grid = {None: lambda s: s.reshape(1, 1) if s.numel() == 1 else s, "t": lambda s: s.t(), "t5": lambda s: s[:5].t()}
    for scale_a, recipe_a, scale_b, recipe_b, way_a, way_b in cases:
        got = st.scaled_mm(
            a, b.t(), scale_a, scale_b, out_dtype=torch.float32, scale_recipe_a=recipe_a, scale_recipe_b=recipe_b,
            swizzle_a=W.NO_SWIZZLE, swizzle_b=[W.NO_SWIZZLE],
        )  # fmt: skip
        assert torch.equal(got.cpu().double(), reference(a, b, grid[way_a](scale_a), grid[way_b](scale_b)))
        if recipe_a in (S.TensorWise, S.RowWise) and device == "cpu":
            want = F.scaled_mm(a, b.t(), scale_a, recipe_a, scale_b, recipe_b, output_dtype=torch.float32)
            assert torch.equal(got, want)


@on_every_device
@needs_recipes
def test_mxfp8(device):
    S, W = F.ScalingType, F.SwizzleType
    m, n, k = 16, 48, 96
    a, b = integers(m, k, device=device), integers(n, k, device=device)
    scale_a, scale_b = powers(m, 3, device=device).to(E8M0), powers(n, 3, device=device).to(E8M0)
    recipes = {"scale_recipe_a": S.BlockWise1x32, "scale_recipe_b": S.BlockWise1x32}
    got = st.scaled_mm(a, b.t(), scale_a, scale_b, out_dtype=torch.float32, **recipes)
    assert torch.equal(got.cpu().double(), reference(a, b, scale_a.float(), scale_b.float()))
    with pytest.raises(sg.Unsupported, match="swizzle_b: must be SwizzleType.NO_SWIZZLE, got .*SWIZZLE_32_4_4"):
        st.scaled_mm(a, b.t(), scale_a, scale_b, swizzle_b=W.SWIZZLE_32_4_4, **recipes)
    with pytest.raises(sg.Unsupported, match="scale_a: torch.float8_e8m0fnu without a recipe is swizzled"):
        st.scaled_mm(a, b.t(), scale_a, scale_b)


@on_every_device
@needs_recipes
@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no float4_e2m1fn_x2")
def test_nvfp4_and_mxfp4(device):
    S = F.ScalingType
    x, w = torch.randn(16, 96), torch.randn(48, 96)
    for scheme, recipe in (("nvfp4", [S.BlockWise1x16, S.TensorWise]), ("mxfp4", S.BlockWise1x32)):
        qa, qb = sg.quantize(x, scheme, "a"), sg.quantize(w, scheme)
        parts = []
        for q in (qa, qb):
            codes = q.codes.to(device).view(torch.float4_e2m1fn_x2)
            scales = [q.scales.to(device)] + ([] if q.global_scale is None else [q.global_scale.to(device)])
            parts.append((codes, scales))
        (a, scale_a), (b, scale_b) = parts
        recipes = {"scale_recipe_a": recipe, "scale_recipe_b": recipe}
        got = st.scaled_mm(a, b.t(), scale_a, scale_b, out_dtype=torch.float32, **recipes)
        va, vb = sg.dequantize(qa).double(), sg.dequantize(qb).double()
        bound = (va.abs() @ vb.abs().T) * (2.0**-17 if device == "cpu" else 2.0**-11)
        assert ((got.cpu().double() - va @ vb.T).abs() <= bound).all()


@needs_recipes
def test_refused():
    S = F.ScalingType
    a, b, one = integers(16, 64), integers(32, 64), torch.ones(())
    refused = [
        ({"scale_result": one}, "scale_result: must be None"),
        ({"mat_b": b}, "mat_b: must have the K of mat_a, 64, has 32"),
        ({"mat_a": a[0]}, "must have 2 dimensions, have 1 and 2"),
        ({"scale_a": torch.ones(7, 1)}, r"scale_a: must be one of .* is \(7, 1\)"),
        ({"scale_a": torch.ones(16, 1), "scale_b": torch.ones(32, 1)}, r"scale_b: must be one of .* is \(32, 1\)"),
        ({"scale_a": one.double()}, "scale_a: dtype must be torch.float32, got torch.float64"),
        ({"scale_a": [one]}, "scale_a: a list needs scale_recipe_a"),
        ({"scale_recipe_a": S.TensorWise}, "give both or neither"),
        ({"scale_recipe_a": S.RowWise, "scale_recipe_b": S.RowWise}, r"scale_a: must be \(16, 1\) for RowWise, is \(\)"),
        ({"scale_recipe_a": S.BlockWise1x32, "scale_recipe_b": S.TensorWise}, "must be torch.float8_e8m0fnu, got"),
        ({"scale_recipe_a": [S.TensorWise, S.RowWise], "scale_recipe_b": S.TensorWise}, "scale_a: must be one scale"),
    ]
    good = {"mat_a": a, "mat_b": b.t(), "scale_a": one, "scale_b": one}
    for wrong, match in refused:
        with pytest.raises(sg.Error, match=match):
            st.scaled_mm(**{**good, **wrong})


@on_every_device
def test_compiles_and_passes_opcheck(device):
    a, b = integers(16, 64, device=device), integers(32, 64, device=device)
    scales = powers(16, 1, device=device), powers(1, 32, device=device)

    def product(a, b, scale_a, scale_b):
        return st.scaled_mm(a, b.t(), scale_a, scale_b, out_dtype=torch.bfloat16) + 1

    torch._dynamo.reset()
    compiled = torch.compile(product, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(a, b, *scales), product(a, b, *scales))
    arguments = (a, b, scales[0], scales[1].t(), None, None, None, [1, 0], [1, 0], torch.bfloat16, "promoted")
    torch.library.opcheck(
        torch.ops.scalegemm.scaled_mm.default,
        arguments,
        # test_schema compares inputs before and after, which torch cannot for float8 on the CPU
        test_utils=["test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"],
    )


def test_rows_of_none():
    one = torch.ones(())
    assert st.scaled_mm(integers(0, 64), integers(32, 64).t(), one, one, out_dtype=torch.float32).shape == (0, 32)
