#include "quant/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "num/bulk.h"
#include "quant/block_scale.h"
#include "quant/rows.h"

namespace scalegemm::quant {
namespace {

using num::DType;
using num::info;
using num::Overflow;
using spec::OperandSpec;

// One grid row: a block of matrix rows, and its blocks along K.
struct RowBlock {
  int64_t begin = 0;
  int64_t end = 0;
};

// Quantises one grid row after the other.
class Quantizer {
 public:
  Quantizer(const OperandSpec& operand, const FloatMatrix& source, const QuantizeOptions& options,
            const QuantizeOutputs& out)
      : source_(source),
        out_(out),
        rule_{.type = operand.type, .scale = *operand.scale, .rounding = options.scale_rounding, .global = 1},
        block_k_(operand.scale->block_k == spec::kAll ? source.k : operand.scale->block_k),
        rows_(source),
        ranges_(static_cast<size_t>(spec::scale_grid(*operand.scale, source.rows, source.k).cols)),
        blocks_(ranges_.size()),
        steps_(static_cast<size_t>(source.k)) {}

  Status run() {
    if (rule_.scale.global) {
      *out_.global = rule_.global = choose_global(rule_.type, rule_.scale, finite_amax());
    }
    const int64_t block_rows = rule_.scale.block_rows == spec::kAll ? source_.rows : rule_.scale.block_rows;
    int64_t grid_row = 0;
    for (int64_t begin = 0; begin < source_.rows; begin += std::min(block_rows, source_.rows - begin)) {
      const RowBlock rows{.begin = begin, .end = begin + std::min(block_rows, source_.rows - begin)};
      measure(rows);
      SCALEGEMM_RETURN_IF_ERROR(check_signs(rows));
      store_scales(grid_row);
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        encode_row(r);
      }
      ++grid_row;
    }
    return ok_status();
  }

 private:
  int64_t block_begin(size_t block) const { return static_cast<int64_t>(block) * block_k_; }
  int64_t block_size(size_t block) const { return std::min(block_k_, source_.k - block_begin(block)); }

  // The largest finite magnitude of the matrix: a NaN somewhere must not spoil the factor of everything.
  float finite_amax() {
    float amax = 0;
    for (int64_t r = 0; r < source_.rows; ++r) {
      const float* row = rows_.row(r);
      Range range;
      range.add(row, source_.k);
      if (range.finite()) {
        amax = std::max(amax, range.amax());
        continue;
      }
      for (int64_t j = 0; j < source_.k; ++j) {
        amax = std::isfinite(row[j]) ? std::max(amax, std::fabs(row[j])) : amax;
      }
    }
    return amax;
  }

  void measure(RowBlock rows) {
    std::fill(ranges_.begin(), ranges_.end(), Range{});
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* row = rows_.row(r);
      for (size_t j = 0; j < ranges_.size(); ++j) {
        ranges_[j].add(row + block_begin(j), block_size(j));
      }
    }
  }

  Status check_signs(RowBlock rows) const {
    if (info(rule_.type).is_signed || rule_.scale.zero_type) {
      return ok_status();
    }
    for (size_t j = 0; j < ranges_.size(); ++j) {
      if (ranges_[j].finite() && ranges_[j].low() < 0) {
        return invalid_argument(
            "source: needed values >= 0, as {} without zero points holds no others; given {} in rows {} to "
            "{}, k {} to {}",
            num::name(rule_.type), ranges_[j].low(), rows.begin, rows.end - 1, block_begin(j),
            block_begin(j) + block_size(j) - 1);
      }
    }
    return ok_status();
  }

  void store_scales(int64_t grid_row) {
    for (size_t j = 0; j < blocks_.size(); ++j) {
      blocks_[j] = choose_scale(rule_, ranges_[j]);
      const int64_t index = grid_row * static_cast<int64_t>(blocks_.size()) + static_cast<int64_t>(j);
      num::store_code(rule_.scale.type, out_.scales.data(), index, blocks_[j].scale_code);
      if (rule_.scale.zero_type) {
        out_.zeros[static_cast<size_t>(index)] = static_cast<std::byte>(blocks_[j].zero_code);
      }
    }
  }

  // Elements in steps of their scale, then all codes of the row at once.
  void encode_row(int64_t r) {
    const float* row = rows_.row(r);
    for (size_t j = 0; j < blocks_.size(); ++j) {
      to_steps(
          blocks_[j], row + block_begin(j),
          std::span(steps_).subspan(static_cast<size_t>(block_begin(j)), static_cast<size_t>(block_size(j))));
    }
    num::encode_array(rule_.type, steps_, Overflow::kSaturate,
                      out_.codes.data() + r * num::bytes_of(rule_.type, source_.k));
  }

  void to_steps(const BlockScale& block, const float* values, std::span<float> steps) const {
    if (std::isnan(block.used)) {
      std::fill(steps.begin(), steps.end(), 0.0f);
      return;
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      steps[i] = values[i] / block.used;
    }
    if (info(rule_.type).is_float) {
      return;
    }
    if (rule_.scale.zero_type) {
      add_zero_point(block.zero, steps);
    } else {
      // A rounded scale may be a little small: -127.6 steps must not become -128, which has no opposite.
      const float lowest = -info(rule_.type).max_finite;
      for (float& step : steps) {
        step = step < lowest ? lowest : step;
      }
    }
  }

  // round(x / scale) + zero: rounded before the zero point is added, which might turn an even tie into an odd
  // one. Adding and subtracting 1.5 * 2^23 rounds small numbers to integers, ties to even.
  static void add_zero_point(float zero, std::span<float> steps) {
    constexpr float kMagic = 0x1.8p23f;
    constexpr float kFar = 1024;  // past every code, whatever the zero point
    for (float& step : steps) {
      const float low = step < -kFar ? -kFar : step;
      step = low > kFar ? kFar : low;
    }
    // A loop of its own: arithmetic behind a selection stays a branch, and loops with branches stay scalar.
    for (float& step : steps) {
      step = step + kMagic - kMagic + zero;
    }
  }

  const FloatMatrix source_;
  const QuantizeOutputs& out_;
  ScaleRule rule_;
  int64_t block_k_;
  RowReader rows_;
  std::vector<Range> ranges_;
  std::vector<BlockScale> blocks_;
  std::vector<float> steps_;
};

// Operands without scales: a plain conversion of every element.
Status cast(DType type, const FloatMatrix& source, const QuantizeOutputs& out) {
  const Overflow overflow = info(type).bits >= 16 ? Overflow::kIeee : Overflow::kSaturate;
  RowReader rows(source);
  for (int64_t r = 0; r < source.rows; ++r) {
    const std::span<const float> row(rows.row(r), static_cast<size_t>(source.k));
    if (!info(type).has_nan) {
      const auto nan = std::find_if(row.begin(), row.end(), [](float x) { return std::isnan(x); });
      if (nan != row.end()) {
        return invalid_argument(
            "source: needed no NaN, as {} without scales cannot hold it; given NaN at row {}, k {}",
            num::name(type), r, nan - row.begin());
      }
    }
    num::encode_array(type, row, overflow, out.codes.data() + r * num::bytes_of(type, source.k));
  }
  return ok_status();
}

Status check_size(const char* argument, size_t given, size_t needed) {
  return given == needed ? ok_status()
                         : invalid_argument("{}: needed {} bytes; given {}", argument, needed, given);
}

Status check_outputs(const OperandSpec& operand, const OutputSizes& sizes, const QuantizeOutputs& out) {
  SCALEGEMM_RETURN_IF_ERROR(check_size("codes", out.codes.size(), sizes.codes));
  SCALEGEMM_RETURN_IF_ERROR(check_size("scales", out.scales.size(), sizes.scales));
  SCALEGEMM_RETURN_IF_ERROR(check_size("zeros", out.zeros.size(), sizes.zeros));
  if (operand.scale && operand.scale->global && out.global == nullptr) {
    return invalid_argument("global: needed a place for the global factor; given null");
  }
  return ok_status();
}

}  // namespace

std::string_view name(ScaleRounding rounding) {
  constexpr std::string_view kNames[] = {"floor", "even", "ceil"};
  return kNames[static_cast<size_t>(rounding)];
}

Result<OutputSizes> output_sizes(const OperandSpec& operand, int64_t rows, int64_t k) {
  // One source of rules: an operand is well formed when a problem that has it as B is.
  spec::Problem problem;
  problem.m = 1;
  problem.n = rows;
  problem.k = k;
  problem.b = operand;
  if (Status status = spec::validate(problem); !status.ok()) {
    return status.with_context("operand (as B, rows as N)");
  }
  OutputSizes sizes{.codes = static_cast<size_t>(rows * num::bytes_of(operand.type, k)), .grid = {0, 0}};
  if (operand.scale) {
    sizes.grid = spec::scale_grid(*operand.scale, rows, k);
    const int64_t count = sizes.grid.rows * sizes.grid.cols;
    sizes.scales = static_cast<size_t>(num::bytes_of(operand.scale->type, count));
    sizes.zeros = operand.scale->zero_type ? static_cast<size_t>(count) : 0;
  }
  return sizes;
}

Status quantize(const OperandSpec& operand, const FloatMatrix& source, const QuantizeOptions& options,
                const QuantizeOutputs& out) {
  SCALEGEMM_ASSIGN_OR_RETURN(const OutputSizes sizes, output_sizes(operand, source.rows, source.k));
  SCALEGEMM_RETURN_IF_ERROR(check_outputs(operand, sizes, out));
  if (source.data == nullptr) {
    return invalid_argument("source: needed {} x {} f32 numbers; given null", source.rows, source.k);
  }
  if (options.scale_rounding > ScaleRounding::kCeil) {
    return invalid_argument("scale_rounding: needed 0 (floor), 1 (even) or 2 (ceil); given {}",
                            static_cast<int>(options.scale_rounding));
  }
  return operand.scale ? Quantizer(operand, source, options, out).run() : cast(operand.type, source, out);
}

Result<QuantizedMatrix> quantize(const OperandSpec& operand, const FloatMatrix& source,
                                 const QuantizeOptions& options) {
  SCALEGEMM_ASSIGN_OR_RETURN(const OutputSizes sizes, output_sizes(operand, source.rows, source.k));
  QuantizedMatrix result;
  result.operand = operand;
  result.rows = source.rows;
  result.k = source.k;
  result.grid = sizes.grid;
  result.codes.resize(sizes.codes);
  result.scales.resize(sizes.scales);
  result.zeros.resize(sizes.zeros);
  SCALEGEMM_RETURN_IF_ERROR(quantize(
      operand, source, options,
      {.codes = result.codes, .scales = result.scales, .zeros = result.zeros, .global = &result.global}));
  return result;
}

}  // namespace scalegemm::quant
