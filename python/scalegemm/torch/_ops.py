"""The operators, `torch.ops.scalegemm.*`: implementations, fake kernels, gradients."""

from __future__ import annotations

import atexit
import weakref
from typing import Optional

import torch
from torch import Tensor

from .. import _api, _core
from .._errors import InvalidArgument
from ._parts import Activations, float_operand, operand_a, operands, torch_dtype, values_of
from . import _two_pass

_library = torch.library.Library("scalegemm", "DEF")

_WEIGHT = "Tensor codes, Tensor? scales, Tensor? zeros, Tensor? global_scale"
_TAGS = (torch.Tag.pt2_compliant_tag,)
_library.define(f"linear(Tensor x, {_WEIGHT}, Tensor? bias, str scheme, str activations) -> Tensor", tags=_TAGS)
_library.define(f"dequantize({_WEIGHT}, str scheme) -> Tensor", tags=_TAGS)
_library.define(
    "scaled_mm(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? global_a, Tensor? global_b, Tensor? bias, "
    "int[] block_a, int[] block_b, ScalarType out_dtype, str accuracy) -> Tensor",
    tags=_TAGS,
)

# Overloads: finding one by its arguments costs as much as a small product.
_LINEAR = torch.ops.scalegemm.linear.default
_DEQUANTIZE = torch.ops.scalegemm.dequantize.default
SCALED_MM = torch.ops.scalegemm.scaled_mm.default

# Packed weights of the CPU by their codes' storage: made at the first product, dropped with the storage. The key beside
# one says what it was made of; a weight that was written to since (torch counts that) is packed anew.
_packed: dict[int, tuple[weakref.ref, tuple, _core.Packed]] = {}


# torch keeps the operators, and so this module, past the end of the interpreter.
for _cache_clear in (_packed.clear, operands.cache_clear, float_operand.cache_clear):
    atexit.register(_cache_clear)


def _state(part: Optional[Tensor]) -> Optional[tuple]:
    if part is None:
        return None
    return part.data_ptr(), part._version, part.shape, part.stride()


def _weight(parts: tuple[Optional[Tensor], ...], a: _core.Operand, b: _core.Operand):
    """Packed on the CPU; raw on GPUs, which take their weights so, and where torch does not count writes."""
    if parts[0].is_cuda or any(part is not None and part.is_inference() for part in parts):
        return _quantized(parts, b)
    storage = parts[0].untyped_storage()
    key = (a, b, *map(_state, parts))
    kept = _packed.get(id(storage))
    if kept is not None and kept[0]() is storage and kept[1] == key:
        return kept[2]
    q = _quantized(parts, b)
    packed = _api.runtime().pack(_core.weight_problem(a, q), q)
    number = id(storage)
    _packed[number] = (weakref.ref(storage, lambda _: _packed.pop(number, None)), key, packed)
    return packed


def _quantized(parts: tuple[Optional[Tensor], ...], operand: _core.Operand) -> _core.Quantized:
    codes, scales, zeros, global_scale = parts
    return _core.Quantized(codes, operand, scales=scales, zeros=zeros, global_scale=global_scale)


def _cast(x: Tensor, operand: _core.Operand):
    """x in the operand's type, without scales."""
    own = torch_dtype(operand.dtype)
    if own in (torch.float32, torch.float16, torch.bfloat16):
        return x.to(own)
    return _api.quantize(x if x.is_cuda else x.float(), operand)


def _activations(x: Tensor, operand: _core.Operand):
    """x, rows x K, as A."""
    if operand.scale is None:
        return _cast(x, operand)
    if _two_pass.needed(operand):
        return _two_pass.quantize(x, operand) if x.is_cuda else _api.quantize(x.float(), operand)
    return _api.quantize(x if operand.zero is None else x.float(), operand)


def _linear(x, codes, scales, zeros, global_scale, bias, scheme: str, activations: str) -> Tensor:
    a, b = operand_a(scheme, activations, x.dtype), operands(scheme)[1]
    if x.device != codes.device:
        raise InvalidArgument(f"x: must be on {codes.device}, as the weight, is on {x.device}")
    rows = x.reshape(-1, x.shape[-1])
    if rows.stride(1) != 1:
        rows = rows.contiguous()
    out = torch.empty((rows.shape[0], codes.shape[0]), dtype=x.dtype, device=x.device)
    if rows.shape[0] != 0:
        weight = _weight((codes, scales, zeros, global_scale), a, b)
        _api.matmul(_activations(rows, a), weight, bias=bias, out=out)
    return out.view(*x.shape[:-1], codes.shape[0])


def _linear_fake(x, codes, scales, zeros, global_scale, bias, scheme: str, activations: str) -> Tensor:
    operand_a(scheme, activations, x.dtype)
    b = operands(scheme)[1]
    torch._check(
        x.shape[-1] == codes.shape[1] * _codes_a_byte(b),
        lambda: f"x: must have {codes.shape[1] * _codes_a_byte(b)} columns, the weight's K, has {x.shape[-1]}",
    )
    return x.new_empty((*x.shape[:-1], codes.shape[0]))


def _codes_a_byte(operand: _core.Operand) -> int:
    return 2 if operand.dtype in ("e2m1", "int4", "uint4") else 1


def _dequantize(codes, scales, zeros, global_scale, scheme: str) -> Tensor:
    return values_of(operands(scheme)[1], codes, scales, zeros, global_scale)


def _dequantize_fake(codes, scales, zeros, global_scale, scheme: str) -> Tensor:
    k = codes.shape[1] * _codes_a_byte(operands(scheme)[1])
    return codes.new_empty((codes.shape[0], k), dtype=torch.float32)


def _scaled_mm(a, b, scale_a, scale_b, global_a, global_b, bias, block_a, block_b, out_dtype, accuracy: str) -> Tensor:
    out = torch.empty((a.shape[0], b.shape[0]), dtype=out_dtype, device=a.device)
    if out.numel() == 0:
        return out
    sides = []
    for codes, scale, factor, block in ((a, scale_a, global_a, block_a), (b, scale_b, global_b, block_b)):
        name = _core.dtype_of(codes, "a" if codes is a else "b")
        operand = _core.Operand(
            name, scale=_core.dtype_of(scale, "scale"), block=tuple(block), has_global=factor is not None
        )
        sides.append(_core.Quantized(codes, operand, scales=scale, global_scale=factor))
    return _api.matmul(*sides, bias=bias, out=out, accuracy=accuracy)


def _scaled_mm_fake(a, b, scale_a, scale_b, global_a, global_b, bias, block_a, block_b, out_dtype, accuracy) -> Tensor:
    return a.new_empty((a.shape[0], b.shape[0]), dtype=out_dtype)


# One implementation for every device: the library finds the device in the tensors.
for _name, _kernel, _fake in (
    ("linear", _linear, _linear_fake),
    ("dequantize", _dequantize, _dequantize_fake),
    ("scaled_mm", _scaled_mm, _scaled_mm_fake),
):
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, _kernel, _key)
    torch.library.register_fake(f"scalegemm::{_name}", _fake, lib=_library)


def _keep_for_backward(ctx, inputs, output) -> None:
    x, *parts, bias, scheme, _ = inputs
    ctx.save_for_backward(*parts)
    ctx.scheme, ctx.dtype = scheme, x.dtype
    ctx.bias_dtype = None if bias is None else bias.dtype


def _linear_backward(ctx, grad: Tensor):
    """d/dx = grad @ W, with W as its codes say and x taken as unquantised; d/dbias sums rows; none for the weight."""
    grad_x = grad_bias = None
    if ctx.needs_input_grad[0]:
        weight = _DEQUANTIZE(*ctx.saved_tensors, ctx.scheme)
        grad_x = grad @ weight.to(ctx.dtype)
    if ctx.needs_input_grad[5]:
        grad_bias = grad.reshape(-1, grad.shape[-1]).sum(0, dtype=torch.float32).to(ctx.bias_dtype)
    return grad_x, None, None, None, None, grad_bias, None, None


torch.library.register_autograd(
    "scalegemm::linear", _linear_backward, setup_context=_keep_for_backward, lib=_library
)


def linear(
    x: Tensor,
    codes: Tensor,
    scales: Optional[Tensor] = None,
    zeros: Optional[Tensor] = None,
    global_scale: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    *,
    scheme: str,
    activations: Activations = "scheme",
) -> Tensor:
    """x @ W.T + bias for W of N x K in the codes and scales of a scheme: torch.ops.scalegemm.linear.

    Args:
        x: ... x K, f32, f16 or bf16. Differentiable, as if it were not quantised: its gradient is grad @ W.
        codes, scales, zeros, global_scale: W as scalegemm.quantize(w, scheme) gives it, on x's device. No gradient.
            On the CPU they are packed at the first call, and again after they were written to in a way that torch
            counts (not through `.data` or NumPy); the packed copy lives as long as the storage of codes.
        bias: N, f32, f16 or bf16; differentiable.
        scheme: a scheme. activations: "scheme": x is quantised or cast to what the scheme's A is; "keep": x stays
            what it is.

    Returns:
        ... x N in the type of x.

    Raises:
        InvalidArgument, Unsupported.
    """
    return _LINEAR(x, codes, scales, zeros, global_scale, bias, scheme, activations)


def dequantize(
    codes: Tensor,
    scales: Optional[Tensor] = None,
    zeros: Optional[Tensor] = None,
    global_scale: Optional[Tensor] = None,
    *,
    scheme: str,
) -> Tensor:
    """The f32 matrix, N x K, of weights in a scheme, on any device: torch.ops.scalegemm.dequantize."""
    return _DEQUANTIZE(codes, scales, zeros, global_scale, scheme)
