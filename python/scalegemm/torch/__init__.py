"""scalegemm in torch: linear layers with quantised weights, and scaled products in torch's own terms.

    scalegemm.torch.quantize_(model, "mxfp8")                 # every nn.Linear becomes a QuantLinear
    scalegemm.torch.scaled_mm(a, b.t(), scale_a, scale_b)     # as torch._scaled_mm

Both stand on operators of torch.library, `torch.ops.scalegemm.linear`, `.dequantize` and `.scaled_mm`: torch.compile
and torch.export see one node each, and memory comes from torch's allocator, work goes to torch's current stream, so
CUDA graphs capture them. See docs/python.md.
"""

from ._linear import QuantLinear, quantize_
from ._ops import dequantize, linear
from ._scaled_mm import scaled_mm

__all__ = ["QuantLinear", "dequantize", "linear", "quantize_", "scaled_mm"]
