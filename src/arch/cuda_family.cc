#include "arch/cuda_family.h"

#include <algorithm>
#include <span>

#include "arch/legal.h"
#include "spec/scheme.h"

namespace scalegemm::arch {
namespace {

using spec::Accuracy;
using spec::kAll;
using spec::KernelSpec;
using spec::Pipeline;
using spec::Problem;
using spec::ScaleSpec;

constexpr int kStepBytes = 128;  // of K in one stage of the TMA families
constexpr int kLongest = 128;    // elements of K between promotions

int step_k(DType type) {
  return kStepBytes * 8 / num::info(type).bits;
}

bool spans_k(const std::optional<ScaleSpec>& scale) {
  return !scale || scale->block_k == kAll;
}

bool rounds(DType type) {
  return type == DType::kE4m3 || type == DType::kE5m2;
}

// Which main loops a tile is good for.
enum Loop : unsigned { kFast = 1, kPromoted = 2, kBoth = 3 };

// Tiles of the TMA families: x rows of X (A, or B with swap) by y rows of Y. Measured on an H200:
// docs/hopper.md.
struct TmaTile {
  Pipeline pipeline;
  unsigned loops;
  int x, y, consumers, stages;
  int cluster_x = 1;
  bool persistent = true;
  bool swap_ab = false;
};

constexpr auto kCoop = Pipeline::kTmaCoop;
constexpr auto kPing = Pipeline::kTmaPingPong;
constexpr auto kCarried = Pipeline::kTmaCarried;
constexpr TmaTile kTmaTiles[] = {
    {kPing, kFast, 128, 192, 2, 4},        {kPing, kFast, 128, 192, 2, 4, 2},
    {kPing, kFast, 128, 176, 2, 5},        {kPing, kFast, 128, 160, 2, 5},
    {kPing, kFast, 128, 144, 2, 5},        {kPing, kFast, 128, 128, 2, 6},
    {kPing, kFast, 128, 64, 2, 8},         {kPing, kFast, 64, 128, 2, 8},
    {kCoop, kFast, 128, 256, 2, 4},        {kCoop, kPromoted, 256, 128, 2, 4},
    {kCoop, kPromoted, 192, 128, 3, 4},    {kCoop, kPromoted, 128, 176, 2, 5},
    {kCarried, kPromoted, 128, 128, 2, 6}, {kCarried, kPromoted, 128, 64, 2, 8},
    {kCarried, kPromoted, 64, 128, 1, 8},  {kCarried, kPromoted, 64, 64, 1, 11},
    {kCoop, kPromoted, 256, 128, 2, 4, 2}, {kCarried, kPromoted, 128, 128, 2, 6, 2},
};

// Few rows on one side: a tile of 64 or 128 rows of the long side by `y` of the short one, K split over a
// cluster. With swap_ab the short side is A (few tokens), else B (few columns).
struct ThinTile {
  int x, y, consumers, stages;
};
constexpr ThinTile kThinTiles[] = {
    {64, 8, 1, 11}, {64, 16, 1, 10}, {64, 24, 1, 9},  {64, 32, 1, 8},  {64, 48, 1, 7},
    {64, 64, 1, 6}, {128, 8, 2, 6},  {128, 16, 2, 5}, {128, 64, 2, 8},
};
constexpr int kSlices[] = {1, 2, 4, 8};
constexpr int kMostFused = 352;     // beyond it a fused epilogue spills
constexpr int64_t kThinRows = 128;  // of the short side, at most

bool is_e8m0(const std::optional<ScaleSpec>& s) {
  return s && s->type == DType::kE8m0;
}

// Rows that share a scale: all, one, or 128; f32 scales, or e8m0 in blocks; no zero points.
bool tma_scale(const std::optional<ScaleSpec>& s) {
  if (!s) {
    return true;
  }
  const bool rows =
      spans_k(s) ? s->block_rows == kAll || s->block_rows == 1 : s->block_rows == 1 || s->block_rows == 128;
  const bool type = s->type == DType::kF32 || (is_e8m0(s) && !spans_k(s));
  return type && !s->zero_type && rows;
}

bool tma_blocks(const KernelSpec& s) {
  const int chain = promote_k(s);
  for (const auto* scale : {&s.a_scale, &s.b_scale}) {
    if (!spans_k(*scale) && (*scale)->block_k != chain) {
      return false;
    }
  }
  return chain == 0 || step_k(*s.a) % chain == 0;
}

std::string scales_text(const KernelSpec& s) {
  return fmt::format("{} and {}", spec::describe(spec::OperandSpec{*s.a, spec::Layout::kRow, s.a_scale}),
                     spec::describe(spec::OperandSpec{*s.b, spec::Layout::kRow, s.b_scale}));
}

// Does the epilogue do more than scale?
bool needs_fused(const Problem& p) {
  const spec::EpilogueSpec plain;
  return p.epilogue != plain;
}

KernelSpec tma_base(const Problem& p) {
  KernelSpec s;
  s.target = Target::kSm90a;
  s.a = p.a.type;
  s.b = p.b.type;
  s.d = p.d;
  s.scales = spec::Scales::kFixed;
  s.a_scale = p.a.scale;
  s.b_scale = p.b.scale;
  s.layouts = spec::Layouts{};  // rcr: a plan copies operands in other layouts (relayout)
  s.epilogue = spec::EpilogueKind::kTma;
  s.packed = spec::Packing::kRaw;
  s.fused = needs_fused(p);
  // A kernel that promotes, or whose sums need no promotion, is named promoted whatever was asked: one name
  // for one code.
  const bool blocks = !spans_k(p.a.scale) || !spans_k(p.b.scale);
  s.accuracy =
      p.accuracy == Accuracy::kFast && rounds(p.a.type) && !blocks ? Accuracy::kFast : Accuracy::kPromoted;
  return s;
}

// Shared memory of a TMA kernel: stages of operands and scales, barriers, and the buffers and column scales
// of the epilogue of a persistent one (kernels/cuda/pipeline.cuh, epilogue_sm90.cuh).
int64_t tma_shared_bytes(const KernelSpec& s) {
  const int chain = promote_k(s);
  const int parts = chain != 0 ? step_k(*s.a) / chain : 1;
  const auto words = [](const std::optional<ScaleSpec>& scale, int rows) -> int64_t {
    if (spans_k(scale)) {
      return 0;
    }
    const bool line_up = rows % 128 == 0 || 128 % rows == 0;
    const int groups = line_up ? (rows + 127) / 128 : (rows - 8 + 127) / 128 + 1;
    return scale->block_rows == 1 ? (rows + 3) / 4 * 4 : 4 * groups;
  };
  const auto& x = s.swap_ab ? s.b_scale : s.a_scale;
  const auto& y = s.swap_ab ? s.a_scale : s.b_scale;
  const int64_t stage =
      int64_t{s.tile.m + s.tile.n} * kStepBytes + 4 * parts * (words(x, s.tile.m) + words(y, s.tile.n)) + 16;
  int64_t bytes = (s.stages * stage + 127) / 128 * 128;
  if (s.persistent) {
    const int consumers = s.pipeline == Pipeline::kTmaPingPong ? 2 : s.warps.m;
    const bool row_y = y && spans_k(y) && y->block_rows == 1;
    const int64_t columns = row_y ? (4 * s.tile.n + 127) / 128 * 128 : 0;
    const bool buffered = s.fused || num::info(*s.d).bits <= 16;
    bytes = (bytes + 1023) / 1024 * 1024 + consumers * ((buffered ? 4 * 2048 : 0) + columns);
  }
  return bytes;
}

int mma_k(DType type) {  // of one instruction: 32 bytes
  return 32 * 8 / num::info(type).bits;
}

// Tiles of the mma family. Few rows: K over the warps of a block.
struct MmaTile {
  int m, n;
  Dims warps;
};
constexpr MmaTile kMmaTiles[] = {{128, 128, {2, 4, 1}}, {64, 64, {2, 2, 1}}, {16, 32, {1, 1, 8}}};
constexpr MmaTile kFloatTiles[] = {{64, 64, {8, 1, 1}}, {16, 64, {8, 1, 1}}};

// Elements of K that a stage holds for each warp along K: 128 bytes.
int mma_depth(DType via) {
  return 128 * 8 / num::info(via).bits;
}

KernelSpec with_tile(KernelSpec s, const TmaTile& t) {
  s.pipeline = t.pipeline;
  s.tile = {t.x, t.y, step_k(*s.a)};
  s.warps = {t.pipeline == Pipeline::kTmaPingPong ? 1 : t.consumers, 1, 1};
  s.instruction = {64, t.y, mma_k(*s.a)};
  s.stages = t.stages;
  s.cluster_m = t.cluster_x;
  s.persistent = t.persistent;
  s.swap_ab = t.swap_ab;
  s.strided_scales = is_e8m0(s.a_scale) || is_e8m0(s.b_scale);
  while (s.stages > 2 && tma_shared_bytes(s) > limits(s.target).shared_bytes) {
    --s.stages;
  }
  return s;
}

}  // namespace

bool tma_types(DType a, DType b) {
  const bool fp8 = rounds(a) && rounds(b);
  const bool same = a == b && (a == DType::kInt8 || a == DType::kBf16 || a == DType::kF16);
  return fp8 || same;
}

int promote_k(const KernelSpec& s) {
  int block = 0;
  for (const auto* scale : {&s.a_scale, &s.b_scale}) {
    if (!spans_k(*scale)) {
      block = block == 0 ? static_cast<int>((*scale)->block_k)
                         : std::min<int>(block, static_cast<int>((*scale)->block_k));
    }
  }
  if (block != 0) {
    return block;
  }
  return s.accuracy != Accuracy::kFast && s.a && s.b && (rounds(*s.a) || rounds(*s.b)) ? kLongest : 0;
}

std::optional<Need> tma_need(const KernelSpec& s) {
  if (*s.layouts != spec::Layouts{}) {
    return Need{"rcr: TMA tiles have contiguous K", std::string(spec::layout_word(*s.layouts))};
  }
  if (!tma_scale(s.a_scale) || !tma_scale(s.b_scale)) {
    return Need{"f32 scales (e8m0 in blocks) without zero points: all x all, 1 x all, 1 x k or 128 x k",
                scales_text(s)};
  }
  if ((is_e8m0(s.a_scale) || is_e8m0(s.b_scale)) && !s.strided_scales) {
    return Need{"strided scales where a scale is e8m0", spec::name(s)};
  }
  if (!tma_blocks(s)) {
    return Need{"one block along K of 32, 64 or 128, at most a stage, on both sides", scales_text(s)};
  }
  if (s.d == DType::kInt32 && (s.a_scale || s.b_scale || s.fused)) {
    return Need{"neither scales nor a fused epilogue where D is int32", spec::name(s)};
  }
  const int chain = promote_k(s);
  const bool pingpong = s.pipeline == Pipeline::kTmaPingPong;
  const bool carried = s.pipeline == Pipeline::kTmaCarried;
  if (pingpong && (chain != 0 || !s.persistent)) {
    return Need{"no promotion and persistent in tmapingpong",
                chain != 0 ? fmt::format("promotion every {}", chain) : std::string("not persistent")};
  }
  const int row_blocks = s.tile.m / 64 / s.warps.m;
  const bool wide_output = s.d == DType::kF32 || s.d == DType::kInt32;
  const int most_ping = wide_output && !s.fused ? 128 : *s.a == DType::kInt8 ? 160 : 192;
  if (pingpong && s.tile.m == 128 && s.tile.n > most_ping) {
    return Need{
        fmt::format("at most {} columns, or a thread's registers do not hold sums and epilogue", most_ping),
        std::to_string(s.tile.n)};
  }
  const int parts = chain != 0 ? step_k(*s.a) / chain : 1;
  const int most_sums = parts >= 4 ? 128 : s.strided_scales ? 176 : 256;  // more spill
  if (parts > 1 && s.persistent && (s.warps.m == 3 || row_blocks * s.tile.n > most_sums)) {
    return Need{
        fmt::format(
            "at most two consumers and {} columns times row blocks where a stage holds {} scale blocks",
            most_sums, parts),
        fmt::format("{} consumers, {} x {}", s.warps.m, row_blocks, s.tile.n)};
  }
  if (tma_shared_bytes(s) > limits(s.target).shared_bytes) {
    return Need{fmt::format("at most {} bytes of shared memory", limits(s.target).shared_bytes),
                fmt::format("{} for stages, scales and the epilogue", tma_shared_bytes(s))};
  }
  if (carried && (chain == 0 || step_k(*s.a) / chain * row_blocks != 1 || !s.persistent ||
                  (s.b_scale && !spans_k(s.b_scale) && s.b_scale->block_rows == 1))) {
    return Need{"a promotion a stage, 64 rows a consumer, persistent and no 1 x k scales of B in tmacarried",
                fmt::format("promotion every {}, {} rows", chain, row_blocks * 64)};
  }
  if (s.instruction.n != s.tile.n || s.warps.n != 1 || s.warps.k != 1 || s.tile.k != step_k(*s.a)) {
    return Need{
        fmt::format("an instruction as wide as the tile, consumers along m, {} along K", step_k(*s.a)),
        fmt::format("{} with tile {} and warps {}", to_string(s.instruction), to_string(s.tile),
                    to_string(s.warps))};
  }
  if (*s.a == DType::kInt8 && s.tile.n > 32 && s.tile.n % 16 != 0) {
    return Need{"an int8 tile of n that is a multiple of 16 above 32", std::to_string(s.tile.n)};
  }
  if (s.pads != spec::Pads{}) {
    return Need{"every edge masked", spec::name(s)};
  }
  if (s.fused && row_blocks * s.tile.n > kMostFused) {
    return Need{fmt::format("at most {} columns times row blocks where the epilogue is fused", kMostFused),
                fmt::format("{} x {}", row_blocks, s.tile.n)};
  }
  const bool split = s.split_k == spec::SplitK::kCluster;
  if (s.persistent ? split || s.swap_ab : s.cluster_m * s.cluster_n != 1 || row_blocks > 2) {
    return Need{"persistent: neither split nor swapped; else no multicast and at most 128 rows a consumer",
                spec::name(s)};
  }
  if (split != (s.k_slices > 1) || s.k_slices > limits(s.target).max_cluster ||
      (s.split_k != spec::SplitK::kNone && !split)) {
    return Need{fmt::format("splitk-cluster with 2 to {} slices, or no split", limits(s.target).max_cluster),
                fmt::format("{} with {} slices", spec::to_string(s.split_k), s.k_slices)};
  }
  if (s.cluster_m > 1 && s.cluster_n > 1) {
    return Need{"a cluster along one side", fmt::format("{}x{}", s.cluster_m, s.cluster_n)};
  }
  return std::nullopt;
}

Relayout relayout_for(const KernelSpec& s, const Problem& p) {
  Relayout out;
  if (s.epilogue != spec::EpilogueKind::kTma || p.batch != 1) {
    return out;
  }
  constexpr int64_t kAlign = 16;  // bytes, of rows for TMA
  const auto operand = [&](const spec::OperandSpec& o, spec::Layout k_contiguous) {
    return o.layout != k_contiguous || p.k * num::info(o.type).bits / 8 % kAlign != 0;
  };
  out.a = operand(p.a, spec::Layout::kRow);
  out.b = operand(p.b, spec::Layout::kCol);
  constexpr double kLongRun = 2e10;  // operations: about 15 us
  const double operations =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  if (!s.strided_scales && operations > kLongRun) {
    out.scale_a = !spans_k(s.a_scale);
    out.scale_b = !spans_k(s.b_scale);
  }
  return out;
}

std::vector<KernelSpec> tma_candidates(const Problem& p) {
  std::vector<KernelSpec> specs;
  KernelSpec base = tma_base(p);
  if (!tma_types(p.a.type, p.b.type)) {
    return {with_tile(base, kTmaTiles[0])};  // one to say why
  }
  const unsigned loop = promote_k(base) != 0 ? kPromoted : kFast;
  for (const TmaTile& tile : kTmaTiles) {
    if ((tile.loops & loop) != 0) {
      specs.push_back(with_tile(base, tile));
    }
  }
  for (const bool swap : {true, false}) {
    const int64_t rows = swap ? p.m : p.n;
    if (rows > kThinRows) {
      continue;
    }
    for (const ThinTile& thin : kThinTiles) {
      for (const int slices : kSlices) {
        KernelSpec s =
            with_tile(base, {kCoop, kBoth, thin.x, thin.y, thin.consumers, thin.stages, 1, false, swap});
        s.k_slices = slices;
        s.split_k = slices > 1 ? spec::SplitK::kCluster : spec::SplitK::kNone;
        specs.push_back(s);
      }
    }
  }
  // Block scales that TMA cannot fetch: the same kernels with a warp that copies them.
  const bool blocks = !spans_k(p.a.scale) || !spans_k(p.b.scale);
  if (blocks && !is_e8m0(p.a.scale) && !is_e8m0(p.b.scale)) {
    const size_t count = specs.size();
    for (size_t i = 0; i < count; ++i) {
      KernelSpec s = specs[i];
      s.strided_scales = true;
      specs.push_back(s);
    }
  }
  return specs;
}

DType mma_via(const Problem& p) {
  const auto either = [&p](DType type) { return p.a.type == type || p.b.type == type; };
  const auto integer = [](const spec::OperandSpec& o) {
    const bool code = o.type == DType::kInt8 || o.type == DType::kInt4 || o.type == DType::kUint4;
    const bool zero = o.scale && o.scale->zero_type;
    // A code less its zero point must be an int8 again.
    return code && (!zero || (o.type != DType::kInt8 && *o.scale->zero_type != DType::kInt8));
  };
  if (integer(p.a) && integer(p.b)) {
    return DType::kInt8;
  }
  if (either(DType::kF32) || (either(DType::kBf16) && either(DType::kF16))) {
    return DType::kF32;
  }
  return either(DType::kBf16) ? DType::kBf16 : DType::kF16;
}

std::optional<Need> mma_need(const KernelSpec& s) {
  if (!s.a || !s.b || s.d || s.scales != spec::Scales::kRunTime || s.layouts) {
    return Need{"types of A and B fixed, D, scales and layouts at run time", spec::name(s)};
  }
  const DType via = s.via.value_or(*s.a);
  const int threads = 32 * s.warps.m * s.warps.n * s.warps.k;
  const bool float_path = via == DType::kF32;
  if (s.tile.k != mma_depth(via) * s.warps.k || threads % s.tile.m != 0 || threads % s.tile.n != 0 ||
      (float_path ? threads != 256 || s.warps.k != 1 : s.tile.n % (16 * s.warps.n) != 0)) {
    return Need{fmt::format("{} of K a warp along K, threads that the tile's rows and columns divide{}",
                            mma_depth(via), float_path ? " (256 of them)" : ", and fragments of 16 x 16"),
                fmt::format("tile {}, warps {}", to_string(s.tile), to_string(s.warps))};
  }
  if (s.stages < 2) {
    return Need{"at least 2 stages", std::to_string(s.stages)};
  }
  KernelSpec plain = s;
  plain.pads = {};
  for (auto field :
       {&KernelSpec::swap_ab, &KernelSpec::persistent, &KernelSpec::fused, &KernelSpec::strided_scales}) {
    plain.*field = false;
  }
  plain.split_k = spec::SplitK::kNone;
  plain.k_slices = plain.cluster_m = plain.cluster_n = 1;
  return plain == s ? std::nullopt : std::optional(Need{"no option of the TMA families", spec::name(s)});
}

std::vector<KernelSpec> mma_candidates(Target target, const Problem& p) {
  const DType via = mma_via(p);
  const bool native = p.a.type == via || p.b.type == via;  // copied as it is, so a third stage costs nothing
  KernelSpec s;
  s.target = target;
  s.a = p.a.type;
  s.b = p.b.type;
  s.pipeline = Pipeline::kMma;
  s.packed = spec::Packing::kRaw;
  if (p.a.type != via || p.b.type != via) {
    s.via = via;
  }
  std::vector<KernelSpec> specs;
  for (const MmaTile& tile : via == DType::kF32 ? std::span<const MmaTile>(kFloatTiles) : kMmaTiles) {
    s.tile = {tile.m, tile.n, mma_depth(via) * tile.warps.k};
    s.warps = tile.warps;
    s.instruction = via == DType::kF32 ? Dims{1, 1, 1} : Dims{16, 8, mma_k(via)};
    s.stages = native && tile.warps.k == 1 && via != DType::kF32 ? 3 : 2;
    specs.push_back(s);
  }
  return specs;
}

}  // namespace scalegemm::arch
