#include "ref/operand.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "num/bulk.h"
#include "num/convert.h"

namespace scalegemm::ref {
namespace {

using num::DType;
using spec::OperandSpec;

// Factors of one block along K of one row.
struct Factors {
  double scale = 1;
  double zero = 0;
};

Factors factors(const spec::ScaleSpec& spec, const OperandData& data, int64_t grid_row, int64_t grid_col) {
  Factors f;
  const auto* scales = static_cast<const std::byte*>(data.scales.data);
  const int64_t at = grid_row * data.scales.stride_r + grid_col * data.scales.stride_k;
  f.scale = num::decode_double(spec.type, num::load_code(spec.type, scales, at));
  if (spec.zero_type) {
    const auto* zeros = static_cast<const std::byte*>(data.zeros.data);
    const std::byte code = zeros[grid_row * data.zeros.stride_r + grid_col * data.zeros.stride_k];
    f.zero = num::decode_double(*spec.zero_type, static_cast<uint32_t>(code));
  }
  return f;
}

// The codes of one row as numbers. `storage` is scratch for rows whose elements are not neighbours.
void decode_codes(DType type, const std::byte* row, int64_t stride_k, std::vector<std::byte>& storage,
                  std::span<float> out) {
  if (stride_k == 1) {
    num::decode_array(type, row, out);
    return;
  }
  const int64_t size = num::is_packed4(type) ? 1 : num::info(type).bits / 8;
  const int64_t count =
      static_cast<int64_t>(num::storage_bytes(type, static_cast<int64_t>(out.size()))) / size;
  storage.resize(static_cast<size_t>(count * size));
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(storage.data() + i * size, row + i * stride_k * size, static_cast<size_t>(size));
  }
  num::decode_array(type, storage.data(), out);
}

double at_least_one(double x) {
  return std::max(1.0, std::fabs(x));
}

}  // namespace

Status check(const OperandSpec& spec, const OperandData& data, const char* name) {
  const struct {
    const char* what;
    bool needed;
    const void* given;
  } parts[] = {{"codes", true, data.codes},
               {"scales", spec.scale.has_value(), data.scales.data},
               {"zero points", spec.scale && spec.scale->zero_type.has_value(), data.zeros.data},
               {"global factor", spec.scale && spec.scale->global, data.global}};
  for (const auto& part : parts) {
    if (part.needed && part.given == nullptr) {
      return invalid_argument("{} {}: needed a pointer; given null", name, part.what);
    }
  }
  return ok_status();
}

Decoded decode_rows(const OperandSpec& spec, const OperandData& data, int64_t extent, int64_t k,
                    std::span<const int64_t> rows, double least_weight) {
  const spec::ScaleSpec scale = spec.scale.value_or(spec::ScaleSpec{});
  const int64_t block_rows = scale.block_rows == spec::kAll ? extent : scale.block_rows;
  const int64_t block_k = scale.block_k == spec::kAll ? k : scale.block_k;
  const double global = scale.global ? static_cast<double>(*data.global) : 1.0;
  // 4-bit types have byte strides, and storage elements of one byte.
  const int64_t size = num::is_packed4(spec.type) ? 1 : num::info(spec.type).bits / 8;
  Decoded out{.k = k,
              .value = {},
              .weight = {},
              .peak = std::vector<double>(rows.size(), 1.0),
              .infinite_scale = std::vector<bool>(rows.size(), false)};
  out.value.resize(rows.size() * static_cast<size_t>(k));
  out.weight.resize(out.value.size());
  std::vector<float> codes(static_cast<size_t>(k));
  std::vector<std::byte> storage;
  for (size_t i = 0; i < rows.size(); ++i) {
    decode_codes(spec.type, static_cast<const std::byte*>(data.codes) + rows[i] * data.stride_r * size,
                 data.stride_k, storage, codes);
    double* value = out.value.data() + i * codes.size();
    double* weight = out.weight.data() + i * codes.size();
    for (int64_t begin = 0, block = 0; begin < k; begin += std::min(block_k, k - begin), ++block) {
      const Factors f = spec.scale ? factors(scale, data, rows[i] / block_rows, block) : Factors{};
      const double factor = f.scale * global;
      out.infinite_scale[i] = out.infinite_scale[i] || std::isinf(factor);
      const double zero = std::fabs(f.zero);
      double largest = 0;
      for (int64_t j = begin; j < begin + std::min(block_k, k - begin); ++j) {
        const double code = static_cast<double>(codes[static_cast<size_t>(j)]);
        const double magnitude = std::fabs(code) + zero;
        value[j] = (code - f.zero) * factor;
        weight[j] = std::max(magnitude, least_weight) * std::fabs(factor);
        largest = magnitude > largest ? magnitude : largest;
      }
      out.peak[i] =
          std::max(out.peak[i], at_least_one(largest) * at_least_one(f.scale) * at_least_one(global));
    }
  }
  return out;
}

}  // namespace scalegemm::ref
