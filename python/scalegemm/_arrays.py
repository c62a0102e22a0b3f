"""New arrays of the caller's library. Nothing is imported that the caller's arrays do not come from."""

from __future__ import annotations

from typing import Any

from . import _core
from ._errors import Unsupported

_NAMES: dict[str, str] = _core.library_names()
# scalegemm dtype -> unsigned integer of NumPy that holds its bytes, where NumPy itself has no such type.
_BYTES = {
    name: "uint16" if name == "bf16" else "uint8" for name in _NAMES if name not in ("f32", "f16", "int8", "int32")
}
_ALIGN = 64


def _base(like: Any) -> Any:
    while isinstance(like, _core.Tensor):
        like = like.array
    return like


def _library(array: Any) -> str:
    return "numpy" if array is None else type(array).__module__.partition(".")[0]


def _is_torch(array: Any) -> bool:
    return hasattr(array, "data_ptr") and hasattr(array, "is_cuda")


def _numpy(like: Any) -> Any:
    """NumPy, or CuPy for an array of CuPy."""
    if hasattr(like, "__cuda_array_interface__"):
        if _library(like) != "cupy":
            raise Unsupported(f"out: must be given: arrays of {type(like)} cannot be made here")
        import cupy

        return cupy
    import numpy

    return numpy


def _empty(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    xp = _numpy(like)
    if xp.__name__ == "cupy":
        with like.device:
            return xp.empty(shape, dtype)
    # Aligned as JAX wants memory that it takes over.
    dtype = xp.dtype(dtype)
    count = dtype.itemsize
    for extent in shape:
        count *= extent
    raw = xp.empty(count + _ALIGN, xp.uint8)
    start = -raw.ctypes.data % _ALIGN
    return raw[start : start + count].view(dtype).reshape(shape)


def empty_storage(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Memory for codes, scales or zero points: the library's own type, else uint8 (bf16 of NumPy: uint16)."""
    like = _base(like)
    if _is_torch(like):
        import torch

        own = None if dtype in ("e2m1", "int4", "uint4") else getattr(torch, _NAMES[dtype], None)
        return torch.empty(shape, dtype=own or torch.uint8, device=like.device)
    return _empty(like, shape, _BYTES.get(dtype) or _NAMES[dtype])


def empty_out(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Memory for a result, in the library's own type."""
    like = _base(like)
    if _is_torch(like):
        import torch

        return torch.empty(shape, dtype=getattr(torch, _NAMES[dtype]), device=like.device)
    if dtype in _BYTES:
        try:
            import ml_dtypes
        except ImportError:
            raise Unsupported(f"out_dtype: NumPy has {dtype} only with ml_dtypes installed") from None
        return _empty(like, shape, getattr(ml_dtypes, _NAMES[dtype]))
    return _empty(like, shape, _NAMES[dtype])


def finish_out(like: Any, out: Any) -> Any:
    """`out` as an array of the library of `like`, where that cannot be written to (JAX)."""
    like = _base(like)
    if _library(like) in ("jax", "jaxlib"):
        import jax

        return jax.device_put(out, next(iter(like.devices())))  # takes aligned memory over, without a copy
    return out


def empty_bytes(like: Any, count: int) -> Any:
    """Workspace of a GPU."""
    like = _base(like)
    if _is_torch(like):
        import torch

        return torch.empty(count, dtype=torch.int8, device=like.device)
    return _empty(like, (count,), "int8")


def current_stream(like: Any, device: int) -> int:
    """The CUDA stream that the library of `like` uses now."""
    like = _base(like)
    if _is_torch(like):
        import torch

        return int(torch._C._cuda_getCurrentRawStream(device))
    if _library(like) == "cupy":
        import cupy

        with cupy.cuda.Device(device):
            return int(cupy.cuda.get_current_stream().ptr)
    return 0
