// Quantise and dequantise, at once and as objects.
#include <string_view>

#include "api/convert.h"
#include "api/error.h"
#include "api/handles.h"
#include "quant/dequantize.h"
#include "quant/quantize.h"
#include "runtime/tensor.h"
#include "scalegemm/scalegemm.h"

using scalegemm::invalid_argument;
using scalegemm::ok_status;
using scalegemm::Result;
using scalegemm::Status;
using namespace scalegemm::api;  // NOLINT(google-build-using-namespace): this file is that room's surface
namespace num = scalegemm::num;
namespace quant = scalegemm::quant;
namespace runtime = scalegemm::runtime;
namespace spec = scalegemm::spec;

namespace {

// One of the contiguous tensors that hold a quantised matrix; `needed` false: the operand has none.
struct Part {
  const scalegemm_tensor* tensor;
  std::string_view name;
  bool needed;
  num::DType type;
  int64_t rows, cols;
  bool one_code_a_byte;
};

Result<std::span<std::byte>> part_span(const Part& part, size_t bytes) {
  runtime::Tensor t;
  if (part.tensor != nullptr) {
    SCALEGEMM_ASSIGN_OR_RETURN(t, to_tensor(*part.tensor, part.name));
  }
  if (!part.needed) {
    SCALEGEMM_RETURN_IF_ERROR(runtime::check_absent(t, part.name, "the operand has none"));
    return std::span<std::byte>();
  }
  SCALEGEMM_RETURN_IF_ERROR(runtime::check_output(t, {.name = part.name,
                                                      .type = part.type,
                                                      .rows = part.rows,
                                                      .cols = part.cols,
                                                      .one_code_a_byte = part.one_code_a_byte,
                                                      .unit_dim = 2}));
  const bool halved = num::is_packed4(part.type) && !part.one_code_a_byte;
  const int64_t row = halved ? part.cols / 2 : part.cols;
  if (part.rows > 1 && t.stride[1] != row) {
    return invalid_argument("{}: rows must be contiguous, so stride[1] must be {}, got {}", part.name, row,
                            t.stride[1]);
  }
  return std::span<std::byte>(static_cast<std::byte*>(t.data), bytes);
}

struct Parts {
  std::span<std::byte> codes, scales, zeros;
};

Result<Parts> read_parts(const spec::OperandSpec& operand, int64_t rows, int64_t k,
                         const scalegemm_tensor* codes, const scalegemm_tensor* scales,
                         const scalegemm_tensor* zeros) {
  SCALEGEMM_ASSIGN_OR_RETURN(const quant::OutputSizes sizes, quant::output_sizes(operand, rows, k));
  const auto& scale = operand.scale;
  const bool has_zero = scale && scale->zero_type;
  Parts parts;
  SCALEGEMM_ASSIGN_OR_RETURN(parts.codes,
                             part_span({codes, "codes", true, operand.type, rows, k, false}, sizes.codes));
  SCALEGEMM_ASSIGN_OR_RETURN(
      parts.scales, part_span({scales, "scales", scale.has_value(), scale ? scale->type : num::DType::kF32,
                               sizes.grid.rows, sizes.grid.cols, false},
                              sizes.scales));
  SCALEGEMM_ASSIGN_OR_RETURN(
      parts.zeros, part_span({zeros, "zeros", has_zero, has_zero ? *scale->zero_type : num::DType::kInt8,
                              sizes.grid.rows, sizes.grid.cols, true},
                             sizes.zeros));
  return parts;
}

// The f32 side: any strides.
Result<runtime::Tensor> read_floats(const scalegemm_tensor* tensor, const char* name) {
  SCALEGEMM_RETURN_IF_ERROR(require(tensor, name));
  SCALEGEMM_ASSIGN_OR_RETURN(const runtime::Tensor t, to_tensor(*tensor, name));
  if (t.shape[1] < 1 || t.shape[2] < 1) {
    return invalid_argument("{}: rows and columns must be positive, got {} x {}", name, t.shape[1],
                            t.shape[2]);
  }
  SCALEGEMM_RETURN_IF_ERROR(runtime::check_tensor(
      t, {.name = name, .type = num::DType::kF32, .rows = t.shape[1], .cols = t.shape[2]}));
  return t;
}

Status check_global(const spec::OperandSpec& operand, const float* global) {
  const bool needed = operand.scale && operand.scale->global;
  if (needed && global == nullptr) {
    return invalid_argument("global: must not be null, because the operand has a global factor");
  }
  return ok_status();
}

Result<quant::ScaleRounding> to_rounding(int32_t value, std::string_view name) {
  if (value < SCALEGEMM_SCALE_FLOOR || value > SCALEGEMM_SCALE_CEIL) {
    return invalid_argument("{}: must be 0 (floor), 1 (even) or 2 (ceil), got {}", name, value);
  }
  return static_cast<quant::ScaleRounding>(value);
}

Result<quant::QuantizeOptions> read_options(const scalegemm_quantize_options* options) {
  quant::QuantizeOptions out;
  if (options != nullptr) {
    scalegemm_quantize_options c;
    SCALEGEMM_RETURN_IF_ERROR(read_struct(options, "options", &c));
    SCALEGEMM_ASSIGN_OR_RETURN(out.scale_rounding, to_rounding(c.scale_rounding, "options.scale_rounding"));
    SCALEGEMM_RETURN_IF_ERROR(check_reserved(c.reserved, "options.reserved"));
  }
  return out;
}

}  // namespace

scalegemm_status scalegemm_quantize(const scalegemm_operand_desc* operand, const scalegemm_tensor* src,
                                    const scalegemm_quantize_options* options, const scalegemm_tensor* codes,
                                    const scalegemm_tensor* scales, const scalegemm_tensor* zeros,
                                    float* global) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(operand, "operand"));
    SCALEGEMM_ASSIGN_OR_RETURN(const spec::OperandSpec op, to_operand(*operand, "operand"));
    SCALEGEMM_ASSIGN_OR_RETURN(const quant::QuantizeOptions o, read_options(options));
    SCALEGEMM_ASSIGN_OR_RETURN(const runtime::Tensor source, read_floats(src, "src"));
    SCALEGEMM_RETURN_IF_ERROR(check_global(op, global));
    SCALEGEMM_ASSIGN_OR_RETURN(const Parts parts,
                               read_parts(op, source.shape[1], source.shape[2], codes, scales, zeros));
    return quant::quantize(
        op,
        {.data = static_cast<const float*>(source.data),
         .rows = source.shape[1],
         .k = source.shape[2],
         .stride_r = source.stride[1],
         .stride_k = source.stride[2]},
        o, {.codes = parts.codes, .scales = parts.scales, .zeros = parts.zeros, .global = global});
  });
}

scalegemm_status scalegemm_dequantize(const scalegemm_operand_desc* operand, const scalegemm_tensor* codes,
                                      const scalegemm_tensor* scales, const scalegemm_tensor* zeros,
                                      const float* global, const scalegemm_tensor* dst) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(operand, "operand"));
    SCALEGEMM_ASSIGN_OR_RETURN(const spec::OperandSpec op, to_operand(*operand, "operand"));
    SCALEGEMM_ASSIGN_OR_RETURN(const runtime::Tensor out, read_floats(dst, "dst"));
    SCALEGEMM_RETURN_IF_ERROR(check_global(op, global));
    SCALEGEMM_ASSIGN_OR_RETURN(const Parts parts,
                               read_parts(op, out.shape[1], out.shape[2], codes, scales, zeros));
    return quant::dequantize(
        op,
        {.rows = out.shape[1],
         .k = out.shape[2],
         .codes = parts.codes,
         .scales = parts.scales,
         .zeros = parts.zeros,
         .global = global},
        quant::Destination<float>{
            .data = static_cast<float*>(out.data), .stride_r = out.stride[1], .stride_k = out.stride[2]});
  });
}

scalegemm_status scalegemm_quantizer_create(scalegemm_runtime* rt, const scalegemm_quantizer_desc* desc,
                                            const scalegemm_plan_options* options,
                                            scalegemm_quantizer** quantizer) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(quantizer, "quantizer"));
    *quantizer = nullptr;
    SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
    scalegemm_quantizer_desc c;
    SCALEGEMM_RETURN_IF_ERROR(read_struct(desc, "desc", &c));
    runtime::QuantizerDesc d;
    SCALEGEMM_ASSIGN_OR_RETURN(d.operand, to_operand(c.operand, "desc.operand"));
    SCALEGEMM_ASSIGN_OR_RETURN(d.source, to_dtype(c.source_dtype, "desc.source_dtype"));
    SCALEGEMM_ASSIGN_OR_RETURN(d.rounding, to_rounding(c.scale_rounding, "desc.scale_rounding"));
    SCALEGEMM_ASSIGN_OR_RETURN(const runtime::PlanOptions o, to_plan_options(options));
    SCALEGEMM_ASSIGN_OR_RETURN(auto impl, rt->impl->quantizer(d, o));
    *quantizer = new scalegemm_quantizer{std::move(impl)};
    return ok_status();
  });
}

void scalegemm_quantizer_destroy(scalegemm_quantizer* quantizer) {
  delete quantizer;
}

scalegemm_status scalegemm_quantizer_run(const scalegemm_quantizer* quantizer,
                                         const scalegemm_quantizer_args* args) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(quantizer, "quantizer"));
    scalegemm_quantizer_args c;
    SCALEGEMM_RETURN_IF_ERROR(read_struct(args, "args", &c));
    runtime::QuantizerArgs run;
    SCALEGEMM_ASSIGN_OR_RETURN(run.source, to_tensor(c.src, "src"));
    SCALEGEMM_ASSIGN_OR_RETURN(run.codes, to_tensor(c.codes, "codes"));
    SCALEGEMM_ASSIGN_OR_RETURN(run.scales, to_tensor(c.scales, "scales"));
    run.stream = c.stream;
    return quantizer->impl->run(run);
  });
}
