// The self-describing form of packed weights: a header that says everything, then the payload.
//
// A packed file is PackedHeader (192 bytes, little endian) followed by payload_bytes of payload, and is
// byte-identical on every machine. The payload holds up to three sections, each at a multiple of 64 bytes
// from its start, in this order (kernels/common/panels.h defines the order inside a section):
//
//   codes    batch x panels of codes
//   scales   batch x [panel][k block][column], in the scale's own type; absent without scales
//   zeros    the same shape, one int8 an element; absent without zero points
//
// The part of one batch index is section_bytes / batch, always a multiple of 64; bytes that no panel covers
// are 0. How a kernel is told (SgOperand in kernels/cpu/abi.h):
//
//   b.packed = header.layout                     b.dtype = header.dtype
//   b.data = payload + codes_offset              b.stride_batch = codes_bytes / batch / bytes of an element
//   b.scale.data = payload + scales_offset       b.scale.stride_batch = scales_bytes / batch / bytes of one
//   b.zero.data = payload + zeros_offset         b.zero.stride_batch = zeros_bytes / batch, dtype int8
//   block_r = 1 (repeated for every column), block_k = kernel_block_k(header); the other strides unused
//
// Every function is pure and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "common/panels.h"
#include "num/dtype.h"
#include "spec/problem.h"

namespace scalegemm::layout {

inline constexpr uint16_t kPackedVersion = 1;
inline constexpr uint16_t kPackedHeaderBytes = 192;
inline constexpr int64_t kSectionAlign = 64;
inline constexpr uint32_t kFlagGlobalScale = 1;

// Field by field what a file holds. `scale_dtype` and `zero_dtype` are 0 where there is none; block_rows and
// block_k are those of the raw grid, 0 for "all". Offsets count from the start of the payload.
struct PackedHeader {
  char magic[4];  // "SGPK"
  uint16_t version;
  uint16_t header_bytes;
  uint8_t layout;  // SgPanelLayout, never SG_RAW
  uint8_t dtype;   // num::DType, like the next two
  uint8_t scale_dtype;
  uint8_t zero_dtype;  // of the raw zero points; packed ones are int8
  uint32_t flags;
  int64_t n, k, batch;
  int64_t block_rows, block_k;
  float global_scale;  // 1 without kFlagGlobalScale
  uint32_t reserved0;
  uint64_t codes_offset, codes_bytes;
  uint64_t scales_offset, scales_bytes;
  uint64_t zeros_offset, zeros_bytes;
  uint64_t payload_bytes;
  uint64_t payload_digest[2];  // XXH3-128 of the payload: low, high
  uint64_t header_digest;      // XXH3-64 of the header with this field 0
  uint64_t reserved1[6];
};
static_assert(sizeof(PackedHeader) == kPackedHeaderBytes);
static_assert(offsetof(PackedHeader, n) == 16 && offsetof(PackedHeader, codes_offset) == 64);
static_assert(offsetof(PackedHeader, payload_digest) == 120 && offsetof(PackedHeader, header_digest) == 136);

// What is to be packed.
struct PackedShape {
  SgPanelLayout layout = SG_PANEL_K4X16;
  num::DType type = num::DType::kInt8;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  std::optional<spec::ScaleSpec> scale = std::nullopt;
  float global_scale = 1.0f;  // used when scale->global is set
};

// The header of that shape, digests still 0. Refuses layouts that do not hold the type (SG_PANEL_K4X16 takes
// 4- and 8-bit types), scale types other than f32, f16, bf16, e8m0, e4m3, sizes < 1 and anything whose size
// in bytes does not fit in 62 bits.
Result<PackedHeader> describe(const PackedShape& shape);

// The shape a (valid) header was made from.
PackedShape shape_of(const PackedHeader& header);

// Bytes of the file: header and payload.
Result<uint64_t> packed_size(const PackedShape& shape);

// Panels of one batch index, and scale blocks along K of one panel.
int64_t panel_count(const PackedHeader& header);
int64_t block_count(const PackedHeader& header);

// block_k as the kernels want it: "all" becomes K.
int64_t kernel_block_k(const PackedHeader& header);

// Fills in the digests once the payload is complete.
Status seal(PackedHeader& header, std::span<const std::byte> payload);

// Checks the first kPackedHeaderBytes of `bytes` and returns them: magic, version, digest of the header,
// types, sizes, and that every offset and size is exactly what describe() gives for the shape, so that no
// later arithmetic on a header can overflow. Any input is safe.
Result<PackedHeader> validate_header(std::span<const std::byte> bytes);

// A whole packed file in memory.
struct PackedView {
  PackedHeader header;
  std::span<const std::byte> payload;  // into the bytes that were parsed
};

enum class DigestCheck { kVerify, kSkip };

// validate_header, then the length, then (kVerify) the digest of the payload. Trailing bytes are refused.
Result<PackedView> parse(std::span<const std::byte> bytes, DigestCheck check = DigestCheck::kVerify);

}  // namespace scalegemm::layout
