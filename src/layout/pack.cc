#include "layout/pack.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/int_math.h"

namespace scalegemm::layout {
namespace {

// Codes move through a tile of up to 32 rows x 64 bytes of K: one cache line a row, so that each line of a
// row-major source is read once, and the panel order is made inside L1.
constexpr int64_t kTileBytes = 64;
constexpr int64_t kMaxColumns = 32;
using Tile = std::array<std::array<std::byte, kTileBytes>, kMaxColumns>;

const std::byte* bytes_at(const void* data, int64_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}

// The part of the codes that one tile covers: `units` storage elements along K of `size` bytes each.
struct TileShape {
  int64_t columns;  // of a panel
  int64_t rows;     // of them inside N
  int64_t units;
  int64_t size;
};

struct Source {
  const std::byte* data;
  int64_t stride_n;  // bytes
  int64_t stride_k;
};

template <int kSize>
void fetch_strided(const Source& from, const TileShape& shape, Tile& tile) {
  for (int64_t u = 0; u < shape.units; ++u) {
    for (int64_t r = 0; r < shape.rows; ++r) {
      std::memcpy(&tile[static_cast<size_t>(r)][static_cast<size_t>(u * kSize)],
                  from.data + r * from.stride_n + u * from.stride_k, kSize);
    }
  }
}

void fetch(const Source& from, const TileShape& shape, Tile& tile) {
  const size_t bytes = static_cast<size_t>(shape.units * shape.size);
  if (shape.rows < shape.columns || bytes < kTileBytes) {
    std::memset(&tile, 0, sizeof tile);
  }
  if (from.stride_k == shape.size) {
    for (int64_t r = 0; r < shape.rows; ++r) {
      std::memcpy(tile[static_cast<size_t>(r)].data(), from.data + r * from.stride_n, bytes);
    }
  } else if (shape.size == 1) {
    fetch_strided<1>(from, shape, tile);
  } else if (shape.size == 2) {
    fetch_strided<2>(from, shape, tile);
  } else {
    fetch_strided<4>(from, shape, tile);
  }
}

// Nibbles n0..n7 of eight codes along K, paired as panels.h wants them: byte j = n(j) | n(4 + j) << 4.
uint32_t split_halves(uint32_t word) {
  const auto spread = [](uint32_t x) {
    x = (x | x << 8) & 0x00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0fu;
  };
  return spread(word & 0xffffu) | spread(word >> 16) << 4;
}

uint32_t join_halves(uint32_t word) {
  const auto gather = [](uint32_t x) {
    x = (x | x >> 4) & 0x00ff00ffu;
    return (x | x >> 8) & 0xffffu;
  };
  return gather(word & 0x0f0f0f0fu) | gather(word >> 4 & 0x0f0f0f0fu) << 16;
}

// One four-byte step of SG_PANEL_K4X16 for every column: `words` dwords along K.
template <bool kNibbles>
void store_k4(const Tile& tile, int64_t words, std::byte* out) {
  for (size_t c = 0; c < 16; ++c) {
    for (int64_t w = 0; w < words; ++w) {
      uint32_t word;
      std::memcpy(&word, &tile[c][static_cast<size_t>(w * 4)], 4);
      word = kNibbles ? split_halves(word) : word;
      std::memcpy(out + w * 64 + static_cast<int64_t>(c) * 4, &word, 4);
    }
  }
}

template <bool kNibbles>
void load_k4(const std::byte* in, int64_t words, Tile& tile) {
  for (size_t c = 0; c < 16; ++c) {
    for (int64_t w = 0; w < words; ++w) {
      uint32_t word;
      std::memcpy(&word, in + w * 64 + static_cast<int64_t>(c) * 4, 4);
      word = kNibbles ? join_halves(word) : word;
      std::memcpy(&tile[c][static_cast<size_t>(w * 4)], &word, 4);
    }
  }
}

template <size_t kSize>
void store_k1(const Tile& tile, int64_t units, std::byte* out) {
  for (int64_t u = 0; u < units; ++u) {
    for (size_t c = 0; c < 32; ++c) {
      std::memcpy(out, &tile[c][static_cast<size_t>(u) * kSize], kSize);
      out += kSize;
    }
  }
}

template <size_t kSize>
void load_k1(const std::byte* in, int64_t units, Tile& tile) {
  for (int64_t u = 0; u < units; ++u) {
    for (size_t c = 0; c < 32; ++c) {
      std::memcpy(&tile[c][static_cast<size_t>(u) * kSize], in, kSize);
      in += kSize;
    }
  }
}

// One row a code order: how many units one step of the order needs, and the two directions.
struct CodeOrder {
  SgPanelLayout layout;
  int bits;
  int64_t unit_bytes;  // a storage element
  int64_t step_units;  // units of K that one step of the layout covers (the padding of K)
  void (*store)(const Tile& tile, int64_t steps, std::byte* out);
  void (*load)(const std::byte* in, int64_t steps, Tile& tile);
};

constexpr std::array<CodeOrder, 6> kOrders = {{
    {SG_PANEL_K4X16, 8, 1, 4, store_k4<false>, load_k4<false>},
    {SG_PANEL_K4X16, 4, 1, 4, store_k4<true>, load_k4<true>},
    {SG_PANEL_K1X32, 4, 1, 1, store_k1<1>, load_k1<1>},
    {SG_PANEL_K1X32, 8, 1, 1, store_k1<1>, load_k1<1>},
    {SG_PANEL_K1X32, 16, 2, 1, store_k1<2>, load_k1<2>},
    {SG_PANEL_K1X32, 32, 4, 1, store_k1<4>, load_k1<4>},
}};

// Everything about a header that the loops below need.
struct Plan {
  const PackedHeader* header;
  const CodeOrder* order;
  int64_t columns, panels, blocks;
  int64_t units;             // storage elements along K
  int64_t code_panel_bytes;  // of one panel
  int64_t code_batch_bytes;
  int64_t scale_bytes;  // of one scale
};

Plan make_plan(const PackedHeader& header) {
  const int bits = num::info(static_cast<num::DType>(header.dtype)).bits;
  const auto* order = std::find_if(kOrders.begin(), kOrders.end(), [&](const CodeOrder& row) {
    return row.layout == header.layout && row.bits == bits;
  });
  return {.header = &header,
          .order = order,
          .columns = sg_panel_columns(header.layout),
          .panels = panel_count(header),
          .blocks = block_count(header),
          .units = bits == 4 ? header.k / 2 : header.k,
          .code_panel_bytes = sg_panel_bytes(header.layout, bits, header.k),
          .code_batch_bytes = static_cast<int64_t>(header.codes_bytes) / header.batch,
          .scale_bytes =
              header.scale_dtype ? num::info(static_cast<num::DType>(header.scale_dtype)).bits / 8 : 0};
}

// Steps of the layout in a full tile and in the tile that starts at unit `u`.
int64_t tile_units(const CodeOrder& order) {
  return kTileBytes / order.unit_bytes;
}

int64_t tile_steps(const Plan& plan, int64_t u) {
  const int64_t units = std::min(tile_units(*plan.order), plan.units - u);
  return base::ceil_div(units, plan.order->step_units);
}

void pack_codes(const Plan& plan, const Source& source, int64_t panel, std::byte* out) {
  const CodeOrder& order = *plan.order;
  const int64_t first = panel * plan.columns;
  const int64_t rows = std::min(plan.columns, plan.header->n - first);
  Tile tile{};
  for (int64_t u = 0; u < plan.units; u += tile_units(order)) {
    const Source from{source.data + first * source.stride_n + u * source.stride_k, source.stride_n,
                      source.stride_k};
    fetch(from, {plan.columns, rows, std::min(tile_units(order), plan.units - u), order.unit_bytes}, tile);
    const int64_t steps = tile_steps(plan, u);
    order.store(tile, steps, out);
    out += steps * order.step_units * order.unit_bytes * plan.columns;
  }
}

void unpack_codes(const Plan& plan, const std::byte* in, int64_t panel, std::byte* out) {
  const CodeOrder& order = *plan.order;
  const int64_t row_bytes = plan.units * order.unit_bytes;
  const int64_t first = panel * plan.columns;
  const int64_t rows = std::min(plan.columns, plan.header->n - first);
  Tile tile{};
  for (int64_t u = 0; u < plan.units; u += tile_units(order)) {
    const int64_t steps = tile_steps(plan, u);
    order.load(in, steps, tile);
    in += steps * order.step_units * order.unit_bytes * plan.columns;
    const int64_t bytes = std::min(tile_units(order), plan.units - u) * order.unit_bytes;
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(out + (first + r) * row_bytes + u * order.unit_bytes, tile[static_cast<size_t>(r)].data(),
                  static_cast<size_t>(bytes));
    }
  }
}

// The bits of 1 in a scale type.
uint32_t one_of(num::DType type) {
  using num::DType;
  switch (type) {
    case DType::kF32:
      return 0x3f800000u;
    case DType::kF16:
      return 0x3c00u;
    case DType::kBf16:
      return 0x3f80u;
    case DType::kE8m0:
      return 127u;
    default:
      return 0x38u;  // e4m3; describe() lets nothing else pass
  }
}

int64_t grid_rows(const PackedHeader& header) {
  const int64_t block = header.block_rows == spec::kAll ? header.n : header.block_rows;
  return header.n / block + (header.n % block != 0 ? 1 : 0);
}

int64_t grid_row_of(const PackedHeader& header, int64_t n) {
  return header.block_rows == spec::kAll ? 0 : n / header.block_rows;
}

// Repeats a grid for every column of one panel: [k block][column], `size` bytes an element.
void pack_grid(const Plan& plan, const GridView& grid, int64_t panel, int64_t size, uint32_t pad,
               std::byte* out) {
  for (int64_t b = 0; b < plan.blocks; ++b) {
    for (int64_t c = 0; c < plan.columns; ++c, out += size) {
      const int64_t n = panel * plan.columns + c;
      if (n < plan.header->n) {
        const int64_t at = grid_row_of(*plan.header, n) * grid.stride_r + b * grid.stride_k;
        std::memcpy(out, bytes_at(grid.data, at * size), static_cast<size_t>(size));
      } else {
        std::memcpy(out, &pad, static_cast<size_t>(size));
      }
    }
  }
}

// Raw zero points of 4-bit types become int8 values.
void widen_zeros(num::DType type, std::span<std::byte> zeros) {
  for (std::byte& z : zeros) {
    const int code = std::to_integer<int>(z) & 15;
    if (type == num::DType::kUint4) {
      z = static_cast<std::byte>(code);
    } else if (type == num::DType::kInt4) {
      z = static_cast<std::byte>(code < 8 ? code : code - 16);
    }
  }
}

void unpack_grid(const Plan& plan, const std::byte* in, int64_t size, std::byte* out) {
  const PackedHeader& header = *plan.header;
  const int64_t block_rows = header.block_rows == spec::kAll ? header.n : header.block_rows;
  for (int64_t r = 0; r < grid_rows(header); ++r) {
    const int64_t n = r * block_rows;
    for (int64_t b = 0; b < plan.blocks; ++b, out += size) {
      const int64_t at = (n / plan.columns * plan.blocks + b) * plan.columns + n % plan.columns;
      std::memcpy(out, in + at * size, static_cast<size_t>(size));
    }
  }
}

Status check_pack(const PackedHeader& header, const RawWeights& raw, PanelRange range) {
  if (raw.data == nullptr || (header.scale_dtype != 0 && raw.scale.data == nullptr) ||
      (header.zero_dtype != 0 && raw.zero.data == nullptr)) {
    return invalid_argument("weights to pack: needed codes{}{}, got a null pointer",
                            header.scale_dtype ? ", scales" : "", header.zero_dtype ? ", zero points" : "");
  }
  const int64_t panels = all_panels(header).end;
  if (range.begin < 0 || range.begin > range.end || range.end > panels) {
    return invalid_argument("panel range: needed 0 <= begin <= end <= {}, got [{}, {})", panels, range.begin,
                            range.end);
  }
  return ok_status();
}

Status check_payload(const PackedHeader& header, size_t bytes) {
  if (bytes != header.payload_bytes) {
    return invalid_argument("packed payload: needed {} bytes, got {}", header.payload_bytes, bytes);
  }
  return ok_status();
}

// Codes, scales and zero points of one panel of one batch index. The last panel also clears what its
// sections hold past it.
void pack_panel(const Plan& plan, const RawWeights& raw, std::byte* payload, int64_t batch, int64_t panel) {
  const PackedHeader& header = *plan.header;
  const bool last = panel == plan.panels - 1;
  const auto finish = [&](std::byte* batch_start, uint64_t section, int64_t panel_bytes) {
    const int64_t used = plan.panels * panel_bytes;
    if (last) {
      std::memset(batch_start + used, 0,
                  section / static_cast<uint64_t>(header.batch) - static_cast<uint64_t>(used));
    }
  };
  const int64_t size = plan.order->unit_bytes;
  std::byte* codes = payload + header.codes_offset + batch * plan.code_batch_bytes;
  const Source source{bytes_at(raw.data, batch * raw.stride_batch * size), raw.stride_n * size,
                      raw.stride_k * size};
  pack_codes(plan, source, panel, codes + panel * plan.code_panel_bytes);
  finish(codes, header.codes_bytes, plan.code_panel_bytes);

  const int64_t elements = plan.blocks * plan.columns;
  const auto grid_of = [&](const GridView& grid, int64_t element) {
    return GridView{bytes_at(grid.data, batch * grid.stride_batch * element), grid.stride_r, grid.stride_k,
                    0};
  };
  if (header.scale_dtype != 0) {
    const int64_t bytes = elements * plan.scale_bytes;
    std::byte* scales =
        payload + header.scales_offset + batch * (static_cast<int64_t>(header.scales_bytes) / header.batch);
    pack_grid(plan, grid_of(raw.scale, plan.scale_bytes), panel, plan.scale_bytes,
              one_of(static_cast<num::DType>(header.scale_dtype)), scales + panel * bytes);
    finish(scales, header.scales_bytes, bytes);
  }
  if (header.zero_dtype != 0) {
    std::byte* zeros =
        payload + header.zeros_offset + batch * (static_cast<int64_t>(header.zeros_bytes) / header.batch);
    pack_grid(plan, grid_of(raw.zero, 1), panel, 1, 0, zeros + panel * elements);
    widen_zeros(static_cast<num::DType>(header.zero_dtype),
                {zeros + panel * elements, static_cast<size_t>(elements)});
    finish(zeros, header.zeros_bytes, elements);
  }
}

}  // namespace

PanelRange all_panels(const PackedHeader& header) {
  return {0, panel_count(header) * header.batch};
}

Status pack(const PackedHeader& header, const RawWeights& raw, std::span<std::byte> payload,
            PanelRange range) {
  SCALEGEMM_RETURN_IF_ERROR(check_pack(header, raw, range));
  SCALEGEMM_RETURN_IF_ERROR(check_payload(header, payload.size()));
  const Plan plan = make_plan(header);
  for (int64_t p = range.begin; p < range.end; ++p) {
    pack_panel(plan, raw, payload.data(), p / plan.panels, p % plan.panels);
  }
  return ok_status();
}

Status unpack(const PackedHeader& header, std::span<const std::byte> payload, const UnpackedWeights& out) {
  SCALEGEMM_RETURN_IF_ERROR(check_payload(header, payload.size()));
  const Plan plan = make_plan(header);
  const int64_t code_bytes = header.n * plan.units * plan.order->unit_bytes;
  const int64_t grid = header.scale_dtype ? grid_rows(header) * plan.blocks : 0;
  const auto check = [&](const char* what, std::span<std::byte> span, int64_t one) {
    const uint64_t needed = static_cast<uint64_t>(one * header.batch);
    return span.empty() || span.size() == needed
               ? ok_status()
               : invalid_argument("{} to unpack into: needed {} bytes, got {}", what, needed, span.size());
  };
  const int64_t zero_bytes = header.zero_dtype ? grid : 0;
  SCALEGEMM_RETURN_IF_ERROR(check("codes", out.codes, code_bytes));
  SCALEGEMM_RETURN_IF_ERROR(check("scales", out.scales, grid * plan.scale_bytes));
  SCALEGEMM_RETURN_IF_ERROR(check("zero points", out.zeros, zero_bytes));
  for (int64_t batch = 0; batch < header.batch; ++batch) {
    const auto section = [&](uint64_t offset, uint64_t bytes) {
      return payload.data() + offset + batch * (static_cast<int64_t>(bytes) / header.batch);
    };
    for (int64_t panel = 0; !out.codes.empty() && panel < plan.panels; ++panel) {
      unpack_codes(plan, section(header.codes_offset, header.codes_bytes) + panel * plan.code_panel_bytes,
                   panel, out.codes.data() + batch * code_bytes);
    }
    if (!out.scales.empty()) {
      unpack_grid(plan, section(header.scales_offset, header.scales_bytes), plan.scale_bytes,
                  out.scales.data() + batch * grid * plan.scale_bytes);
    }
    if (!out.zeros.empty()) {
      unpack_grid(plan, section(header.zeros_offset, header.zeros_bytes), 1, out.zeros.data() + batch * grid);
    }
  }
  return ok_status();
}

}  // namespace scalegemm::layout
