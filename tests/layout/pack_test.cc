// Packers: panels.h is the oracle of the order; every type, layout, odd size and stride round-trips.
#include "layout/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace scalegemm::layout {
namespace {

using num::DType;
using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t count, uint32_t seed) {
  std::mt19937 rng(seed);
  Bytes out(count);
  for (std::byte& b : out) {
    b = static_cast<std::byte>(rng());
  }
  return out;
}

// Header, panels and digests of a whole packed file of packed_size() bytes.
Status pack_file(const PackedShape& shape, const RawWeights& raw, std::span<std::byte> file) {
  SCALEGEMM_ASSIGN_OR_RETURN(PackedHeader header, describe(shape));
  const std::span<std::byte> payload = file.subspan(kPackedHeaderBytes);
  SCALEGEMM_RETURN_IF_ERROR(pack(header, raw, payload, all_panels(header)));
  SCALEGEMM_RETURN_IF_ERROR(seal(header, payload));
  std::memcpy(file.data(), &header, sizeof header);
  return ok_status();
}

struct Raw {
  Bytes codes, scales, zeros;  // contiguous, row-major
};

int64_t grid_rows(const PackedShape& s) {
  return s.scale->block_rows == 0 ? 1 : (s.n + s.scale->block_rows - 1) / s.scale->block_rows;
}

int64_t grid_cols(const PackedShape& s) {
  return s.scale->block_k == 0 ? 1 : (s.k + s.scale->block_k - 1) / s.scale->block_k;
}

Raw random_raw(const PackedShape& s, uint32_t seed) {
  Raw raw;
  raw.codes = random_bytes(static_cast<size_t>(num::bytes_of(s.type, s.n * s.k) * s.batch), seed);
  if (s.scale) {
    const int64_t grid = grid_rows(s) * grid_cols(s) * s.batch;
    raw.scales = random_bytes(static_cast<size_t>(grid * num::info(s.scale->type).bits / 8), seed + 1);
    if (s.scale->zero_type) {
      raw.zeros = random_bytes(static_cast<size_t>(grid), seed + 2);
    }
  }
  return raw;
}

RawWeights view_of(const PackedShape& s, const Raw& raw) {
  const int64_t row = s.k * num::info(s.type).bits / (num::is_packed4(s.type) ? 8 : num::info(s.type).bits);
  RawWeights w{.data = raw.codes.data(), .stride_n = row, .stride_k = 1, .stride_batch = row * s.n};
  if (s.scale) {
    w.scale = {raw.scales.data(), grid_cols(s), 1, grid_rows(s) * grid_cols(s)};
    w.zero = {raw.zeros.empty() ? nullptr : raw.zeros.data(), grid_cols(s), 1, grid_rows(s) * grid_cols(s)};
  }
  return w;
}

uint32_t raw_code(const PackedShape& s, const Raw& raw, int64_t b, int64_t n, int64_t k) {
  const int bits = num::info(s.type).bits;
  const int64_t index = (b * s.n + n) * s.k + k;
  if (bits == 4) {
    return std::to_integer<uint32_t>(raw.codes[static_cast<size_t>(index / 2)]) >> (index % 2 * 4) & 15u;
  }
  uint32_t out = 0;
  std::memcpy(&out, raw.codes.data() + index * bits / 8, static_cast<size_t>(bits / 8));
  return out;
}

// Every code of the payload, padding included, against the map of panels.h.
void expect_codes(const PackedShape& s, const PackedHeader& h, const Raw& raw, const std::byte* payload) {
  const int bits = num::info(s.type).bits;
  const int64_t columns = sg_panel_columns(s.layout);
  const int64_t padded_n = sg_round_up(s.n, columns);
  const int64_t padded_k = sg_panel_k(s.layout, bits, s.k);
  for (int64_t b = 0; b < s.batch; ++b) {
    const std::byte* codes = payload + h.codes_offset + b * (static_cast<int64_t>(h.codes_bytes) / s.batch);
    for (int64_t n = 0; n < padded_n; ++n) {
      for (int64_t k = 0; k < padded_k; ++k) {
        int high = 0;
        const int64_t at = sg_panel_offset(s.layout, bits, s.k, n, k, &high);
        uint32_t got = 0;
        std::memcpy(&got, codes + at, static_cast<size_t>(bits == 4 ? 1 : bits / 8));
        got = bits == 4 ? got >> (high * 4) & 15u : got;
        const uint32_t want = n < s.n && k < s.k ? raw_code(s, raw, b, n, k) : 0;
        ASSERT_EQ(got, want) << "batch " << b << " n " << n << " k " << k;
      }
    }
  }
}

int widened(DType type, std::byte z) {
  const int code = std::to_integer<int>(z);
  switch (type) {
    case DType::kUint4:
      return code & 15;
    case DType::kInt4:
      return (code & 15) >= 8 ? (code & 15) - 16 : code & 15;
    default:
      return code >= 128 ? code - 256 : code;
  }
}

void expect_grids(const PackedShape& s, const PackedHeader& h, const Raw& raw, const std::byte* payload) {
  const int64_t columns = sg_panel_columns(s.layout);
  const int64_t padded_n = sg_round_up(s.n, columns);
  const size_t size = static_cast<size_t>(num::info(s.scale->type).bits / 8);
  const int64_t block_rows = s.scale->block_rows == 0 ? s.n : s.scale->block_rows;
  for (int64_t b = 0; b < s.batch; ++b) {
    const std::byte* scales =
        payload + h.scales_offset + b * (static_cast<int64_t>(h.scales_bytes) / s.batch);
    const std::byte* zeros = payload + h.zeros_offset + b * (static_cast<int64_t>(h.zeros_bytes) / s.batch);
    for (int64_t n = 0; n < padded_n; ++n) {
      for (int64_t j = 0; j < grid_cols(s); ++j) {
        const int64_t at = (n / columns * grid_cols(s) + j) * columns + n % columns;
        const int64_t from = (b * grid_rows(s) + n / block_rows) * grid_cols(s) + j;
        if (n < s.n) {
          ASSERT_EQ(0, std::memcmp(scales + at * static_cast<int64_t>(size),
                                   raw.scales.data() + from * static_cast<int64_t>(size), size));
        }
        if (s.scale->zero_type) {
          const int want = n < s.n ? widened(*s.scale->zero_type, raw.zeros[static_cast<size_t>(from)]) : 0;
          ASSERT_EQ(static_cast<int8_t>(zeros[at]), want);
        }
      }
    }
  }
}

void expect_round_trip(const PackedShape& s, const Raw& raw, std::span<const std::byte> file) {
  const Result<PackedView> view = parse(file);
  ASSERT_TRUE(view.ok()) << view.status().message();
  Raw back;
  back.codes.resize(raw.codes.size());
  back.scales.resize(raw.scales.size());
  back.zeros.resize(raw.zeros.size());
  const Status status = unpack(view->header, view->payload, {back.codes, back.scales, back.zeros});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(back.codes, raw.codes);
  EXPECT_EQ(back.scales, raw.scales);
  for (size_t i = 0; i < raw.zeros.size(); ++i) {
    ASSERT_EQ(static_cast<int8_t>(back.zeros[i]), widened(*s.scale->zero_type, raw.zeros[i]));
  }
}

void check(const PackedShape& s, uint32_t seed) {
  SCOPED_TRACE(std::string(num::name(s.type)) + " layout " + std::to_string(s.layout) + " n " +
               std::to_string(s.n) + " k " + std::to_string(s.k) + " batch " + std::to_string(s.batch));
  const Raw raw = random_raw(s, seed);
  const Result<uint64_t> size = packed_size(s);
  ASSERT_TRUE(size.ok()) << size.status().message();
  Bytes file(*size, std::byte{0xAA});
  const Status status = pack_file(s, view_of(s, raw), file);
  ASSERT_TRUE(status.ok()) << status.message();
  const Result<PackedHeader> header = validate_header(file);
  ASSERT_TRUE(header.ok()) << header.status().message();
  ASSERT_EQ(header->codes_bytes / static_cast<uint64_t>(s.batch) % 64, 0u);
  ASSERT_EQ(header->scales_offset % 64, 0u);
  ASSERT_EQ(header->zeros_offset % 64, 0u);
  expect_codes(s, *header, raw, file.data() + kPackedHeaderBytes);
  if (s.scale) {
    expect_grids(s, *header, raw, file.data() + kPackedHeaderBytes);
  }
  expect_round_trip(s, raw, file);
}

std::vector<PackedShape> all_kinds() {
  std::vector<PackedShape> out;
  for (const num::DTypeInfo& row : num::kDTypes) {
    for (const SgPanelLayout layout : {SG_PANEL_K1X32, SG_PANEL_K4X16}) {
      if (layout == SG_PANEL_K1X32 || row.bits <= 8) {
        out.push_back({.layout = layout, .type = row.type});
      }
    }
  }
  return out;
}

TEST(Pack, EveryTypeLayoutAndEdge) {
  uint32_t seed = 1;
  for (PackedShape s : all_kinds()) {
    for (const int64_t n : {1, 15, 16, 17, 31, 32, 33, 67}) {
      for (const int64_t k : {1, 2, 3, 4, 7, 8, 10, 62, 64, 66, 127, 128, 130, 257}) {
        s.n = n;
        s.k = num::is_packed4(s.type) ? sg_round_up(k, 2) : k;
        s.batch = seed % 3 == 0 ? 2 : 1;
        check(s, seed++);
      }
    }
  }
}

TEST(Pack, EveryScaleAndZeroPointGrid) {
  uint32_t seed = 100;
  for (const SgPanelLayout layout : {SG_PANEL_K1X32, SG_PANEL_K4X16}) {
    for (const DType scale : {DType::kF32, DType::kF16, DType::kBf16, DType::kE8m0, DType::kE4m3}) {
      for (const int64_t rows : {0, 1, 5, 16, 128}) {
        for (const int64_t k : {0, 16, 32, 50}) {
          for (const int zero : {0, 1, 2, 3}) {
            PackedShape s{.layout = layout, .type = DType::kInt4, .n = 45, .k = 130, .batch = 2};
            s.scale = spec::ScaleSpec{.type = scale, .block_rows = rows, .block_k = k};
            if (zero != 0) {
              s.scale->zero_type =
                  std::array{DType::kInt8, DType::kInt4, DType::kUint4}[static_cast<size_t>(zero - 1)];
            }
            check(s, seed++);
          }
        }
      }
    }
  }
}

TEST(Pack, PaddingScalesAreOne) {
  struct Row {
    DType type;
    uint32_t one;
  };
  for (const Row row : {Row{DType::kF32, 0x3f800000u}, Row{DType::kF16, 0x3c00u}, Row{DType::kBf16, 0x3f80u},
                        Row{DType::kE8m0, 127u}, Row{DType::kE4m3, 0x38u}}) {
    PackedShape s{.layout = SG_PANEL_K4X16, .type = DType::kInt8, .n = 3, .k = 64};
    s.scale = spec::ScaleSpec{.type = row.type, .block_rows = 1, .block_k = 32};
    const Raw raw = random_raw(s, 7);
    Bytes file(*packed_size(s));
    ASSERT_TRUE(pack_file(s, view_of(s, raw), file).ok());
    const PackedHeader h = *validate_header(file);
    const int64_t size = num::info(row.type).bits / 8;
    for (int64_t i = 0; i < 32; ++i) {
      if (i % 16 >= 3) {
        uint32_t got = 0;
        std::memcpy(&got,
                    file.data() + kPackedHeaderBytes + h.scales_offset + static_cast<uint64_t>(i * size),
                    static_cast<size_t>(size));
        EXPECT_EQ(got, row.one);
      }
    }
  }
}

// Strided, transposed and reversed sources give the bytes of the contiguous one.
TEST(Pack, StridesDoNotMatter) {
  for (PackedShape s : all_kinds()) {
    s.n = 37;
    s.k = 70;
    const int64_t size = num::is_packed4(s.type) ? 1 : num::info(s.type).bits / 8;
    const int64_t units = num::is_packed4(s.type) ? s.k / 2 : s.k;
    const Raw raw = random_raw(s, 11);
    Bytes want(*packed_size(s));
    ASSERT_TRUE(pack_file(s, view_of(s, raw), want).ok());
    struct Strides {
      int64_t n, k, origin;
    };
    for (const Strides st : {Strides{1, s.n, 0}, Strides{1, s.n + 5, 3}, Strides{2, 2 * s.n + 1, 0},
                             Strides{units + 9, 1, 1}, Strides{-(units + 1), 1, (s.n - 1) * (units + 1)}}) {
      Bytes source(static_cast<size_t>((s.n + 8) * (units + 12) * 3 * size), std::byte{0x5A});
      for (int64_t n = 0; n < s.n; ++n) {
        for (int64_t u = 0; u < units; ++u) {
          std::memcpy(source.data() + (st.origin + n * st.n + u * st.k) * size,
                      raw.codes.data() + (n * units + u) * size, static_cast<size_t>(size));
        }
      }
      RawWeights w{.data = source.data() + st.origin * size, .stride_n = st.n, .stride_k = st.k};
      Bytes got(want.size());
      ASSERT_TRUE(pack_file(s, w, got).ok());
      EXPECT_EQ(got, want) << num::name(s.type) << " strides " << st.n << ", " << st.k;
    }
  }
}

TEST(Pack, AnySplitOfPanelsGivesTheSameBytes) {
  PackedShape s{.layout = SG_PANEL_K1X32, .type = DType::kE2m1, .n = 100, .k = 66, .batch = 3};
  s.scale = spec::ScaleSpec{.type = DType::kE8m0, .block_rows = 1, .block_k = 32, .zero_type = DType::kInt8};
  const Raw raw = random_raw(s, 3);
  const PackedHeader header = *describe(s);
  Bytes whole(header.payload_bytes, std::byte{1});
  Bytes parts(header.payload_bytes, std::byte{2});
  const PanelRange all = all_panels(header);
  ASSERT_EQ(all.end, 12);
  ASSERT_TRUE(pack(header, view_of(s, raw), whole, all).ok());
  for (int64_t p = all.end; p-- > 0;) {
    ASSERT_TRUE(pack(header, view_of(s, raw), parts, {p, p + 1}).ok());
  }
  EXPECT_EQ(whole, parts);
}

// The file format is frozen: these bytes may never change for version 1.
TEST(Pack, GoldenFile) {
  PackedShape s{.layout = SG_PANEL_K4X16, .type = DType::kInt4, .n = 2, .k = 8};
  s.scale = spec::ScaleSpec{.type = DType::kF16, .block_rows = 1, .block_k = 0, .global = true};
  s.global_scale = 0.5f;
  const Raw raw{.codes = {std::byte{0x10}, std::byte{0x32}, std::byte{0x54}, std::byte{0x76}, std::byte{0x98},
                          std::byte{0xba}, std::byte{0xdc}, std::byte{0xfe}},
                .scales = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}},
                .zeros = {}};
  Bytes file(*packed_size(s));
  ASSERT_TRUE(pack_file(s, view_of(s, raw), file).ok());
  const PackedHeader h = *validate_header(file);
  EXPECT_EQ(file.size(), 192u + 64u + 64u);
  const std::vector<int> codes = {0x40, 0x51, 0x62, 0x73, 0xc8, 0xd9, 0xea, 0xfb, 0};
  for (size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(file[192 + i]), codes[i]) << i;
  }
  EXPECT_EQ(std::to_integer<int>(file[192 + 64]), 1);
  EXPECT_EQ(std::to_integer<int>(file[192 + 64 + 2]), 3);
  EXPECT_EQ(std::to_integer<int>(file[192 + 64 + 5]), 0x3c);
  EXPECT_EQ(h.payload_digest[0], 9210208355719517960u);
  EXPECT_EQ(h.payload_digest[1], 10420918282664387561u);
  EXPECT_EQ(h.header_digest, 11052159854770245541u);
  EXPECT_EQ(shape_of(h).scale, s.scale);
  EXPECT_EQ(shape_of(h).global_scale, 0.5f);
}

TEST(Pack, RefusesBadShapes) {
  const auto code = [](const PackedShape& s) {
    return describe(s).ok() ? Code::kOk : describe(s).status().code();
  };
  const PackedShape good{.layout = SG_PANEL_K4X16, .type = DType::kInt8, .n = 5, .k = 6};
  EXPECT_EQ(code(good), Code::kOk);
  const auto with = [&](auto change) {
    PackedShape s = good;
    change(s);
    return s;
  };
  EXPECT_EQ(code(with([](PackedShape& s) { s.layout = SG_RAW; })), Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.layout = static_cast<SgPanelLayout>(3); })),
            Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.type = DType::kBf16; })), Code::kUnsupported);
  EXPECT_EQ(code(with([](PackedShape& s) { s.type = static_cast<DType>(0); })), Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.n = 0; })), Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.k = -1; })), Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.batch = 0; })), Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.type = DType::kInt4, s.k = 7; })), Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.n = s.k = INT64_MAX; })), Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.n = s.k = int64_t{1} << 31; })), Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.batch = INT64_MAX; })), Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.k = INT64_MAX, s.n = 1; })), Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.scale = spec::ScaleSpec{.type = DType::kE5m2}; })),
            Code::kUnsupported);
  EXPECT_EQ(code(with([](PackedShape& s) { s.scale = spec::ScaleSpec{.block_k = -1}; })),
            Code::kInvalidArgument);
  EXPECT_EQ(code(with([](PackedShape& s) { s.scale = spec::ScaleSpec{.zero_type = DType::kF32}; })),
            Code::kUnsupported);
}

TEST(Pack, RefusesBadCalls) {
  PackedShape s{.layout = SG_PANEL_K4X16, .type = DType::kInt8, .n = 40, .k = 6};
  s.scale = spec::ScaleSpec{};
  const Raw raw = random_raw(s, 5);
  const PackedHeader h = *describe(s);
  Bytes payload(h.payload_bytes);
  const RawWeights good = view_of(s, raw);
  EXPECT_TRUE(pack(h, good, payload, {1, 1}).ok());
  EXPECT_FALSE(pack(h, good, payload, {-1, 1}).ok());
  EXPECT_FALSE(pack(h, good, payload, {0, 4}).ok());
  EXPECT_FALSE(pack(h, good, payload, {2, 1}).ok());
  EXPECT_FALSE(pack(h, good, std::span(payload).first(payload.size() - 1), {0, 1}).ok());
  RawWeights no_scale = good;
  no_scale.scale.data = nullptr;
  EXPECT_FALSE(pack(h, no_scale, payload, {0, 1}).ok());
  Bytes small(raw.codes.size() - 1);
  EXPECT_FALSE(unpack(h, payload, {small, {}, {}}).ok());
  EXPECT_FALSE(unpack(h, payload, {{}, small, {}}).ok());
}

TEST(Pack, HostileFilesAreRefused) {
  PackedShape s{.layout = SG_PANEL_K4X16, .type = DType::kE2m1, .n = 40, .k = 64};
  s.scale = spec::ScaleSpec{.type = DType::kE8m0, .block_rows = 1, .block_k = 32, .zero_type = DType::kInt8};
  const Raw raw = random_raw(s, 5);
  Bytes file(*packed_size(s));
  ASSERT_TRUE(pack_file(s, view_of(s, raw), file).ok());
  ASSERT_TRUE(parse(file).ok());
  for (size_t length = 0; length < file.size(); ++length) {
    ASSERT_FALSE(parse(std::span(file).first(length)).ok()) << length;
  }
  Bytes longer = file;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse(longer).ok());
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    Bytes bad = file;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ASSERT_FALSE(parse(bad).ok()) << "bit " << bit;
  }
}

// A header whose own digest is right must still describe itself: fields set to hostile values and resealed.
TEST(Pack, ResealedHostileHeadersAreRefused) {
  PackedShape s{.layout = SG_PANEL_K4X16, .type = DType::kE2m1, .n = 40, .k = 64};
  s.scale = spec::ScaleSpec{.type = DType::kE8m0, .block_rows = 1, .block_k = 32};
  const PackedHeader good = *describe(s);
  std::mt19937_64 rng(9);
  const std::array<uint64_t, 8> values = {0,          1,         63,         1ull << 31,
                                          1ull << 62, INT64_MAX, 1ull << 63, UINT64_MAX};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    PackedHeader h = good;
    Bytes raw(sizeof h);
    std::memcpy(raw.data(), &h, sizeof h);
    for (uint64_t i = rng() % 3 + 1; i-- > 0;) {
      const uint64_t value = rng() % 2 ? values[rng() % values.size()] : rng();
      const size_t at = 8 + rng() % 14 * 8;
      std::memcpy(raw.data() + at, &value, rng() % 2 ? 8 : 1);
    }
    std::memcpy(&h, raw.data(), sizeof h);
    const Bytes payload(h.payload_bytes == good.payload_bytes ? h.payload_bytes : 0);
    if (!seal(h, payload).ok()) {
      continue;
    }
    std::memcpy(raw.data(), &h, sizeof h);
    const Result<PackedHeader> got = validate_header(raw);
    if (got.ok()) {  // a changed global scale or the like: then it must be a header that describe() makes
      ++accepted;
      PackedHeader again = *describe(shape_of(*got));
      ASSERT_EQ(again.payload_bytes, got->payload_bytes);
    }
  }
  EXPECT_LT(accepted, 20000);
}

}  // namespace
}  // namespace scalegemm::layout
