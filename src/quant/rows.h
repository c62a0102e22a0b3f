// Rows of a strided matrix as contiguous memory. Internal to this room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "quant/quantize.h"

namespace scalegemm::quant {

// Where K is not contiguous, 16 rows at a time are copied: with rows contiguous (a transposed matrix) each
// visit of a cache line then yields 16 numbers.
class RowReader {
 public:
  explicit RowReader(const FloatMatrix& source) : source_(source) {
    if (source.stride_k != 1) {
      panel_.resize(static_cast<size_t>(std::min(kPanelRows, source.rows) * source.k));
    }
  }

  // k contiguous numbers, valid until the next call.
  const float* row(int64_t r) {
    if (source_.stride_k == 1) {
      return source_.data + r * source_.stride_r;
    }
    const int64_t first = r / kPanelRows * kPanelRows;
    if (first != first_) {
      load(first);
    }
    return panel_.data() + (r - first) * source_.k;
  }

 private:
  static constexpr int64_t kPanelRows = 16;

  void load(int64_t first) {
    first_ = first;
    const int64_t rows = std::min(kPanelRows, source_.rows - first);
    const float* from = source_.data + first * source_.stride_r;
    for (int64_t j = 0; j < source_.k; ++j) {
      for (int64_t i = 0; i < rows; ++i) {
        panel_[static_cast<size_t>(i * source_.k + j)] = from[i * source_.stride_r + j * source_.stride_k];
      }
    }
  }

  const FloatMatrix source_;
  std::vector<float> panel_;
  int64_t first_ = -1;
};

}  // namespace scalegemm::quant
