"""scalegemm in JAX on the CPU: a matmul that jit can hold.

Limits, which docs/python.md lists too: CPU only (arrays and compilations for a GPU are refused); not differentiable;
under vmap one call for each element, so give `a` its leading dimensions instead; no sharding: the arrays of one device.
"""

from __future__ import annotations

import functools
from typing import Any, Optional, Union

import jax
import jax.numpy as jnp
import numpy

from . import _api
from ._core import Packed, Quantized, library_names
from ._errors import InvalidArgument, Unsupported

__all__ = ["matmul"]

_NAMES = library_names()


def matmul(
    a: Any,
    b: Any,
    scheme: Optional[str] = None,
    *,
    bias: Optional[Any] = None,
    alpha: float = 1.0,
    activation: _api.Activation = "none",
    clamp: Optional[tuple[float, float]] = None,
    accuracy: _api.Accuracy = "promoted",
    batch_invariant: bool = False,
    out_dtype: str = "f32",
) -> jax.Array:
    """D = clamp(act(alpha * A @ B.T + bias)) through jax.pure_callback, outside and inside jax.jit.

    Args:
        a: ... x M x K, or K alone; a JAX array or NumPy's, traced or not. Leading dimensions are rows of one product.
        b: N x K: Packed or Quantized, which a jitted function closes over; or an array, which may be traced, that is
            what its type says or is quantised as the scheme says, at every call.
        scheme, alpha, activation, clamp, accuracy, batch_invariant: as in scalegemm.matmul.
        bias: N, f32, f16 or bf16; may be traced.
        out_dtype: "f32", "bf16", "f16", "e4m3", "e5m2", "int32".

    Returns:
        ... x M x N (or N).

    Raises:
        InvalidArgument: shapes that do not fit; types that do not fit, from within the callback if traced, where JAX
            wraps the error.
        Unsupported: an array on a GPU, or a trace for one.
    """
    shape, arrays = _check(a, b, bias)
    if out_dtype not in _NAMES:
        raise InvalidArgument(f"out_dtype: must be one of {', '.join(_NAMES)}, got {out_dtype!r}")
    result = jax.ShapeDtypeStruct(shape, jnp.dtype(_NAMES[out_dtype]))
    call = functools.partial(
        _call,
        given=b if isinstance(b, (Packed, Quantized)) else None,
        has_bias=bias is not None,
        result=result,
        scheme=scheme,
        alpha=alpha,
        activation=activation,
        clamp=clamp,
        accuracy=accuracy,
        batch_invariant=batch_invariant,
        out_dtype=out_dtype,
    )
    return jax.pure_callback(call, result, *arrays, vmap_method="sequential")


def _call(*arrays, given, has_bias, result, **options):
    """On NumPy arrays, which are the memory of JAX's."""
    a, *rest = (numpy.asarray(array) for array in arrays)
    bias = rest.pop() if has_bias else None
    b = given if given is not None else rest[0]
    if 0 in result.shape:
        return numpy.empty(result.shape, result.dtype)
    d = _api.matmul(a.reshape(-1, a.shape[-1]), b, bias=bias, **options)
    return d.reshape(result.shape)


def _check(a: Any, b: Any, bias: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The result's shape, and the arrays that the callback is given."""
    if a.ndim < 1:
        raise InvalidArgument("a: must have a dimension at least, is a number")
    known = isinstance(b, (Packed, Quantized))
    shape_b = tuple(b.shape)
    if len(shape_b) != 2:
        raise InvalidArgument(f"b: must be N x K, has {len(shape_b)} dimensions")
    if a.shape[-1] != shape_b[1]:
        raise InvalidArgument(f"b: must have the K of a, {a.shape[-1]}, has {shape_b[1]}")
    if isinstance(b, Quantized) and b.device != "cpu":
        raise Unsupported(f"b: must be on the CPU, is on {b.device}")
    if bias is not None and bias.shape != (shape_b[0],):
        raise InvalidArgument(f"bias: must be {(shape_b[0],)}, is {tuple(bias.shape)}")
    arrays = {"a": a} if known else {"a": a, "b": b}
    if bias is not None:
        arrays["bias"] = bias
    for name, array in arrays.items():
        _require_cpu(array, name)
    return (*a.shape[:-1], shape_b[0]), list(arrays.values())


def _require_cpu(array: Union[jax.Array, numpy.ndarray], name: str) -> None:
    if isinstance(array, jax.core.Tracer) or not isinstance(array, jax.Array):
        # A trace knows no device yet: it will be compiled for the default one.
        device = jax.config.jax_default_device
        platform = getattr(device, "platform", device) or jax.default_backend()
    else:
        platform = next(iter(array.devices())).platform
    if platform != "cpu":
        raise Unsupported(
            f"{name}: must be on the CPU, is on {platform}; use jax.default_device(jax.devices('cpu')[0]), or on a GPU "
            f"arrays of torch or CuPy"
        )
