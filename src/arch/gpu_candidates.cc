// Which GPU specs are worth judging for a problem: tiles of the target's table x instructions that fit.
#include <algorithm>

#include "arch/cuda_family.h"
#include "arch/legal.h"
#include "spec/scheme.h"

namespace scalegemm::arch {
namespace {

using spec::Layouts;
using spec::Scales;

// Block tiles of AMD's targets: its swept ones (16x64 for small M, 128x128 and 256x128 for large). Those of
// CUDA are in cuda_family.cc.
struct GpuTile {
  Target target;
  Pipeline pipeline;
  spec::Scheduler scheduler;
  int m, n;
  int warps_m, warps_n;
};
constexpr auto kIntra = spec::Scheduler::kIntrawave;
constexpr auto kInter = spec::Scheduler::kInterwave;
constexpr GpuTile kTiles[] = {
    {Target::kGfx942, Pipeline::kCompV3, kIntra, 256, 128, 2, 2},
    {Target::kGfx942, Pipeline::kCompV3, kIntra, 128, 128, 2, 2},
    {Target::kGfx942, Pipeline::kCompV3, kIntra, 64, 64, 2, 2},
    {Target::kGfx942, Pipeline::kMem, kInter, 16, 64, 1, 4},
    {Target::kGfx942, Pipeline::kMem, kInter, 32, 64, 1, 2},
    {Target::kGfx950, Pipeline::kCompAsync, kIntra, 256, 128, 2, 2},
    {Target::kGfx950, Pipeline::kCompAsync, kIntra, 128, 128, 2, 2},
    {Target::kGfx950, Pipeline::kCompV3, kIntra, 128, 128, 2, 2},
    {Target::kGfx950, Pipeline::kCompV3, kIntra, 64, 64, 2, 2},
    {Target::kGfx950, Pipeline::kMem, kInter, 16, 64, 1, 4},
    {Target::kGfx950, Pipeline::kMem, kInter, 32, 64, 1, 2},
};

// 128 bytes of K a row: what a TMA box or a wave's loads take at once.
int tile_k(const Instruction& row) {
  const int bits = row.types.has(DType::kF32)                                  ? 32
                   : row.types.has(DType::kF16) || row.types.has(DType::kBf16) ? 16
                                                                               : 8;
  return std::max(128 * 8 / bits, row.shape.k);
}

KernelSpec from_problem(Target target, const Problem& p) {
  KernelSpec s;
  s.target = target;
  s.a = p.a.type;
  s.b = p.b.type;
  s.d = p.d;
  s.scales = Scales::kFixed;
  s.a_scale = p.a.scale;
  s.b_scale = p.b.scale;
  s.layouts = Layouts{p.a.layout, p.b.layout};
  s.accuracy = p.accuracy;
  s.packed = spec::Packing::kRaw;
  return s;
}

KernelSpec with_tile(KernelSpec s, const GpuTile& tile, const Instruction& row) {
  s.pipeline = tile.pipeline;
  s.scheduler = tile.scheduler;
  s.epilogue = spec::EpilogueKind::kCShuffle;
  s.tile = {tile.m, tile.n, tile_k(row)};
  s.warps = {tile.warps_m, tile.warps_n, 1};
  s.instruction = row.shape;
  return s;
}

// Sets the type that the operands must be widened to for a row, none where it takes both; false where there
// is no such type. f16 rows are left to operands of f16: bf16 has the range that scales ask for.
bool choose_via(const Problem& p, const Instruction& row, std::optional<DType>& via) {
  via = std::nullopt;
  const bool half = p.a.type == DType::kF16 || p.b.type == DType::kF16;
  if (feeds({p.a.type, p.b.type, via}, row.types)) {
    return true;
  }
  if (row.types.has(DType::kF16) && !half) {
    return false;
  }
  for (const Widening& widening : kWidenings) {
    if (row.types.has(widening.to) && feeds({p.a.type, p.b.type, widening.to}, row.types)) {
      via = widening.to;
      return true;
    }
  }
  return false;
}

std::string operand_text(const std::optional<DType>& type, const std::optional<spec::ScaleSpec>& scale) {
  return type ? describe(spec::OperandSpec{*type, spec::Layout::kRow, scale}) : std::string("any");
}

Decline decline(std::string rule, std::string needed, std::string got) {
  return {"", std::move(rule), std::move(needed), std::move(got)};
}

constexpr int64_t kMostExtent = (int64_t{1} << 31) - 1024;  // kernels count in 32 bits
constexpr int64_t kMostInt8K = (int64_t{1} << 31) / (128 * 128) - 1;

// The mma family decides all but the types of A and B at run time.
std::optional<Decline> mma_declines(const KernelSpec& s, const Problem& p) {
  if (s.a != p.a.type || s.b != p.b.type) {
    return decline("types of A and B", fmt::format("{} x {}", num::name(*s.a), num::name(*s.b)),
                   fmt::format("{} x {}", num::name(p.a.type), num::name(p.b.type)));
  }
  const DType via = mma_via(p);
  if (s.via.value_or(p.a.type) != via && !(s.a == via && s.b == via)) {
    return decline("widened type", std::string(num::name(via)), std::string(num::name(s.via.value_or(*s.a))));
  }
  if (p.b_packing != spec::Packing::kRaw) {
    return decline("packed layout of B", "raw", std::string(to_string(p.b_packing)));
  }
  return std::nullopt;
}

}  // namespace

std::vector<KernelSpec> gpu_candidates(Target target, const Problem& problem) {
  if (spec::is_cuda(target)) {
    std::vector<KernelSpec> specs =
        target == Target::kSm90a ? tma_candidates(problem) : std::vector<KernelSpec>();
    const std::vector<KernelSpec> mma = mma_candidates(target, problem);
    specs.insert(specs.end(), mma.begin(), mma.end());
    return specs;
  }
  std::vector<KernelSpec> specs;
  KernelSpec base = from_problem(target, problem);
  for (const GpuTile& tile : kTiles) {
    for (const Instruction& row : kInstructions) {
      if (tile.target == target && row.target == target && choose_via(problem, row, base.via)) {
        specs.push_back(with_tile(base, tile, row));
      }
    }
  }
  return specs;
}

std::optional<Decline> gpu_declines(const KernelSpec& s, const Problem& p) {
  if (s.pipeline == Pipeline::kMma) {
    return mma_declines(s, p);
  }
  if (s.target == Target::kSm90a) {
    // Which kernel of a plan takes a run depends on strides, and one row may have any.
    if (p.batch_invariant) {
      return decline("batch invariance", "not asked for: one row is addressed by other rules than many",
                     "asked for");
    }
    if (p.accuracy == spec::Accuracy::kExact && num::info(*s.a).bits == 8 && *s.a != DType::kInt8) {
      return decline("accuracy", "promoted or fast: fp8 wgmma cuts addends to 13 bits", "exact");
    }
  }
  if (s.target == Target::kSm90a && !s.fused && p.epilogue != spec::EpilogueSpec{}) {
    return decline("epilogue", "none beyond alpha, as the kernel is not fused",
                   "bias, C, activation or clamp");
  }
  for (const auto* scale : {&s.a_scale, &s.b_scale}) {
    if (s.target == Target::kSm90a && *scale && (*scale)->block_k >= p.k) {
      return decline("K", fmt::format("more than the {} of a scale block", (*scale)->block_k),
                     std::to_string(p.k));
    }
  }
  for (const int64_t extent : {p.m, p.n, p.k}) {
    if (extent > kMostExtent) {
      return decline("sizes", fmt::format("at most {}", kMostExtent), std::to_string(extent));
    }
  }
  if (s.a == DType::kInt8 && p.k > kMostInt8K) {
    return decline("K", fmt::format("at most {}, so that int32 sums are exact", kMostInt8K),
                   std::to_string(p.k));
  }
  if (s.a != p.a.type || s.a_scale != p.a.scale) {
    return decline("A", operand_text(s.a, s.a_scale), describe(p.a));
  }
  if (s.b != p.b.type || s.b_scale != p.b.scale) {
    return decline("B", operand_text(s.b, s.b_scale), describe(p.b));
  }
  if (s.d != p.d) {
    return decline("type of D", s.d ? std::string(num::name(*s.d)) : "any", std::string(num::name(p.d)));
  }
  const Layouts layouts = {p.a.layout, p.b.layout};
  const bool copied = s.target == Target::kSm90a && s.layouts == Layouts{} && p.batch == 1;  // relayout_for
  if (s.layouts && *s.layouts != layouts && !copied) {
    return decline("layouts", std::string(layout_word(*s.layouts)), std::string(layout_word(layouts)));
  }
  if (s.accuracy == spec::Accuracy::kFast && p.accuracy != spec::Accuracy::kFast) {
    return decline("accuracy", "fast", std::string(to_string(p.accuracy)));
  }
  if (p.b_packing != s.packed) {
    return decline("packed layout of B", std::string(to_string(s.packed)),
                   std::string(to_string(p.b_packing)));
  }
  const Dims tile = s.swap_ab ? Dims{s.tile.n, s.tile.m, s.tile.k} : s.tile;
  const bool fits =
      (s.pads.m || p.m % tile.m == 0) && (s.pads.n || p.n % tile.n == 0) && (s.pads.k || p.k % tile.k == 0);
  return fits ? std::nullopt
              : std::optional(decline("edges that are not masked",
                                      fmt::format("multiples of {}", to_string(tile)),
                                      fmt::format("{}x{}x{}", p.m, p.n, p.k)));
}

}  // namespace scalegemm::arch
