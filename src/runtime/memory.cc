#include "runtime/memory.h"

#include <sys/mman.h>

#include <cstdlib>

namespace scalegemm::runtime {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kCacheLine = 64;

}  // namespace

Result<AlignedBuffer> AlignedBuffer::allocate(uint64_t bytes) {
  AlignedBuffer buffer;
  if (bytes == 0) {
    return buffer;
  }
  const uint64_t align = bytes >= kHugePage ? kHugePage : kCacheLine;
  const uint64_t rounded = (bytes + align - 1) / align * align;
  if (rounded < bytes) {
    return make_error(Code::kOutOfMemory, "{} bytes cannot be allocated", bytes);
  }
  void* data = std::aligned_alloc(align, rounded);
  if (data == nullptr) {
    return make_error(Code::kOutOfMemory, "allocating {} bytes failed", bytes);
  }
  if (align == kHugePage) {
    // A hint only: without huge pages everything works, slower.
    (void)madvise(data, rounded, MADV_HUGEPAGE);
  }
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = bytes;
  return buffer;
}

AlignedBuffer::~AlignedBuffer() {
  std::free(data_);
}

}  // namespace scalegemm::runtime
