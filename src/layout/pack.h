// Packers: raw weights -> panels and back. Pure functions over caller's memory, thread-safe; the work is a
// range of panels, so that threads may share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "layout/packed_header.h"

namespace scalegemm::layout {

// A raw grid of scales or zero points, [grid row][grid k]; strides count elements. Its blocks are those of
// the header. 4-bit zero points are one code a byte (int4: the low nibble, two's complement).
struct GridView {
  const void* data = nullptr;
  int64_t stride_r = 0;
  int64_t stride_k = 0;
  int64_t stride_batch = 0;
};

// Raw weights seen as N x K. Strides count storage elements: for 4-bit types a byte that holds (k even: low
// nibble, k + 1: high nibble), at data + n*stride_n + (k/2)*stride_k. Any strides are legal, 0 and negative
// ones too; only elements inside N x K are read. The caller vouches for the memory.
struct RawWeights {
  const void* data = nullptr;
  int64_t stride_n = 0;
  int64_t stride_k = 0;
  int64_t stride_batch = 0;
  GridView scale = {};  // used when the header has scales, like the next
  GridView zero = {};
};

// Panels [begin, end) of batch * panel_count(header), batch-major.
struct PanelRange {
  int64_t begin = 0;
  int64_t end = 0;
};

PanelRange all_panels(const PackedHeader& header);

// Packs a range of panels into `payload` (payload_bytes, any alignment). Once every panel was packed, every
// byte of the payload is defined. Null pointers, a range out of bounds or a payload of another size are
// refused.
Status pack(const PackedHeader& header, const RawWeights& raw, std::span<std::byte> payload,
            PanelRange range);

// Where unpack writes: contiguous, [batch][n][k] codes (4-bit: k/2 bytes a row), [batch][grid row][grid k]
// scales in their type, zero points of the same shape, one int8 each. Empty spans are left out; others must
// have the exact size.
struct UnpackedWeights {
  std::span<std::byte> codes;
  std::span<std::byte> scales;
  std::span<std::byte> zeros;
};

// The exact inverse of pack for contiguous weights. (A 4-bit zero point comes back as its value in int8.)
Status unpack(const PackedHeader& header, std::span<const std::byte> payload, const UnpackedWeights& out);

}  // namespace scalegemm::layout
