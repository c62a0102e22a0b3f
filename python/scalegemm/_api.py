"""The functions of the package: thin, typed, over _core."""

from __future__ import annotations

import threading
from typing import Any, Literal, NamedTuple, Optional, Union

from . import _arrays, _core
from ._core import DeviceInfo, Operand, Packed, Plan, Problem, Quantized, Runtime, Tensor
from ._errors import InvalidArgument

#: An array of NumPy, torch, JAX (CPU) or CuPy, or a Tensor.
Array = Any
Activation = Literal["none", "relu", "gelu_tanh", "gelu_erf", "silu"]
Accuracy = Literal["promoted", "fast", "exact"]

_lock = threading.Lock()
_default: Optional[Runtime] = None


class SchemeInfo(NamedTuple):
    """A quantisation scheme that every function here takes by name."""

    name: str
    description: str
    bits_per_weight: float
    """Of B, scales counted, at large N and K."""
    is_preset: bool
    """False: a well-known instance of a preset, such as "bquant:a=bf16,b=int4,g=128"."""


def runtime() -> Runtime:
    """The runtime of this process, made at the first call: threads, kernels and plans that all calls share."""
    global _default
    with _lock:
        if _default is None:
            _default = Runtime()
        return _default


def devices() -> list[DeviceInfo]:
    """Devices of this machine: "cpu", then "cuda:0" and so on."""
    return runtime().devices()


def schemes() -> list[SchemeInfo]:
    """The schemes that have names. Others are written with keys, as "abquant:g=128,bn=128" (docs/cli.md)."""
    return [SchemeInfo(*row) for row in _core.schemes()]


def operands(scheme: str) -> tuple[Operand, Operand]:
    """How a scheme quantises A and B."""
    return _core.operands(scheme)


def view(array: Array, dtype: str) -> Tensor:
    """Says what the bytes of an array are; nothing is copied.

    Args:
        array: uint8, or uint16 for the 16-bit types, of any library; or an array that has that type already.
        dtype: "e4m3", "e4m3_fnuz", "e5m2", "e5m2_fnuz", "e2m1", "e8m0", "int4", "uint4", "bf16", ...
            4-bit codes are two a byte along the last dimension, the even index in the low nibble, so the array
            has K/2 columns; 4-bit zero points are one a byte.

    Raises:
        InvalidArgument: the array's elements have another size, or another type already.
    """
    return _core.view(array, dtype)


def pack4(array: Array) -> Tensor:
    """Two 4-bit codes a byte from a NumPy array of ml_dtypes.float4_e2m1fn, int4 or uint4, which holds one a byte.

    Args:
        array: ... x K, K even.

    Returns:
        A new array of ... x K/2 bytes, as a Tensor of the same type.
    """
    import numpy

    names = {"float4_e2m1fn": "e2m1", "int4": "int4", "uint4": "uint4"}
    dtype = names.get(str(array.dtype))
    if dtype is None or array.shape[-1] % 2 != 0:
        raise InvalidArgument(
            f"array: must be ml_dtypes float4_e2m1fn, int4 or uint4 with an even last extent, "
            f"got {array.dtype} {tuple(array.shape)}"
        )
    nibbles = numpy.asarray(array).view(numpy.uint8) & 15
    return view(nibbles[..., 0::2] | nibbles[..., 1::2] << 4, dtype)


def _operand(scheme: Union[str, Operand], side: str) -> Operand:
    if side not in ("a", "b"):
        raise InvalidArgument(f"side: must be 'a' or 'b', got {side!r}")
    return scheme if isinstance(scheme, Operand) else _core.operands(scheme)[side == "b"]


def quantize(
    x: Array,
    scheme: Union[str, Operand],
    side: Literal["a", "b"] = "b",
    *,
    rounding: Literal["floor", "even", "ceil"] = "floor",
) -> Quantized:
    """Quantises a matrix: weights (side "b") or activations ("a").

    Args:
        x: f32, rows x K or batch x rows x K, any strides. On the CPU for every operand. f16, bf16, and arrays on a
            GPU: for operands with scales of single rows, without zero points and global factor.
        scheme: a scheme, of which `side` is taken, or an Operand.
        rounding: of e8m0 scales: which power of two for a largest value between two (OCP MX v1.0, 6.3: "floor").

    Returns:
        Codes, scales, zero points and global factor as new arrays of x's library. They have the library's own type;
        where it has none they are bytes: uint8 (4-bit codes: two a byte, K/2 columns), of bf16 uint16. NumPy itself
        has f32, f16, int8 and int32: `q.codes.view(ml_dtypes.float8_e4m3fn)` looks at e4m3 codes.

    Raises:
        InvalidArgument, Unsupported.
    """
    return _core.quantize(runtime(), x, _operand(scheme, side), rounding)


def dequantize(q: Quantized) -> Array:
    """The f32 matrix that the codes stand for: (code - zero) * scale * global. CPU only."""
    return _core.dequantize(q)


def problem(
    scheme: Union[str, tuple[Operand, Operand]],
    m: int,
    n: int,
    k: int,
    *,
    layout: str = "rcr",
    batch: int = 1,
    out_dtype: str = "f32",
    bias_dtype: Optional[str] = None,
    c_dtype: Optional[str] = None,
    activation: Activation = "none",
    clamp: Optional[tuple[float, float]] = None,
    accuracy: Accuracy = "promoted",
    batch_invariant: bool = False,
    packed: bool = False,
) -> Problem:
    """What is asked of a plan.

    Args:
        scheme: a scheme, or the operands of A and B.
        m, n, k: sizes, at least 1; K even where an operand has a 4-bit type.
        layout: a letter each for A, B and D: "rcr" A, B contiguous along K, D along N; also "rrr", "crr", "ccr"
            (A "c": contiguous along M; B "r": contiguous along N).
        batch: matrices, each with its own A, B (or one B for all) and D.
        out_dtype: "f32", "bf16", "f16", "e4m3", "e5m2" (these saturate), or "int32" for unscaled int8.
        bias_dtype, c_dtype: "f32", "bf16", "f16", or None: there is none.
        activation: applied after alpha, beta * C and bias.
        clamp: (low, high), after the activation.
        accuracy: how sums over K are formed (docs/numerics.md).
        batch_invariant: the bits of a row of D do not depend on M.
        packed: B comes from pack().

    Raises:
        InvalidArgument: an unknown word or a size that does not fit.
    """
    return _core.problem(
        scheme,
        m,
        n,
        k,
        layout=layout,
        batch=batch,
        out_dtype=out_dtype,
        bias_dtype=bias_dtype,
        c_dtype=c_dtype,
        activation=activation,
        clamp=clamp,
        accuracy=accuracy,
        batch_invariant=batch_invariant,
        packed=packed,
    )


def plan(problem: Problem, *, device: str = "cpu", kernel: Optional[str] = None, threads: int = 0) -> Plan:
    """The plan of a problem, made once and then kept by the runtime.

    Args:
        device: "cpu", "cuda:0".
        kernel: a kernel's name instead of the dispatcher's choice.
        threads: of the CPU at most this many; 0: the runtime's.

    Raises:
        Unsupported: no kernel of the device does it; the text has the reason.
        NotBuilt, NoDevice, CompileFailed, InvalidArgument.
    """
    return runtime().plan(problem, device=device, kernel=kernel, threads=threads)


def explain(problem: Problem, *, device: str = "cpu", json: bool = False) -> str:
    """Why this kernel: the choice, the runners-up, every decline; as text, or as JSON.

    Args:
        device: "cpu", "cuda:0", or a target without its device ("sm_90a").
    """
    return runtime().explain(problem, device=device, json=json)


def pack(weights: Union[Array, Quantized], scheme: Union[str, Problem], *, device: str = "cpu") -> Packed:
    """Puts weights, once, in the order that kernels read fastest.

    Args:
        weights: Quantized; or an f32 array N x K (or batch x N x K), which the scheme then quantises; or an array of
            the operand's own type where it has no scales.
        scheme: what A the weights will meet, which decides their order: a scheme, or a Problem (packed; its M plays
            no part).
        device: of the plans that will run it.

    Raises:
        InvalidArgument: weights that are not what the scheme's B is.
        Unsupported: the device takes its weights raw (GPUs).
    """
    a, b = (scheme.a, scheme.b) if isinstance(scheme, Problem) else _core.operands(scheme)
    q = _quantized(weights, b, "weights")
    target = scheme if isinstance(scheme, Problem) else _core.weight_problem(a, q)
    return runtime().pack(target, q, device=device)


def _quantized(x: Array, operand: Operand, name: str) -> Quantized:
    """`x` as codes of `operand`: it has them, or is one of its own type without scales, or is quantised now."""
    if isinstance(x, Quantized):
        _require_operand(x.operand, operand, name)
        return x
    if operand.scale is None and _core.dtype_of(x, name) == operand.dtype:
        return Quantized(x, operand)
    if operand.scale is None:
        raise InvalidArgument(f"{name}: dtype must be {operand.dtype}, got {_core.dtype_of(x, name)}")
    return _core.quantize(runtime(), x, operand, "floor")


def _require_operand(given: Operand, wanted: Operand, name: str) -> None:
    if given != wanted:
        raise InvalidArgument(f"{name}: the scheme needs {wanted}, got {given}")


def matmul(
    a: Union[Array, Quantized],
    b: Union[Array, Quantized, Packed],
    scheme: Optional[str] = None,
    *,
    bias: Optional[Array] = None,
    c: Optional[Array] = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    activation: Activation = "none",
    clamp: Optional[tuple[float, float]] = None,
    accuracy: Accuracy = "promoted",
    batch_invariant: bool = False,
    out: Optional[Array] = None,
    out_dtype: Optional[str] = None,
) -> Array:
    """D = clamp(act(alpha * A @ B.T + beta * C + bias)), with the plan of this problem, made once and kept.

    Args:
        a: M x K or batch x M x K, contiguous along K or along M. Without a scheme: Quantized, or an array whose own
            type is the operand's (f32, f16, bf16, e4m3, int8, ...). With one: also a float array that is quantised
            now, where the scheme quantises A.
        b: N x K (or batch x N x K): Packed, Quantized, or an array as for `a`.
        scheme: what a and b are, or are made to be. None: what they are.
        bias: N values, f32, f16 or bf16, added to each row.
        c: M x N, f32, f16 or bf16, added with factor beta; may be `out` itself.
        out: M x N, written; its type is D's. None: a new array of the library of `a`.
        out_dtype: "f32" (the default), "bf16", "f16", "e4m3", "e5m2", "int32".
        activation, clamp, accuracy, batch_invariant: as in problem().

    Returns:
        out. On a GPU the work is enqueued on the current stream of the library of `a`.

    Raises:
        InvalidArgument: shapes, types or devices that do not fit; nothing was written.
        Unsupported: no kernel does it.
    """
    given = a
    if scheme is not None:
        operand_a, operand_b = _core.operands(scheme)
        a = _quantized(a, operand_a, "a")
        if isinstance(b, Packed):
            _require_operand(b.info().operand, operand_b, "b")
        else:
            b = _quantized(b, operand_b, "b")
    d = _core.matmul(
        runtime(), a, b, out, bias, c, alpha, beta, activation, clamp, accuracy, batch_invariant, out_dtype
    )
    return d if a is given or out is not None else _arrays.finish_out(given, d)
