"""scalegemm: block-scaled matrix multiplication for low-precision weights and activations.

    D = clamp(act(alpha * A @ B.T + beta * C + bias))

A is M x K, B is N x K (one row per output column, as linear layers store it), D is M x N; each may have a batch
dimension before. A *scheme* such as "mxfp4" or "bquant:a=bf16,b=int4,g=32" says how A and B are quantised.

Arrays of NumPy (with ml_dtypes), torch, JAX and CuPy are used where they lie: pointer, shape and strides. Nothing is
copied, converted or cast; an array that does not fit is an error that says what was needed. See docs/python.md.
"""

from ._api import (
    SchemeInfo,
    dequantize,
    devices,
    explain,
    matmul,
    operands,
    pack,
    pack4,
    plan,
    problem,
    quantize,
    runtime,
    schemes,
    view,
)
from ._checkpoint import Weight
from ._core import (
    Checkpoint,
    DeviceInfo,
    Layer,
    Operand,
    Packed,
    PackedInfo,
    Plan,
    Problem,
    Quantized,
    Runtime,
    Support,
    Tensor,
    version,
)
from ._errors import (
    CompileFailed,
    CorruptData,
    Error,
    InternalError,
    InvalidArgument,
    IoError,
    LaunchFailed,
    NoDevice,
    NotBuilt,
    OutOfMemory,
    Unsupported,
)

__version__: str = version()

__all__ = [
    "Checkpoint",
    "CompileFailed",
    "CorruptData",
    "DeviceInfo",
    "Error",
    "InternalError",
    "InvalidArgument",
    "IoError",
    "LaunchFailed",
    "Layer",
    "NoDevice",
    "NotBuilt",
    "Operand",
    "OutOfMemory",
    "Packed",
    "PackedInfo",
    "Plan",
    "Problem",
    "Quantized",
    "Runtime",
    "SchemeInfo",
    "Support",
    "Tensor",
    "Unsupported",
    "Weight",
    "dequantize",
    "devices",
    "explain",
    "matmul",
    "operands",
    "pack",
    "pack4",
    "plan",
    "problem",
    "quantize",
    "runtime",
    "schemes",
    "view",
]
