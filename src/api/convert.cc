#include "api/convert.h"

namespace scalegemm::api {
namespace {

Result<std::optional<num::DType>> to_optional_dtype(int32_t value, const char* name) {
  if (value == SCALEGEMM_DTYPE_NONE) {
    return std::optional<num::DType>();
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const num::DType type, to_dtype(value, name));
  return std::optional<num::DType>(type);
}

Status check_range(int32_t value, int32_t low, int32_t high, const char* name) {
  if (value < low || value > high) {
    return invalid_argument("{}: must be in {} .. {}, got {}", name, low, high, value);
  }
  return ok_status();
}

Result<spec::ScaleSpec> to_scale(const scalegemm_scale_desc& desc, const std::string& name) {
  spec::ScaleSpec scale;
  SCALEGEMM_ASSIGN_OR_RETURN(scale.type, to_dtype(desc.dtype, (name + ".scale.dtype").c_str()));
  SCALEGEMM_ASSIGN_OR_RETURN(scale.zero_type,
                             to_optional_dtype(desc.zero_dtype, (name + ".scale.zero_dtype").c_str()));
  SCALEGEMM_RETURN_IF_ERROR(check_range(desc.has_global, 0, 1, (name + ".scale.has_global").c_str()));
  scale.block_rows = desc.block_rows;
  scale.block_k = desc.block_k;
  scale.global = desc.has_global != 0;
  return scale;
}

}  // namespace

Status write_text(std::string_view text, char* out, uint64_t* size) {
  if (size == nullptr) {
    return invalid_argument("size: must not be null");
  }
  if (out != nullptr && *size > 0) {
    const size_t length = std::min<size_t>(text.size(), *size - 1);
    std::memcpy(out, text.data(), length);
    out[length] = '\0';
  }
  *size = text.size() + 1;
  return ok_status();
}

Status check_reserved(int32_t value, std::string_view name) {
  return value == 0 ? ok_status() : invalid_argument("{}: is reserved, so it must be 0, got {}", name, value);
}

Result<num::DType> to_dtype(int32_t value, const char* name) {
  if (!num::is_valid(value)) {
    return invalid_argument("{}: {} is no scalegemm_dtype (1 .. {})", name, value, num::kDTypes.size());
  }
  return static_cast<num::DType>(value);
}

Result<spec::OperandSpec> to_operand(const scalegemm_operand_desc& desc, const char* name) {
  spec::OperandSpec operand;
  const std::string prefix = name;
  SCALEGEMM_ASSIGN_OR_RETURN(operand.type, to_dtype(desc.dtype, (prefix + ".dtype").c_str()));
  SCALEGEMM_RETURN_IF_ERROR(check_range(desc.layout, 0, 1, (prefix + ".layout").c_str()));
  SCALEGEMM_RETURN_IF_ERROR(check_reserved(desc.scale.reserved, prefix + ".scale.reserved"));
  operand.layout = static_cast<spec::Layout>(desc.layout);
  if (desc.scale.dtype != SCALEGEMM_DTYPE_NONE) {
    SCALEGEMM_ASSIGN_OR_RETURN(operand.scale, to_scale(desc.scale, prefix));
  } else if (desc.scale.zero_dtype != SCALEGEMM_DTYPE_NONE || desc.scale.has_global != 0) {
    return invalid_argument("{}.scale.dtype: zero points and a global factor need block scales, got none",
                            name);
  }
  return operand;
}

Result<spec::Problem> to_problem(const scalegemm_problem* in) {
  scalegemm_problem c;
  SCALEGEMM_RETURN_IF_ERROR(read_struct(in, "problem", &c));
  spec::Problem p;
  p.m = c.m;
  p.n = c.n;
  p.k = c.k;
  p.batch = c.batch;
  SCALEGEMM_ASSIGN_OR_RETURN(p.a, to_operand(c.a, "problem.a"));
  SCALEGEMM_ASSIGN_OR_RETURN(p.b, to_operand(c.b, "problem.b"));
  SCALEGEMM_ASSIGN_OR_RETURN(p.d, to_dtype(c.d_dtype, "problem.d_dtype"));
  SCALEGEMM_ASSIGN_OR_RETURN(p.epilogue.bias, to_optional_dtype(c.bias_dtype, "problem.bias_dtype"));
  SCALEGEMM_ASSIGN_OR_RETURN(p.epilogue.c, to_optional_dtype(c.c_dtype, "problem.c_dtype"));
  SCALEGEMM_RETURN_IF_ERROR(check_range(c.b_packing, -1, 2, "problem.b_packing"));
  SCALEGEMM_RETURN_IF_ERROR(check_range(c.activation, 0, 4, "problem.activation"));
  SCALEGEMM_RETURN_IF_ERROR(check_range(c.accuracy, 0, 2, "problem.accuracy"));
  SCALEGEMM_RETURN_IF_ERROR(check_range(c.batch_invariant, 0, 1, "problem.batch_invariant"));
  SCALEGEMM_RETURN_IF_ERROR(check_range(c.has_clamp, 0, 1, "problem.has_clamp"));
  p.b_packing = static_cast<spec::Packing>(c.b_packing);
  p.epilogue.activation = static_cast<spec::Activation>(c.activation);
  p.accuracy = static_cast<spec::Accuracy>(c.accuracy);
  p.batch_invariant = c.batch_invariant != 0;
  if (c.has_clamp != 0) {
    p.epilogue.clamp_min = c.clamp_min;
    p.epilogue.clamp_max = c.clamp_max;
  }
  SCALEGEMM_RETURN_IF_ERROR(spec::validate(p));
  return p;
}

Result<runtime::PlanOptions> to_plan_options(const scalegemm_plan_options* in) {
  runtime::PlanOptions options;
  if (in == nullptr) {
    return options;
  }
  scalegemm_plan_options c;
  SCALEGEMM_RETURN_IF_ERROR(read_struct(in, "options", &c));
  if (c.device != nullptr) {
    options.device = c.device;
  }
  if (c.kernel != nullptr) {
    options.kernel = c.kernel;
  }
  if (c.threads < 0) {
    return invalid_argument("options.threads: must be 0 (the runtime's) or more, got {}", c.threads);
  }
  SCALEGEMM_RETURN_IF_ERROR(check_reserved(c.reserved, "options.reserved"));
  options.threads = c.threads;
  return options;
}

Result<runtime::Tensor> to_tensor(const scalegemm_tensor& tensor, std::string_view name) {
  if (tensor.reserved != 0) {
    return check_reserved(tensor.reserved, fmt::format("{}.reserved", name));
  }
  runtime::Tensor out;
  out.data = tensor.data;
  out.bytes = tensor.bytes;
  if (num::is_valid(tensor.dtype)) {
    out.type = static_cast<num::DType>(tensor.dtype);
  }
  std::copy_n(tensor.shape, 3, out.shape.begin());
  std::copy_n(tensor.stride, 3, out.stride.begin());
  return out;
}

scalegemm_operand_desc from_operand(const spec::OperandSpec& operand) {
  scalegemm_operand_desc out{};
  out.dtype = static_cast<int32_t>(operand.type);
  out.layout = static_cast<int32_t>(operand.layout);
  if (operand.scale) {
    out.scale.dtype = static_cast<int32_t>(operand.scale->type);
    out.scale.zero_dtype = operand.scale->zero_type ? static_cast<int32_t>(*operand.scale->zero_type) : 0;
    out.scale.block_rows = operand.scale->block_rows;
    out.scale.block_k = operand.scale->block_k;
    out.scale.has_global = operand.scale->global ? 1 : 0;
  }
  return out;
}

}  // namespace scalegemm::api
