#include "layout/packed_header.h"

#include <algorithm>
#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/int_math.h"

namespace scalegemm::layout {
namespace {

using base::ceil_div;

static_assert(std::endian::native == std::endian::little, "packed files are little endian");

constexpr char kMagic[4] = {'S', 'G', 'P', 'K'};
constexpr int64_t kMaxBytes = int64_t{1} << 62;

// Sizes in bytes that remember an overflow past kMaxBytes.
class CheckedSize {
 public:
  explicit CheckedSize(int64_t value) : value_(value), ok_(value >= 0 && value <= kMaxBytes) {}
  CheckedSize times(int64_t factor) const {
    int64_t out = 0;
    const bool fits = !__builtin_mul_overflow(value_, factor, &out);
    return {out, ok_ && fits && out >= 0 && out <= kMaxBytes};
  }
  CheckedSize plus(int64_t other) const {
    int64_t out = 0;
    const bool fits = !__builtin_add_overflow(value_, other, &out);
    return {out, ok_ && fits && out >= 0 && out <= kMaxBytes};
  }
  CheckedSize aligned() const {
    const CheckedSize up = plus(kSectionAlign - 1);
    return {up.value_ / kSectionAlign * kSectionAlign, up.ok_};
  }
  bool ok() const { return ok_; }
  int64_t value() const { return value_; }

 private:
  CheckedSize(int64_t value, bool ok) : value_(ok ? value : 0), ok_(ok) {}
  int64_t value_;
  bool ok_;
};

bool is_scale_type(num::DType type) {
  using num::DType;
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBf16 || type == DType::kE8m0 ||
         type == DType::kE4m3;
}

bool is_zero_type(num::DType type) {
  using num::DType;
  return type == DType::kInt8 || type == DType::kInt4 || type == DType::kUint4;
}

Status check_scale(const spec::ScaleSpec& scale) {
  if (!num::is_valid(static_cast<int>(scale.type)) || !is_scale_type(scale.type)) {
    return unsupported("packed scale type: needed f32, f16, bf16, e8m0 or e4m3, got type {}",
                       static_cast<int>(scale.type));
  }
  if (scale.block_rows < 0 || scale.block_k < 0) {
    return invalid_argument("packed scale block: needed rows and k >= 0 (0 = all), got {} x {}",
                            scale.block_rows, scale.block_k);
  }
  if (scale.zero_type &&
      (!num::is_valid(static_cast<int>(*scale.zero_type)) || !is_zero_type(*scale.zero_type))) {
    return unsupported("packed zero point type: needed int8, int4 or uint4, got type {}",
                       static_cast<int>(*scale.zero_type));
  }
  return ok_status();
}

Status check_shape(const PackedShape& shape) {
  if (shape.layout != SG_PANEL_K1X32 && shape.layout != SG_PANEL_K4X16) {
    return invalid_argument("packed layout: needed {} or {}, got {}", static_cast<int>(SG_PANEL_K1X32),
                            static_cast<int>(SG_PANEL_K4X16), static_cast<int>(shape.layout));
  }
  if (!num::is_valid(static_cast<int>(shape.type))) {
    return invalid_argument("packed dtype: needed a data type, got {}", static_cast<int>(shape.type));
  }
  const int bits = num::info(shape.type).bits;
  if (shape.layout == SG_PANEL_K4X16 && bits > 8) {
    return unsupported("packed dtype: layout k4x16 needs a 4- or 8-bit type, got {}", num::name(shape.type));
  }
  if (shape.n < 1 || shape.k < 1 || shape.batch < 1) {
    return invalid_argument("packed shape: needed n, k, batch >= 1, got {} x {} x {}", shape.n, shape.k,
                            shape.batch);
  }
  if (bits == 4 && shape.k % 2 != 0) {
    return invalid_argument("packed k: {} needs an even k, got {}", num::name(shape.type), shape.k);
  }
  return shape.scale ? check_scale(*shape.scale) : ok_status();
}

uint64_t digest_of_header(PackedHeader header) {
  header.header_digest = 0;
  return XXH3_64bits(&header, sizeof header);
}

// Bytes of one section for all batch indices, given bytes of one panel.
CheckedSize section_size(CheckedSize panel_bytes, int64_t panels, int64_t batch) {
  return panel_bytes.times(panels).aligned().times(batch);
}

}  // namespace

int64_t panel_count(const PackedHeader& header) {
  return ceil_div(header.n, sg_panel_columns(header.layout));
}

int64_t kernel_block_k(const PackedHeader& header) {
  return header.block_k == spec::kAll ? header.k : header.block_k;
}

int64_t block_count(const PackedHeader& header) {
  return ceil_div(header.k, kernel_block_k(header));
}

Result<PackedHeader> describe(const PackedShape& shape) {
  SCALEGEMM_RETURN_IF_ERROR(check_shape(shape));
  PackedHeader header{};
  std::copy_n(kMagic, sizeof kMagic, header.magic);
  header.version = kPackedVersion;
  header.header_bytes = kPackedHeaderBytes;
  header.layout = static_cast<uint8_t>(shape.layout);
  header.dtype = static_cast<uint8_t>(shape.type);
  header.n = shape.n;
  header.k = shape.k;
  header.batch = shape.batch;
  header.global_scale = 1.0f;

  const int bits = num::info(shape.type).bits;
  const int64_t columns = sg_panel_columns(shape.layout);
  const int64_t panels = panel_count(header);
  const int64_t k_step = shape.layout == SG_PANEL_K4X16 ? bits == 4 ? 8 : 4 : bits == 4 ? 2 : 1;
  const CheckedSize panel = CheckedSize(ceil_div(shape.k, k_step)).times(k_step * columns * bits / 8);
  const CheckedSize codes = section_size(panel, panels, shape.batch);
  CheckedSize scales(0);
  CheckedSize zeros(0);
  if (shape.scale) {
    header.scale_dtype = static_cast<uint8_t>(shape.scale->type);
    header.block_rows = shape.scale->block_rows;
    header.block_k = shape.scale->block_k;
    const CheckedSize blocks = CheckedSize(block_count(header)).times(columns);
    scales = section_size(blocks.times(num::info(shape.scale->type).bits / 8), panels, shape.batch);
    if (shape.scale->zero_type) {
      header.zero_dtype = static_cast<uint8_t>(*shape.scale->zero_type);
      zeros = section_size(blocks, panels, shape.batch);
    }
    if (shape.scale->global) {
      header.flags |= kFlagGlobalScale;
      header.global_scale = shape.global_scale;
    }
  }
  const CheckedSize before_zeros = codes.plus(scales.value());
  const CheckedSize total = before_zeros.plus(zeros.value());
  if (!scales.ok() || !zeros.ok() || !total.plus(kPackedHeaderBytes).ok()) {
    return invalid_argument("packed shape: needed at most 2^62 bytes, got n {} x k {} x batch {}", shape.n,
                            shape.k, shape.batch);
  }
  header.codes_bytes = static_cast<uint64_t>(codes.value());
  header.scales_offset = header.codes_bytes;
  header.scales_bytes = static_cast<uint64_t>(scales.value());
  header.zeros_offset = static_cast<uint64_t>(before_zeros.value());
  header.zeros_bytes = static_cast<uint64_t>(zeros.value());
  header.payload_bytes = static_cast<uint64_t>(total.value());
  return header;
}

PackedShape shape_of(const PackedHeader& header) {
  PackedShape shape{.layout = static_cast<SgPanelLayout>(header.layout),
                    .type = static_cast<num::DType>(header.dtype),
                    .n = header.n,
                    .k = header.k,
                    .batch = header.batch,
                    .scale = std::nullopt,
                    .global_scale = header.global_scale};
  if (header.scale_dtype != 0) {
    spec::ScaleSpec scale{.type = static_cast<num::DType>(header.scale_dtype),
                          .block_rows = header.block_rows,
                          .block_k = header.block_k,
                          .zero_type = std::nullopt,
                          .global = (header.flags & kFlagGlobalScale) != 0};
    if (header.zero_dtype != 0) {
      scale.zero_type = static_cast<num::DType>(header.zero_dtype);
    }
    shape.scale = scale;
  }
  return shape;
}

Result<uint64_t> packed_size(const PackedShape& shape) {
  SCALEGEMM_ASSIGN_OR_RETURN(const PackedHeader header, describe(shape));
  return header.payload_bytes + kPackedHeaderBytes;
}

Status seal(PackedHeader& header, std::span<const std::byte> payload) {
  if (payload.size() != header.payload_bytes) {
    return invalid_argument("packed payload: needed {} bytes, got {}", header.payload_bytes, payload.size());
  }
  const XXH128_hash_t hash = XXH3_128bits(payload.data(), payload.size());
  header.payload_digest[0] = hash.low64;
  header.payload_digest[1] = hash.high64;
  header.header_digest = digest_of_header(header);
  return ok_status();
}

Result<PackedHeader> validate_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kPackedHeaderBytes) {
    return make_error(Code::kCorruptData, "packed header: needed {} bytes, got {}", kPackedHeaderBytes,
                      bytes.size());
  }
  PackedHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (!std::equal(kMagic, kMagic + sizeof kMagic, header.magic)) {
    return make_error(Code::kCorruptData, "packed header: needed magic \"SGPK\", got other bytes");
  }
  if (header.version != kPackedVersion || header.header_bytes != kPackedHeaderBytes) {
    return unsupported("packed header: needed version {} of {} bytes, got version {} of {} bytes",
                       kPackedVersion, kPackedHeaderBytes, header.version, header.header_bytes);
  }
  if (header.header_digest != digest_of_header(header)) {
    return make_error(Code::kCorruptData, "packed header: its digest does not match its bytes");
  }
  // SgPanelLayout has no values but those it names: a code is checked before it becomes one.
  if (header.layout != SG_PANEL_K1X32 && header.layout != SG_PANEL_K4X16) {
    return make_error(Code::kCorruptData, "packed header: packed layout: needed {} or {}, got {}",
                      static_cast<int>(SG_PANEL_K1X32), static_cast<int>(SG_PANEL_K4X16), header.layout);
  }
  // Everything but the digests follows from the shape: made again and compared as bytes, no field of a
  // hostile header is ever used in arithmetic that was not checked.
  Result<PackedHeader> expected = describe(shape_of(header));
  if (!expected.ok()) {
    return make_error(Code::kCorruptData, "packed header: {}", expected.status().message());
  }
  std::copy_n(header.payload_digest, 2, expected->payload_digest);
  expected->header_digest = header.header_digest;
  if (std::memcmp(&*expected, &header, sizeof header) != 0) {
    return make_error(Code::kCorruptData,
                      "packed header: sizes and offsets do not follow from n {}, k {}, batch {}, dtype {}",
                      header.n, header.k, header.batch, header.dtype);
  }
  return header;
}

Result<PackedView> parse(std::span<const std::byte> bytes, DigestCheck check) {
  SCALEGEMM_ASSIGN_OR_RETURN(const PackedHeader header, validate_header(bytes));
  const std::span<const std::byte> payload = bytes.subspan(kPackedHeaderBytes);
  if (payload.size() != header.payload_bytes) {
    return make_error(Code::kCorruptData, "packed file: needed {} bytes of payload, got {}",
                      header.payload_bytes, payload.size());
  }
  if (check == DigestCheck::kVerify) {
    const XXH128_hash_t hash = XXH3_128bits(payload.data(), payload.size());
    if (hash.low64 != header.payload_digest[0] || hash.high64 != header.payload_digest[1]) {
      return make_error(Code::kCorruptData,
                        "packed file: the digest of the payload does not match its bytes");
    }
  }
  return PackedView{header, payload};
}

}  // namespace scalegemm::layout
