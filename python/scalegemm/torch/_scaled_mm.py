"""scaled_mm: torch's scaled products, by the arguments of torch._scaled_mm or the recipes of torch.nn.functional.

The shapes of scales are those of torch 2.15: ATen/native/cuda/ScaledBlas.cpp and torch/_meta_registrations.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from .._errors import InvalidArgument, Unsupported
from ._ops import SCALED_MM

_Scales = Union[Tensor, list[Tensor], tuple[Tensor, ...]]


class _Recipe(NamedTuple):
    name: str
    rows: int
    """Rows and K that one scale serves; 0: all."""
    k: int
    dtype: torch.dtype


# By the number that torch.nn.functional.ScalingType has.
_RECIPES = (
    _Recipe("TensorWise", 0, 0, torch.float32),
    _Recipe("RowWise", 1, 0, torch.float32),
    _Recipe("BlockWise1x16", 1, 16, torch.float8_e4m3fn),
    _Recipe("BlockWise1x32", 1, 32, torch.float8_e8m0fnu),
    _Recipe("BlockWise1x128", 1, 128, torch.float32),
    _Recipe("BlockWise128x128", 128, 128, torch.float32),
)
_FP4 = getattr(torch, "float4_e2m1fn_x2", None)


class _Side(NamedTuple):
    codes: Tensor  # rows x K
    scales: Tensor  # blocks of rows x blocks of K
    factor: Optional[Tensor]
    block: tuple[int, int]


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: _Scales,
    scale_b: _Scales,
    bias: Optional[Tensor] = None,
    scale_result: Optional[Tensor] = None,
    out_dtype: Optional[torch.dtype] = None,
    use_fast_accum: bool = False,
    *,
    scale_recipe_a: Any = None,
    scale_recipe_b: Any = None,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
) -> Tensor:
    """(mat_a * scale_a) @ (mat_b * scale_b) + bias, with the arguments of torch._scaled_mm in their order.

    Args:
        mat_a: M x K, float8 of any kind, or float4_e2m1fn_x2 (M x K/2).
        mat_b: K x N (float4_e2m1fn_x2: K/2 x N), as torch has it; contiguous along K or, 8-bit, along N.
        scale_a, scale_b: without recipes their shapes say what they are, as in torch._scaled_mm: one element;
            M x 1 with 1 x N; f32 blocks, M x K/128 (or M/128 x K/128) with K/128 x N/128 (or K/128 x N), all rounded
            up. With recipes: those of torch.nn.functional.scaled_mm: 1 x 128 blocks of mat_b are N x K/128, 128 x 128
            blocks of either are K/128 x rows/128, where K/128 may be padded to a multiple of 4; 1 x 32 blocks
            (e8m0) and 1 x 16 (e4m3) are M x K/32 and N x K/32, plain. Any strides.
            NVFP4 with a global factor: lists of two, as in torch.
        bias: N, f32, f16 or bf16.
        scale_result: must be None.
        out_dtype: f32, f16, bf16, e4m3, e5m2 (these saturate); None: that of mat_a.
        use_fast_accum: on a GPU let tensor cores keep sums over all of K, as torch's flag; False: sums are promoted.
        scale_recipe_a, scale_recipe_b: torch.nn.functional.ScalingType, both or neither.
        swizzle_a, swizzle_b: SwizzleType.NO_SWIZZLE or None, which is the same.

    Returns:
        M x N.

    Raises:
        InvalidArgument: shapes and types that do not fit.
        Unsupported: swizzled scales, scale_result. Without recipes torch takes e8m0 and e4m3 scales to be swizzled, so
            here they need recipes.
    """
    if scale_result is not None:
        raise Unsupported("scale_result: must be None")
    if mat_a.dim() != 2 or mat_b.dim() != 2:
        raise InvalidArgument(f"mat_a, mat_b: must have 2 dimensions, have {mat_a.dim()} and {mat_b.dim()}")
    k = mat_a.shape[1] * _codes_a_byte(mat_a)
    k_b = mat_b.shape[0] * _codes_a_byte(mat_b)
    if k != k_b:
        raise InvalidArgument(f"mat_b: must have the K of mat_a, {k}, has {k_b}")
    out_dtype = mat_a.dtype if out_dtype is None else out_dtype
    if out_dtype == _FP4:
        raise InvalidArgument("out_dtype: must be given for 4-bit mat_a")
    if (scale_recipe_a is None) != (scale_recipe_b is None):
        raise InvalidArgument("scale_recipe_a, scale_recipe_b: give both or neither")
    _require_plain(swizzle_a, "swizzle_a")
    _require_plain(swizzle_b, "swizzle_b")
    if scale_recipe_a is None:
        a, b = _infer(mat_a, mat_b.t(), scale_a, scale_b, k)
    else:
        a = _by_recipe("a", mat_a, scale_a, scale_recipe_a, k)
        b = _by_recipe("b", mat_b.t(), scale_b, scale_recipe_b, k)
    return SCALED_MM(
        a.codes,
        b.codes,
        a.scales,
        b.scales,
        a.factor,
        b.factor,
        bias,
        a.block,
        b.block,
        out_dtype,
        "fast" if use_fast_accum else "promoted",
    )


def _codes_a_byte(codes: Tensor) -> int:
    return 2 if codes.dtype == _FP4 else 1


def _list(value: Any) -> list:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _number(value: Any) -> int:
    """Of an enumerator of torch (whose types differ between its versions)."""
    return int(getattr(value, "value", value))


def _require_plain(swizzle: Any, name: str) -> None:
    for one in _list(swizzle):
        if one is not None and _number(one) != 0:
            raise Unsupported(f"{name}: must be SwizzleType.NO_SWIZZLE, got {one}")


def _blocks(extent: int, block: int) -> int:
    return 1 if block == 0 else -(-extent // block)


def _infer(a: Tensor, b: Tensor, scale_a: _Scales, scale_b: _Scales, k: int) -> tuple[_Side, _Side]:
    """torch._scaled_mm's reading of shapes; b is N x K."""
    for scale, name in ((scale_a, "scale_a"), (scale_b, "scale_b")):
        if not isinstance(scale, Tensor):
            raise InvalidArgument(f"{name}: a list needs scale_recipe_a and scale_recipe_b")
        if scale.dtype in (torch.float8_e8m0fnu, torch.float8_e4m3fn):
            raise Unsupported(
                f"{name}: {scale.dtype} without a recipe is swizzled in torch._scaled_mm; give plain scales with "
                f"scale_recipe_a, scale_recipe_b"
            )
        if scale.dtype != torch.float32:
            raise InvalidArgument(f"{name}: dtype must be torch.float32, got {scale.dtype}")
    if scale_a.numel() == 1 and scale_b.numel() == 1:
        return tuple(_Side(m, s.reshape(1, 1), None, (0, 0)) for m, s in ((a, scale_a), (b, scale_b)))
    m, n, kb = a.shape[0], b.shape[0], _blocks(k, 128)
    blocks_a = {(m, 1): (1, 0), (m, kb): (1, 128), (_blocks(m, 128), kb): (128, 128)}
    blocks_b = {(1, n): (1, 0), (kb, _blocks(n, 128)): (128, 128), (kb, n): (1, 128)}
    block_a, block_b = blocks_a.get(tuple(scale_a.shape)), blocks_b.get(tuple(scale_b.shape))
    if block_a is None:
        raise InvalidArgument(f"scale_a: must be one of {list(blocks_a)}, or one element, is {tuple(scale_a.shape)}")
    if block_b is None:
        raise InvalidArgument(f"scale_b: must be one of {list(blocks_b)}, or one element, is {tuple(scale_b.shape)}")
    return _Side(a, scale_a, None, block_a), _Side(b, scale_b.t(), None, block_b)


def _by_recipe(side: str, codes: Tensor, given: _Scales, recipe: Any, k: int) -> _Side:
    scales, recipes = _list(given), [_RECIPES[_number(r)] for r in _list(recipe)]
    name = f"scale_{side}"
    names = [r.name for r in recipes]
    if len(scales) != len(recipes) or (len(names) != 1 and names != ["BlockWise1x16", "TensorWise"]):
        raise InvalidArgument(
            f"{name}: must be one scale with one recipe, or two with [BlockWise1x16, TensorWise], is {len(scales)} "
            f"with {names}"
        )
    first = recipes[0]
    for scale, one in zip(scales, recipes):
        if scale.dtype != one.dtype:
            raise InvalidArgument(f"{name}: dtype of {one.name} must be {one.dtype}, got {scale.dtype}")
    rows = codes.shape[0]
    grid = (_blocks(rows, first.rows), _blocks(k, first.k))
    factor = scales[1].reshape(1) if len(scales) == 2 else None
    return _Side(codes, _plain_grid(name, scales[0], first, grid, side), factor, (first.rows, first.k))


def _plain_grid(name: str, scale: Tensor, recipe: _Recipe, grid: tuple[int, int], side: str) -> Tensor:
    """A recipe's scales as blocks of rows x blocks of K."""
    rows, kb = grid
    shape = tuple(scale.shape)
    if recipe.name == "TensorWise":
        wanted = "one element"
        if scale.numel() == 1:
            return scale.reshape(1, 1)
    elif recipe.name == "RowWise" and side == "b":
        wanted = f"(1, {rows})"
        if shape == (1, rows):
            return scale.t()
    elif recipe.rows > 1:
        padded = -(-kb // 4) * 4
        wanted = f"({kb}, {rows}) or ({padded}, {rows})"
        if shape in ((kb, rows), (padded, rows)):
            return scale[:kb].t()
    else:
        wanted = f"({rows}, {kb})"
        if shape == (rows, kb):
            return scale
    raise InvalidArgument(f"{name}: must be {wanted} for {recipe.name}, is {shape}")
