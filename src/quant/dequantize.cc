#include "quant/dequantize.h"

#include <algorithm>
#include <vector>

#include "num/bulk.h"

namespace scalegemm::quant {
namespace {

using num::DType;
using spec::OperandSpec;

Status check_source(const OperandSpec& operand, const QuantizedView& source) {
  SCALEGEMM_ASSIGN_OR_RETURN(const OutputSizes sizes, output_sizes(operand, source.rows, source.k));
  const struct {
    const char* argument;
    size_t given, needed;
  } spans[] = {{"codes", source.codes.size(), sizes.codes},
               {"scales", source.scales.size(), sizes.scales},
               {"zeros", source.zeros.size(), sizes.zeros}};
  for (const auto& span : spans) {
    if (span.given != span.needed) {
      return invalid_argument("{}: needed {} bytes; given {}", span.argument, span.needed, span.given);
    }
  }
  if (operand.scale && operand.scale->global && source.global == nullptr) {
    return invalid_argument("global: needed the global factor; given null");
  }
  return ok_status();
}

// Scales and zero points of one grid row, decoded.
template <class T>
struct GridRow {
  std::vector<float> scales, zeros;
  std::vector<T> factors;  // scale * global

  void load(const spec::ScaleSpec& spec, const QuantizedView& source, int64_t row, int64_t cols) {
    const T global = spec.global ? static_cast<T>(*source.global) : T{1};
    scales.resize(static_cast<size_t>(cols));
    zeros.assign(static_cast<size_t>(cols), 0.0f);
    factors.resize(static_cast<size_t>(cols));
    num::decode_array(spec.type, source.scales.data() + num::bytes_of(spec.type, row * cols), scales);
    for (size_t j = 0; j < factors.size(); ++j) {
      factors[j] = static_cast<T>(scales[j]) * global;
      if (spec.zero_type) {  // one byte each, 4-bit types too
        const std::byte code = source.zeros[static_cast<size_t>(row * cols) + j];
        zeros[j] = num::decode(*spec.zero_type, static_cast<uint32_t>(code));
      }
    }
  }
};

template <class T>
Status run(const OperandSpec& operand, const QuantizedView& source, const Destination<T>& out) {
  SCALEGEMM_RETURN_IF_ERROR(check_source(operand, source));
  if (out.data == nullptr) {
    return invalid_argument("destination: needed memory for {} x {} numbers; given null", source.rows,
                            source.k);
  }
  const spec::ScaleSpec scale = operand.scale.value_or(spec::ScaleSpec{.block_rows = spec::kAll});
  const int64_t block_rows = scale.block_rows == spec::kAll ? source.rows : scale.block_rows;
  const int64_t block_k = scale.block_k == spec::kAll ? source.k : scale.block_k;
  GridRow<T> grid{.scales = {}, .zeros = {0.0f}, .factors = {T{1}}};
  std::vector<float> row(static_cast<size_t>(source.k));
  for (int64_t r = 0; r < source.rows; ++r) {
    if (operand.scale && r % block_rows == 0) {
      grid.load(scale, source, r / block_rows, spec::scale_grid(scale, source.rows, source.k).cols);
    }
    num::decode_array(operand.type, source.codes.data() + r * num::bytes_of(operand.type, source.k), row);
    T* to = out.data + r * out.stride_r;
    size_t block = 0;
    for (int64_t begin = 0; begin < source.k; begin += std::min(block_k, source.k - begin), ++block) {
      const int64_t end = begin + std::min(block_k, source.k - begin);
      const T factor = grid.factors[block];
      const float zero = grid.zeros[block];
      for (int64_t j = begin; j < end; ++j) {
        to[j * out.stride_k] = static_cast<T>(row[static_cast<size_t>(j)] - zero) * factor;
      }
    }
  }
  return ok_status();
}

}  // namespace

Status dequantize(const OperandSpec& operand, const QuantizedView& source, const Destination<float>& out) {
  return run(operand, source, out);
}

Status dequantize(const OperandSpec& operand, const QuantizedView& source, const Destination<double>& out) {
  return run(operand, source, out);
}

}  // namespace scalegemm::quant
