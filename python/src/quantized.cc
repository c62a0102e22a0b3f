#include "quantized.h"

#include <nanobind/stl/string.h>

#include <utility>

#include "runtime.h"

namespace scalegemm::python {
namespace {

// One array of a quantised matrix.
scalegemm_tensor part(const nb::object& array, const char* name, Role role, int32_t dtype, Device device) {
  if (dtype == SCALEGEMM_DTYPE_NONE) {
    if (!array.is_none()) {
      refuse(std::string(name) + ": must be None: the operand has none");
    }
    return {};
  }
  if (array.is_none()) {
    refuse(std::string(name) + ": the operand needs a " + dtype_text(dtype) + " array, got None");
  }
  const View view = describe(array, name);
  require_device(view, name, device);
  const scalegemm_tensor t = argument(view, name, role, dtype);
  if (t.dtype != dtype) {
    refuse(std::string(name) + ": dtype must be " + dtype_text(dtype) + ", got " + dtype_text(t.dtype));
  }
  return t;
}

nb::tuple shape_of(const Quantized& q) {
  const int64_t* s = q.code_tensor.shape;
  return q.ndim == 3 ? nb::make_tuple(s[0], s[1], s[2]) : nb::make_tuple(s[1], s[2]);
}

// Row-major: for the arrays that scalegemm makes.
nb::object new_array(const nb::handle like, const char* dtype, nb::tuple shape) {
  return arrays_function("empty_storage")(like, shape, dtype);
}

// The shape of a stored part: batch only where the source has one.
nb::tuple stored_shape(int ndim, int64_t batch, std::pair<int64_t, int64_t> grid) {
  return ndim == 3 ? nb::make_tuple(batch, grid.first, grid.second) : nb::make_tuple(grid.first, grid.second);
}

Quantized empty_quantized(const nb::handle like, const View& source, const Operand& operand) {
  const scalegemm_tensor& x = source.tensor;
  const scalegemm_scale_desc& s = operand.desc.scale;
  const int64_t divisor = is_packed4(operand.desc.dtype) ? 2 : 1;
  if (x.shape[2] % divisor != 0) {
    refuse("x: K must be even for " + dtype_text(operand.desc.dtype) + ", got " + std::to_string(x.shape[2]));
  }
  const auto grid = grid_of(s, x.shape[1], x.shape[2]);
  const auto make = [&](int32_t dtype, std::pair<int64_t, int64_t> extent) -> nb::object {
    if (dtype == SCALEGEMM_DTYPE_NONE) {
      return nb::none();
    }
    return new_array(like, dtype_text(dtype).c_str(), stored_shape(source.ndim, x.shape[0], extent));
  };
  nb::object global = nb::none();
  if (s.has_global != 0) {
    global = new_array(like, "f32", nb::make_tuple(1));
  }
  return make_quantized(make(operand.desc.dtype, {x.shape[1], x.shape[2] / divisor}), operand,
                        make(s.dtype, grid), make(s.zero_dtype, grid), global);
}

// The matrix number `index` of a batch.
scalegemm_tensor slice(scalegemm_tensor t, int64_t index) {
  if (t.data == nullptr || t.shape[0] == 1) {
    return t;
  }
  const int64_t offset = index * t.stride[0] * storage_bytes(t.dtype);
  t.data = static_cast<char*>(t.data) + offset;
  t.bytes -= static_cast<uint64_t>(offset);
  t.shape[0] = 1;
  return t;
}

void require_matrix(const View& view, const char* name) {
  if (view.ndim < 2) {
    refuse(std::string(name) + ": must be rows x K or batch x rows x K, got " + std::to_string(view.ndim) +
           " dimensions");
  }
}

// f32 on the CPU: every operand.
void quantize_f32(const scalegemm_tensor& x, const Quantized& q, int32_t rounding) {
  auto options = make<scalegemm_quantize_options>();
  options.scale_rounding = rounding;
  scalegemm_status status = SCALEGEMM_OK;
  {
    const nb::gil_scoped_release unlocked;
    for (int64_t i = 0; i < x.shape[0] && status == SCALEGEMM_OK; ++i) {
      const scalegemm_tensor src = slice(x, i);
      const scalegemm_tensor codes = slice(q.code_tensor, i);
      const scalegemm_tensor scales = slice(q.scale_tensor, i);
      const scalegemm_tensor zeros = slice(q.zero_tensor, i);
      status = scalegemm_quantize(&q.operand.desc, &src, &options, &codes, &scales, &zeros, q.global);
    }
  }
  check(status);
}

// Other sources and devices: scales of single rows, as activations have them.
void quantize_rows(nb::handle array, const View& view, const Quantized& q, int32_t rounding,
                   RuntimeObject& runtime) {
  auto desc = make<scalegemm_quantizer_desc>();
  desc.operand = q.operand.desc;
  desc.source_dtype = view.tensor.dtype;
  desc.scale_rounding = rounding;
  const Quantizer& quantizer = runtime.quantizer(desc, q.device.name());
  auto args = make<scalegemm_quantizer_args>();
  args.stream = current_stream(array, view);
  const nb::gil_scoped_release unlocked;
  for (int64_t i = 0; i < view.tensor.shape[0]; ++i) {
    args.src = slice(view.tensor, i);
    args.codes = slice(q.code_tensor, i);
    args.scales = slice(q.scale_tensor, i);
    quantizer.run(args);
  }
}

int32_t rounding_value(const std::string& word) {
  constexpr const char* kWords[] = {"floor", "even", "ceil"};
  for (int32_t i = 0; i < 3; ++i) {
    if (word == kWords[i]) {
      return i;
    }
  }
  refuse("rounding: must be one of floor, even, ceil, got '" + word + "'");
}

Quantized quantize(RuntimeObject& runtime, nb::handle x, const Operand& operand,
                   const std::string& rounding) {
  const int32_t rounding_number = rounding_value(rounding);
  const View view = describe(x, "x");
  if (view.storage != Storage::kPlain) {
    refuse("x: must be f32, f16 or bf16");
  }
  require_matrix(view, "x");
  if (operand.desc.scale.has_global != 0 && view.tensor.shape[0] > 1) {
    throw Error(SCALEGEMM_UNSUPPORTED,
                "x: a batch has one global factor, so quantise its matrices one by one");
  }
  Quantized q = empty_quantized(x, view, operand);
  if (view.tensor.dtype == SCALEGEMM_F32 && !view.device.cuda) {
    quantize_f32(view.tensor, q, rounding_number);
  } else {
    quantize_rows(x, view, q, rounding_number, runtime);
  }
  return q;
}

nb::object dequantize(const Quantized& q) {
  if (q.device.cuda) {
    throw Error(SCALEGEMM_UNSUPPORTED,
                "q: is on " + q.device.name() + ", can be dequantised on the CPU only");
  }
  nb::object out = new_array(q.codes, "f32", shape_of(q));
  const View view = describe(out, "out");
  scalegemm_status status = SCALEGEMM_OK;
  {
    const nb::gil_scoped_release unlocked;
    for (int64_t i = 0; i < view.tensor.shape[0] && status == SCALEGEMM_OK; ++i) {
      const scalegemm_tensor dst = slice(view.tensor, i);
      const scalegemm_tensor codes = slice(q.code_tensor, i);
      const scalegemm_tensor scales = slice(q.scale_tensor, i);
      const scalegemm_tensor zeros = slice(q.zero_tensor, i);
      status = scalegemm_dequantize(&q.operand.desc, &codes, &scales, &zeros, q.global, &dst);
    }
  }
  check(status);
  return out;
}

}  // namespace

int32_t layout_of(const scalegemm_tensor& t, Side side) {
  const bool k_contiguous = t.stride[2] == 1 || t.shape[2] == 1 || (t.stride[1] != 1 && t.shape[1] != 1);
  return k_contiguous == (side == Side::kA) ? SCALEGEMM_ROW : SCALEGEMM_COL;
}

Quantized make_quantized(nb::object codes, const Operand& operand, nb::object scales, nb::object zeros,
                         nb::object global_scale) {
  Quantized q;
  q.operand = operand;
  const View view = describe(codes, "codes");
  q.device = view.device;
  q.ndim = view.ndim;
  const scalegemm_scale_desc& s = operand.desc.scale;
  q.code_tensor = part(codes, "codes", Role::kCodes, operand.desc.dtype, q.device);
  q.scale_tensor = part(scales, "scales", Role::kCodes, s.dtype, q.device);
  q.zero_tensor = part(zeros, "zeros", Role::kZeros, s.zero_dtype, q.device);
  q.global = global_argument(global_scale, "global_scale", q.device);
  if ((q.global != nullptr) != (s.has_global != 0)) {
    refuse(s.has_global != 0 ? "global_scale: the operand needs one f32, got None"
                             : "global_scale: must be None: the operand has none");
  }
  const auto [rows, cols] = grid_of(s, q.code_tensor.shape[1], q.code_tensor.shape[2]);
  for (const auto& [tensor, name] :
       {std::pair(&q.scale_tensor, "scales"), std::pair(&q.zero_tensor, "zeros")}) {
    if (tensor->data != nullptr && (tensor->shape[1] != rows || tensor->shape[2] != cols)) {
      refuse(std::string(name) + ": must be " + std::to_string(rows) + " x " + std::to_string(cols) +
             ", got " + std::to_string(tensor->shape[1]) + " x " + std::to_string(tensor->shape[2]));
    }
    if (tensor->data != nullptr && tensor->shape[0] != 1 && tensor->shape[0] != q.code_tensor.shape[0]) {
      refuse(std::string(name) + ": must be one matrix or " + std::to_string(q.code_tensor.shape[0]) +
             ", as the codes, got " + std::to_string(tensor->shape[0]));
    }
  }
  q.codes = std::move(codes);
  q.scales = std::move(scales);
  q.zeros = std::move(zeros);
  q.global_scale = std::move(global_scale);
  return q;
}

void bind_quantized(nb::module_& m) {
  nb::class_<Quantized>(
      m, "Quantized",
      "A quantised matrix: (code - zero) * scale * global.\n\n"
      "codes: rows x K or batch x rows x K in the operand's type, or bytes (uint8, of 16-bit types "
      "uint16); 4-bit\ncodes two a byte, K/2 columns. scales, zeros: ceil(rows / block[0]) x "
      "ceil(K / block[1]); zero points one a\nbyte, in the low nibble. global_scale: one f32. All on one "
      "device, in "
      "any strides; the arrays are kept, not copied.")
      .def(
          "__init__",
          [](Quantized* self, nb::object codes, const Operand& operand, nb::object scales, nb::object zeros,
             nb::object global_scale) {
            new (self) Quantized(make_quantized(std::move(codes), operand, std::move(scales),
                                                std::move(zeros), std::move(global_scale)));
          },
          nb::arg("codes"), nb::arg("operand"), nb::kw_only(), nb::arg("scales") = nb::none(),
          nb::arg("zeros") = nb::none(), nb::arg("global_scale") = nb::none())
      .def_ro("codes", &Quantized::codes)
      .def_ro("scales", &Quantized::scales)
      .def_ro("zeros", &Quantized::zeros)
      .def_ro("global_scale", &Quantized::global_scale)
      .def_ro("operand", &Quantized::operand)
      .def_prop_ro("shape", &shape_of)
      .def_prop_ro("device", [](const Quantized& q) { return q.device.name(); })
      .def("__repr__", [](const Quantized& q) {
        return "scalegemm.Quantized(" + operand_text(q.operand.desc) + ", " +
               nb::cast<std::string>(nb::repr(shape_of(q))) + ", " + q.device.name() + ")";
      });
  m.def("quantize", &quantize, nb::arg("runtime"), nb::arg("x"), nb::arg("operand"), nb::arg("rounding"));
  m.def("dequantize", &dequantize, nb::arg("q"));
}

}  // namespace scalegemm::python
