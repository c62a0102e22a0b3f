#include "runtime/tensor.h"

#include <algorithm>

namespace scalegemm::runtime {
namespace {

// Storage elements along dimension `dim`.
int64_t stored_extent(const Tensor& tensor, int dim, bool one_code_a_byte) {
  const bool halved = dim == 2 && num::is_packed4(*tensor.type) && !one_code_a_byte;
  return halved ? (tensor.shape[2] + 1) / 2 : tensor.shape[static_cast<size_t>(dim)];
}

Status check_shape(const Tensor& tensor, const Expected& want) {
  const bool batch_ok = tensor.shape[0] == want.batch || tensor.shape[0] == 1;
  if (!batch_ok || tensor.shape[1] != want.rows || tensor.shape[2] != want.cols) {
    return invalid_argument("{}: shape must be {} x {} x {} (batch x rows x columns), got {} x {} x {}",
                            want.name, want.batch, want.rows, want.cols, tensor.shape[0], tensor.shape[1],
                            tensor.shape[2]);
  }
  return ok_status();
}

Status check_strides(const Tensor& tensor, const Expected& want) {
  for (size_t dim = 0; dim < 3; ++dim) {
    if (tensor.stride[dim] < 0) {
      return invalid_argument("{}: stride[{}] must not be negative, got {}", want.name, dim,
                              tensor.stride[dim]);
    }
  }
  if (want.unit_dim >= 0) {
    const auto dim = static_cast<size_t>(want.unit_dim);
    if (stored_extent(tensor, want.unit_dim, want.one_code_a_byte) > 1 && tensor.stride[dim] != 1) {
      return invalid_argument("{}: {} must be contiguous, so stride[{}] must be 1, got {}", want.name,
                              dim == 1 ? "rows" : "columns", dim, tensor.stride[dim]);
    }
  }
  return ok_status();
}

}  // namespace

int64_t element_bytes(DType type) {
  return std::max<int64_t>(1, num::info(type).bits / 8);
}

int64_t stride_of(const Tensor& tensor, size_t dim) {
  return tensor.shape[dim] == 1 ? 0 : tensor.stride[dim];
}

__int128 span_bytes(const Tensor& tensor, bool one_code_a_byte) {
  __int128 last = 0;
  for (int dim = 0; dim < 3; ++dim) {
    last += static_cast<__int128>(stored_extent(tensor, dim, one_code_a_byte) - 1) *
            tensor.stride[static_cast<size_t>(dim)];
  }
  return (last + 1) * element_bytes(*tensor.type);
}

ByteRange range_of(const Tensor& tensor, bool one_code_a_byte) {
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  return {begin, begin + static_cast<uintptr_t>(span_bytes(tensor, one_code_a_byte))};
}

Status check_tensor(const Tensor& tensor, const Expected& want) {
  if (!tensor.present()) {
    return invalid_argument("{}: data must not be null: the problem needs a {} tensor of {} x {}", want.name,
                            num::name(want.type), want.rows, want.cols);
  }
  if (!tensor.type || *tensor.type != want.type) {
    return invalid_argument("{}: dtype must be {}, got {}", want.name, num::name(want.type),
                            tensor.type ? num::name(*tensor.type) : "none");
  }
  SCALEGEMM_RETURN_IF_ERROR(check_shape(tensor, want));
  SCALEGEMM_RETURN_IF_ERROR(check_strides(tensor, want));
  const int64_t align = element_bytes(want.type);
  if (reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(align) != 0) {
    return invalid_argument("{}: data must be aligned to its {}-byte elements, got address ...{:04x}",
                            want.name, align, reinterpret_cast<uintptr_t>(tensor.data) & 0xffff);
  }
  const __int128 needed = span_bytes(tensor, want.one_code_a_byte);
  if (needed > static_cast<__int128>(tensor.bytes)) {
    const bool huge = needed > static_cast<__int128>(INT64_MAX);
    return invalid_argument("{}: shape and strides span {} bytes, but bytes is {}", want.name,
                            huge ? std::string("over 2^63") : fmt::format("{}", static_cast<int64_t>(needed)),
                            tensor.bytes);
  }
  return ok_status();
}

Status check_output(const Tensor& tensor, const Expected& want) {
  SCALEGEMM_RETURN_IF_ERROR(check_tensor(tensor, want));
  if (tensor.shape[0] != want.batch) {
    return invalid_argument("{}: shape[0] must be the batch {}, got {}", want.name, want.batch,
                            tensor.shape[0]);
  }
  // With dimensions by falling stride, each must step over everything below it.
  std::array<size_t, 3> order = {0, 1, 2};
  std::sort(order.begin(), order.end(),
            [&](size_t x, size_t y) { return tensor.stride[x] > tensor.stride[y]; });
  __int128 below = 1;
  for (size_t i = 3; i-- > 0;) {
    const size_t dim = order[i];
    const int64_t extent = stored_extent(tensor, static_cast<int>(dim), want.one_code_a_byte);
    if (extent == 1) {
      continue;
    }
    if (tensor.stride[dim] < below) {
      return invalid_argument("{}: elements overlap: stride[{}] is {}, needs at least {}", want.name, dim,
                              tensor.stride[dim], static_cast<int64_t>(below));
    }
    below = static_cast<__int128>(tensor.stride[dim]) * (extent - 1) + below;
  }
  return ok_status();
}

Status check_absent(const Tensor& tensor, std::string_view name, std::string_view reason) {
  return tensor.present() ? invalid_argument("{}: must be absent (data null): {}", name, reason)
                          : ok_status();
}

}  // namespace scalegemm::runtime
