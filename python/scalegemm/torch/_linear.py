"""A linear layer whose weight is in the codes and scales of a scheme."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor, nn

from .._errors import Error, InvalidArgument
from ._ops import dequantize, linear
from ._parts import PARTS, Activations, empty_parts, operand_a, operands, quantize_weight


class QuantLinear(nn.Module):
    """y = x @ W.T + bias with W, N x K, quantised.

    The weight is buffers: codes, and scales, zeros, global_scale where the scheme has them. `to(dtype)`, `half()` and
    the like move them but never change their types; only the bias follows. In a state_dict they come with the
    text of their quantisation, which a load compares. The output has the input's type.

    Args:
        in_features, out_features: K and N; K even for 4-bit types.
        scheme: of scalegemm.schemes(), or one written with keys.
        activations: "scheme": x is quantised or cast as the scheme says; "keep": x stays what it is, the weight
            alone is quantised.
        bias: whether there is one. device: of the buffers; dtype: of the bias.

    A new layer is zero; `from_linear` or `load_state_dict` fill it.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        scheme: str,
        *,
        activations: Activations = "scheme",
        bias: bool = True,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.scheme = scheme
        self.activations: Activations = activations
        operand_a(scheme, activations, torch.float32)
        parts = empty_parts(operands(scheme)[1], out_features, in_features, device)
        for name in PARTS:
            self.register_buffer(name, parts.get(name))
        self.bias = nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype)) if bias else None

    @classmethod
    def from_linear(cls, layer: nn.Linear, scheme: str, *, activations: Activations = "scheme") -> QuantLinear:
        """The layer with its weight quantised (on the CPU, from f32), on the layer's device. The bias is shared."""
        n, k = layer.weight.shape
        new = cls(k, n, scheme, activations=activations, bias=False, device="meta")
        for name, part in quantize_weight(layer.weight, operands(scheme)[1]).items():
            setattr(new, name, part)
        new.bias = layer.bias
        return new.train(layer.training)

    def forward(self, x: Tensor) -> Tensor:
        """x: ... x K, f32, f16 or bf16. Returns ... x N in the same type."""
        return linear(
            x,
            self.codes,
            self.scales,
            self.zeros,
            self.global_scale,
            self.bias,
            scheme=self.scheme,
            activations=self.activations,
        )

    def dequantize(self) -> Tensor:
        """The weight that the codes stand for, N x K in f32."""
        return dequantize(self.codes, self.scales, self.zeros, self.global_scale, scheme=self.scheme)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"scheme={self.scheme!r}, activations={self.activations!r}"
        )

    def get_extra_state(self) -> Tensor:
        """How the weight is quantised, as bytes of text, so that files of tensors alone can hold it."""
        return torch.tensor(list(repr(operands(self.scheme)[1]).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        given, own = bytes(state.tolist()).decode(), repr(operands(self.scheme)[1])
        if given != own:
            raise InvalidArgument(f"state_dict: the weight must be {own}, is {given}")

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors) -> None:
        for name in PARTS:
            own, given = getattr(self, name), state_dict.get(prefix + name)
            if own is not None and given is not None and given.dtype != own.dtype:
                # copy_ would convert codes of another type
                raise InvalidArgument(f"state_dict: {prefix}{name} must be {own.dtype}, is {given.dtype}")
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> QuantLinear:
        """Buffers as bytes, so that a change of float types leaves codes and scales alone."""
        parts = {name: self._buffers.pop(name) for name in PARTS}
        try:
            super()._apply(fn, recurse)
            moved = {
                name: None if part is None else fn(part.view(torch.uint8)).view(part.dtype)
                for name, part in parts.items()
            }
        except BaseException:
            self._buffers.update(parts)
            raise
        self._buffers.update(moved)
        return self


def quantize_(
    module: nn.Module,
    scheme: str,
    filter: Optional[Callable[[str, nn.Linear], bool]] = None,
    *,
    activations: Activations = "scheme",
) -> nn.Module:
    """Replaces the nn.Linear in a module by QuantLinear, in place; after an error the module is as before.

    Args:
        module: holds linear layers, at any depth; may not be one itself.
        scheme, activations: as of QuantLinear.
        filter: takes a layer's name and the layer; False leaves it alone. None: all. Subclasses of nn.Linear, such
            as the projection that nn.MultiheadAttention reads the weight of, are always left alone.

    Returns:
        module.

    Raises:
        InvalidArgument: module is an nn.Linear (use QuantLinear.from_linear), or a layer does not fit the scheme;
            the text names it.
    """
    if type(module) is nn.Linear:
        raise InvalidArgument("module: must hold linear layers, is one; use QuantLinear.from_linear")
    operands(scheme)
    made: dict[nn.Linear, QuantLinear] = {}
    places = []
    for parent_name, parent in module.named_modules():
        for name, layer in parent._modules.items():  # named_children leaves out a second name of a layer
            full = f"{parent_name}.{name}" if parent_name else name
            if type(layer) is not nn.Linear or (filter is not None and not filter(full, layer)):
                continue
            if layer not in made:
                try:
                    made[layer] = QuantLinear.from_linear(layer, scheme, activations=activations)
                except Error as error:
                    raise type(error)(f"{full}: {error}") from error
            places.append((parent, name, made[layer]))
    for parent, name, layer in places:
        setattr(parent, name, layer)
    return module
