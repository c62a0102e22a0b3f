// Views of the caller's memory and the checks that a run makes on them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "num/dtype.h"

namespace scalegemm::runtime {

using num::DType;

// batch x rows x cols elements. Strides count storage elements (one byte with two codes for 4-bit types);
// `bytes` is the extent of the memory behind `data`. No data: the tensor is absent.
struct Tensor {
  void* data = nullptr;
  uint64_t bytes = 0;
  std::optional<DType> type;
  std::array<int64_t, 3> shape = {1, 1, 1};
  std::array<int64_t, 3> stride = {0, 0, 1};

  bool present() const { return data != nullptr; }
};

// What a tensor must be. A batch of 1 serves every batch index of the problem.
struct Expected {
  std::string_view name;  // of the argument, for messages
  DType type;
  int64_t batch = 1;
  int64_t rows = 1;
  int64_t cols = 1;
  bool one_code_a_byte = false;  // 4-bit zero points
  int unit_dim = -1;             // the dimension whose stride must be 1: 1 rows, 2 columns; -1: any
};

// Bytes of one storage element.
int64_t element_bytes(DType type);

// The stride of a dimension of one element is never taken and may be any number: 0, which no kernel can
// overflow on.
int64_t stride_of(const Tensor& tensor, size_t dim);

// Present, of the right type and shape, strides not negative, aligned to its element, and inside `bytes`.
Status check_tensor(const Tensor& tensor, const Expected& expected);

// As check_tensor, and also that no two elements share memory.
Status check_output(const Tensor& tensor, const Expected& expected);

// Nothing may be passed for an argument that the problem does not have.
Status check_absent(const Tensor& tensor, std::string_view name, std::string_view reason);

// The byte extent that shape and strides span; shape >= 1, strides >= 0. 4-bit columns count half.
__int128 span_bytes(const Tensor& tensor, bool one_code_a_byte);

// The memory from the first to the last element.
struct ByteRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;

  bool meets(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};
ByteRange range_of(const Tensor& tensor, bool one_code_a_byte);

}  // namespace scalegemm::runtime
