"""Activations on a GPU under scales that a whole matrix decides, which the library's one-pass quantisers leave out.

docs/numerics.md has the formulas; the codes and scales are those of scalegemm.quantize, bit for bit.
"""

from __future__ import annotations

from typing import Union

import torch

from .. import _core
from .._errors import Unsupported
from ._parts import torch_dtype

# Largest values (OCP OFP8 1.0; OCP MX v1.0, 5.3.3).
_LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "e2m1": 6.0, "int8": 127.0}
# Midpoints of neighbouring e2m1 magnitudes; a tie goes to the even code, which alternates.
_E2M1_MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
_LEAST_GLOBAL = 2.0**-117


def needed(operand: _core.Operand) -> bool:
    """Whether the scales are known only after all rows were read."""
    return operand.scale is not None and (operand.has_global or operand.block[0] != 1)


def quantize(x: torch.Tensor, operand: _core.Operand) -> _core.Quantized:
    """Rows x K of f32, f16 or bf16, with f32 or e4m3 scales, on any device.

    Scalars are arguments of kernels, never tensors to be copied, so that a CUDA graph can hold it.
    """
    whole = operand.block == (0, 0)
    if operand.zero is not None or operand.dtype not in _LARGEST or not (whole or operand.block[0] == 1):
        raise Unsupported(f"x: a GPU does not quantise activations to {operand}")
    if operand.scale not in ("f32", "e4m3"):
        raise Unsupported(f"x: scales of activations on a GPU must be f32 or e4m3 here, got {operand.scale}")
    x = x.float()
    rows, k = x.shape
    width = operand.block[1] or k
    blocks = -(-k // width)
    padded = torch.nn.functional.pad(x, (0, blocks * width - k)).view(rows, blocks, width)
    amax = x.abs().amax().view(1, 1) if whole else padded.abs().amax(2)
    largest = _LARGEST[operand.dtype]
    factor = None
    if operand.has_global:
        finite = x.abs().masked_fill(~x.isfinite(), 0).amax().view(1)
        ideal = (finite.double() / (largest * _LARGEST["e4m3"])).float().clamp_min(_LEAST_GLOBAL)
        factor = ideal.masked_fill(finite == 0, 1)
    scales = _stored_scale(amax, largest if factor is None else largest * factor.double(), operand)
    used = scales.float() if factor is None else scales.float() * factor
    used = used.view(*used.shape, 1)
    steps = (padded / used).masked_fill(used.isnan(), 0).view(rows, blocks * width)[:, :k]
    return _core.Quantized(_codes(steps, operand.dtype), operand, scales=scales, global_scale=factor)


def _stored_scale(amax: torch.Tensor, divisor: Union[float, torch.Tensor], operand: _core.Operand) -> torch.Tensor:
    ideal = amax.double() / divisor
    if operand.scale == "e4m3":
        # Rounded from double, since f32 in between would round twice. With ideal = mantissa * 2^e and the mantissa in
        # [1/2, 1), codes are 2^(e - 4) apart, and 2^-9 below 2^-6; 2^e is the quotient of both, without an error.
        clamped = ideal.clamp(2.0**-6, 448.0)
        step = clamped / torch.frexp(clamped).mantissa * 2.0**-4
        scale = (torch.round(ideal / step) * step).clamp(2.0**-9, 448.0).float()
    else:
        scale = ideal.float().clamp_min(2.0**-149)
    scale = scale.masked_fill(amax == 0, 1).masked_fill(~amax.isfinite(), torch.nan)
    return scale.to(torch_dtype(operand.scale))


def _codes(steps: torch.Tensor, dtype: str) -> torch.Tensor:
    largest = _LARGEST[dtype]
    if dtype == "int8":
        return steps.clamp(-largest, largest).round().to(torch.int8)
    if dtype != "e2m1":
        return steps.clamp(-largest, largest).to(torch_dtype(dtype))
    size = steps.abs()
    code = steps.signbit().to(torch.uint8) << 3
    for index, midpoint in enumerate(_E2M1_MIDPOINTS):
        code += size > midpoint if index % 2 == 0 else size >= midpoint
    return code[:, 0::2] | code[:, 1::2] << 4
