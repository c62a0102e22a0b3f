// Which GPU specs are worth judging for a problem: tiles of the target's table x instructions that fit.
#include <algorithm>

#include "arch/legal.h"
#include "spec/scheme.h"

namespace scalegemm::arch {
namespace {

using spec::Layouts;
using spec::Scales;

// Block tiles. Sources: the tiles that Hopper's FP8 libraries settle on (m 64 or 128, n up to 256 in steps of
// the instruction), and AMD's swept ones (16x64 for small M, 128x128 and 256x128 for large).
struct GpuTile {
  Target target;
  Pipeline pipeline;
  spec::Scheduler scheduler;
  int m, n;
  int warps_m, warps_n;
  bool swap_ab;  // m counts columns of D, n rows
};
constexpr auto kHopper = Target::kSm90a;
constexpr auto kNo = spec::Scheduler::kDefault;
constexpr auto kIntra = spec::Scheduler::kIntrawave;
constexpr auto kInter = spec::Scheduler::kInterwave;
constexpr GpuTile kTiles[] = {
    {kHopper, Pipeline::kTmaCoop, kNo, 128, 256, 2, 1, false},
    {kHopper, Pipeline::kTmaCoop, kNo, 128, 192, 2, 1, false},
    {kHopper, Pipeline::kTmaCoop, kNo, 128, 128, 2, 1, false},
    {kHopper, Pipeline::kTmaCoop, kNo, 128, 64, 2, 1, false},
    {kHopper, Pipeline::kTmaPingPong, kNo, 64, 256, 1, 1, false},
    {kHopper, Pipeline::kTmaPingPong, kNo, 64, 128, 1, 1, false},
    {kHopper, Pipeline::kTmaCoop, kNo, 64, 64, 1, 1, false},
    {kHopper, Pipeline::kTmaCoop, kNo, 128, 64, 2, 1, true},
    {kHopper, Pipeline::kTmaCoop, kNo, 128, 32, 2, 1, true},
    {kHopper, Pipeline::kTmaCoop, kNo, 128, 16, 2, 1, true},
    {kHopper, Pipeline::kTmaCoop, kNo, 64, 8, 1, 1, true},
    {Target::kGfx942, Pipeline::kCompV3, kIntra, 256, 128, 2, 2, false},
    {Target::kGfx942, Pipeline::kCompV3, kIntra, 128, 128, 2, 2, false},
    {Target::kGfx942, Pipeline::kCompV3, kIntra, 64, 64, 2, 2, false},
    {Target::kGfx942, Pipeline::kMem, kInter, 16, 64, 1, 4, false},
    {Target::kGfx942, Pipeline::kMem, kInter, 32, 64, 1, 2, false},
    {Target::kGfx950, Pipeline::kCompAsync, kIntra, 256, 128, 2, 2, false},
    {Target::kGfx950, Pipeline::kCompAsync, kIntra, 128, 128, 2, 2, false},
    {Target::kGfx950, Pipeline::kCompV3, kIntra, 128, 128, 2, 2, false},
    {Target::kGfx950, Pipeline::kCompV3, kIntra, 64, 64, 2, 2, false},
    {Target::kGfx950, Pipeline::kMem, kInter, 16, 64, 1, 4, false},
    {Target::kGfx950, Pipeline::kMem, kInter, 32, 64, 1, 2, false},
};

// 128 bytes of K a row: what a TMA box or a wave's loads take at once.
int tile_k(const Instruction& row) {
  const int bits = row.types.has(DType::kF32)                                  ? 32
                   : row.types.has(DType::kF16) || row.types.has(DType::kBf16) ? 16
                                                                               : 8;
  return std::max(128 * 8 / bits, row.shape.k);
}

// The most stages that fit beside 16 KB for the epilogue and barriers, at most 8.
int most_stages(KernelSpec spec) {
  spec.stages = 1;
  const int64_t room = limits(spec.target).shared_bytes - 16384;
  return static_cast<int>(std::clamp<int64_t>(room / std::max<int64_t>(1, stage_bytes(spec)), 1, 8));
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
  s.epilogue = s.target == Target::kSm90a ? spec::EpilogueKind::kTma : spec::EpilogueKind::kCShuffle;
  s.tile = {tile.m, tile.n, tile_k(row)};
  s.warps = {tile.warps_m, tile.warps_n, 1};
  s.instruction = row.shape;
  s.swap_ab = tile.swap_ab;
  if (row.n_step != 0) {
    s.instruction.n = tile.n / tile.warps_n;
  }
  if (s.target == Target::kSm90a) {
    s.persistent = true;
    s.stages = most_stages(s);
  }
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

}  // namespace

std::vector<KernelSpec> gpu_candidates(Target target, const Problem& problem) {
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
  const auto decline = [](std::string rule, std::string needed, std::string got) {
    return Decline{"", std::move(rule), std::move(needed), std::move(got)};
  };
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
  if (s.layouts && *s.layouts != layouts) {
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
