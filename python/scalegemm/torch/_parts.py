"""What a quantised matrix consists of as tensors, and the values that these stand for."""

from __future__ import annotations

import functools
from typing import Literal, Optional

import torch

from .. import _api, _core
from .._errors import InvalidArgument

#: What x is multiplied as: what the scheme says, or what it is (weights alone quantised).
Activations = Literal["scheme", "keep"]

PARTS = ("codes", "scales", "zeros", "global_scale")

_NAMES: dict[str, str] = _core.library_names()
_BITS4 = ("e2m1", "int4", "uint4")
_FLOATS = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
# The e2m1 values by code (OCP MX v1.0, 5.3.3).
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


@functools.lru_cache(maxsize=None)
def operands(scheme: str) -> tuple[_core.Operand, _core.Operand]:
    return _core.operands(scheme)


@functools.lru_cache(maxsize=None)
def float_operand(dtype: torch.dtype) -> _core.Operand:
    """x as it is."""
    name = _FLOATS.get(dtype)
    if name is None:
        raise InvalidArgument(f"x: dtype must be torch.float32, float16 or bfloat16, got {dtype}")
    return _core.Operand(name)


def operand_a(scheme: str, activations: str, dtype: torch.dtype) -> _core.Operand:
    kept = float_operand(dtype)
    if activations not in ("scheme", "keep"):
        raise InvalidArgument(f"activations: must be 'scheme' or 'keep', got {activations!r}")
    return operands(scheme)[0] if activations == "scheme" else kept


def torch_dtype(name: str) -> torch.dtype:
    """How torch stores it. 4-bit codes are bytes of two, 4-bit zero points bytes of one."""
    if name in _BITS4:
        return torch.uint8
    own = getattr(torch, _NAMES[name], None)
    if own is None:
        raise InvalidArgument(f"dtype: this torch has no type for {name}")
    return own


def _blocks(extent: int, block: int) -> int:
    return 1 if block == 0 else -(-extent // block)


def empty_parts(operand: _core.Operand, n: int, k: int, device: Optional[torch.device]) -> dict[str, torch.Tensor]:
    """Zeroed codes, scales, zero points and global factor of an N x K matrix: those that the operand has."""
    if operand.dtype in _BITS4 and k % 2 != 0:
        raise InvalidArgument(f"in_features: must be even for {operand.dtype}, got {k}")
    grid = (_blocks(n, operand.block[0]), _blocks(k, operand.block[1]))
    wanted = {"codes": (operand.dtype, (n, k // 2 if operand.dtype in _BITS4 else k))}
    if operand.scale is not None:
        wanted["scales"] = (operand.scale, grid)
    if operand.zero is not None:
        wanted["zeros"] = (operand.zero, grid)
    if operand.has_global:
        wanted["global_scale"] = ("f32", (1,))
    parts = {}
    for name, (dtype, shape) in wanted.items():
        own = torch_dtype(dtype)
        # Bytes, since not every type can be filled.
        raw = torch.zeros((*shape[:-1], shape[-1] * own.itemsize), dtype=torch.uint8, device=device)
        parts[name] = raw.view(own)
    return parts


def quantize_weight(weight: torch.Tensor, operand: _core.Operand) -> dict[str, torch.Tensor]:
    """The parts of a weight, quantised on the CPU, on the weight's device."""
    q = _api.quantize(weight.detach().float().cpu().contiguous(), operand)
    parts = {name: getattr(q, name) for name in PARTS}
    return {name: part.to(weight.device) for name, part in parts.items() if part is not None}


def _nibbles(codes: torch.Tensor) -> torch.Tensor:
    """One 4-bit code an element, even k from the low nibble."""
    return torch.stack((codes & 15, codes >> 4), -1).flatten(-2)


def _signed4(nibbles: torch.Tensor) -> torch.Tensor:
    return ((nibbles.to(torch.int8) ^ 8) - 8).float()


def _values(codes: torch.Tensor, dtype: str) -> torch.Tensor:
    """f32 values of codes as they are stored in a matrix."""
    if dtype == "e2m1":
        return torch.tensor(_E2M1, device=codes.device)[_nibbles(codes.view(torch.uint8)).long()]
    if dtype == "int4":
        return _signed4(_nibbles(codes))
    if dtype == "uint4":
        return _nibbles(codes).float()
    return codes.float()


def _zero_values(zeros: torch.Tensor, dtype: str) -> torch.Tensor:
    if dtype == "int4":
        return _signed4(zeros.view(torch.uint8) & 15)
    return (zeros & 15).float() if dtype == "uint4" else zeros.float()


def _spread(grid: torch.Tensor, block: tuple[int, int], shape: torch.Size) -> torch.Tensor:
    """A value of each block for each element: rows x K, or 1 where a block has all of them."""
    for dim, extent in enumerate(block):
        if extent > 1:
            grid = grid.repeat_interleave(extent, dim).narrow(dim, 0, shape[dim])
    return grid


def values_of(
    operand: _core.Operand,
    codes: torch.Tensor,
    scales: Optional[torch.Tensor],
    zeros: Optional[torch.Tensor],
    global_scale: Optional[torch.Tensor],
) -> torch.Tensor:
    """(code - zero) * scale * global in f32, with the roundings of scalegemm.dequantize, on any device."""
    values = _values(codes, operand.dtype)
    if scales is None:
        return values
    if zeros is not None:
        values = values - _spread(_zero_values(zeros, operand.zero), operand.block, values.shape)
    factor = scales.float()
    if global_scale is not None:
        factor = factor * global_scale
    return values * _spread(factor, operand.block, values.shape)
