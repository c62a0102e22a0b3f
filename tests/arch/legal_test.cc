#include "arch/legal.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "spec/scheme.h"

namespace scalegemm::arch {
namespace {

using spec::Layouts;
using spec::Scales;
using spec::ScaleSpec;

Problem problem_of(std::string_view scheme, std::string_view layout = "rcr") {
  Problem p;
  p.m = p.n = p.k = 4096;
  p.d = DType::kBf16;
  const Result<spec::Scheme> parsed = spec::parse_scheme(scheme);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_TRUE(apply(*parsed, layout, p).ok());
  return p;
}

KernelSpec hopper() {
  KernelSpec s;
  s.target = Target::kSm90a;
  s.a = s.b = DType::kE4m3;
  s.d = DType::kBf16;
  s.scales = Scales::kFixed;
  s.a_scale = ScaleSpec{DType::kF32, 1, 128, std::nullopt, false};
  s.b_scale = ScaleSpec{DType::kF32, 128, 128, std::nullopt, false};
  s.layouts = Layouts{};
  s.pipeline = Pipeline::kTmaCoop;
  s.epilogue = spec::EpilogueKind::kTma;
  s.tile = {128, 128, 128};
  s.warps = {2, 1, 1};
  s.instruction = {64, 128, 32};
  s.packed = spec::Packing::kRaw;
  s.stages = 6;
  return s;
}

KernelSpec parsed(const std::string& text) {
  const Result<KernelSpec> s = spec::parse(text);
  EXPECT_TRUE(s.ok()) << s.status().message();
  return *s;
}

template <class Change>
void expect_broken(KernelSpec s, Change change, const std::string& text) {
  change(s);
  const std::optional<Decline> decline = illegal(s);
  ASSERT_TRUE(decline) << text;
  EXPECT_NE(to_string(*decline).find(text), std::string::npos) << to_string(*decline);
  EXPECT_EQ(decline->kernel, spec::name(s));
}

TEST(Legal, EveryHopperRuleHasACase) {
  ASSERT_FALSE(illegal(hopper())) << to_string(*illegal(hopper()));
  const auto broken = [](auto change, const std::string& text) { expect_broken(hopper(), change, text); };
  broken([](KernelSpec& s) { s.d = std::nullopt; },
         "fixed fields: needed types, scales and layouts fixed; got any");
  broken([](KernelSpec& s) { s.pipeline = Pipeline::kCompV3; },
         "pipeline: needed tmacoop, tmapingpong, tmacarried or mma; got compv3");
  broken([](KernelSpec& s) { s.a = DType::kE4m3Fnuz; }, "fp8 flavour: needed e4m3 or e5m2");
  broken([](KernelSpec& s) { s.instruction.n = 12; },
         "instruction: needed 64x(8 to 256 by 8)x32; got 64x12x32 for e4m3 x e4m3");
  broken([](KernelSpec& s) { s.instruction.k = 64; }, "got 64x128x64 for e4m3 x e4m3");
  broken([](KernelSpec& s) { s.a = DType::kInt8, s.b = DType::kInt4, s.instruction.k = 32; },
         "instruction: needed e4m3 and e5m2 in any mix, or int8, bf16 or f16 on both sides");
  broken(
      [](KernelSpec& s) {
        s.layouts = Layouts{spec::Layout::kRow, spec::Layout::kRow};
      },
      "layouts: needed rcr, as the instruction takes K-contiguous operands only; got rrr");
  broken([](KernelSpec& s) { s.via = DType::kBf16; },
         "widened type: needed none, as the instruction takes both operands; got bf16");
  broken([](KernelSpec& s) { s.b = DType::kE2m1, s.via = DType::kF32; },
         "as the instruction takes; got e4m3 x e2m1");
  broken([](KernelSpec& s) { s.d = DType::kInt32; }, "type of D: needed f32, f16, bf16");
  broken([](KernelSpec& s) { s.tile.m = 64; }, "tile: needed multiples of warps x instruction = 128x128x32");
  broken([](KernelSpec& s) { s.a_scale->block_k = 16; },
         "scale blocks along K: needed a block_k that is a multiple of the instruction's 32; got f32 per 16");
  broken([](KernelSpec& s) { s.a_scale->zero_type = DType::kInt8; },
         "zero points: needed none on A; got int8");
  broken([](KernelSpec& s) { s.warps.k = 4, s.tile.k = 128; },
         "threads: needed at most 1024 threads; got 1152");
  broken([](KernelSpec& s) { s.tile.n = 256, s.instruction.n = 256; },
         "registers: needed at most 204 accumulator registers a thread; got 256");
  broken([](KernelSpec& s) { s.stages = 8; },
         "shared memory: needed at most 232448 bytes of shared memory; got 262144");
  broken([](KernelSpec& s) { s.cluster_m = 4, s.cluster_n = 4; }, "cluster: needed at most 8 blocks");
  broken([](KernelSpec& s) { s.packed = spec::Packing::kPanelK1x32; }, "packed layout of B: needed raw");
}

TEST(Legal, FastAccumulationHalvesTheRegisters) {
  KernelSpec s = hopper();
  s.tile.n = s.instruction.n = 256;
  s.stages = 4;
  EXPECT_EQ(accumulator_registers(s), 256);
  s.accuracy = spec::Accuracy::kFast;
  EXPECT_EQ(accumulator_registers(s), 256) << "block scales are promoted whatever was asked";
  s.a_scale->block_k = s.b_scale->block_k = s.b_scale->block_rows = spec::kAll;
  EXPECT_EQ(accumulator_registers(s), 128);
  EXPECT_FALSE(illegal(s)) << to_string(*illegal(s));
  EXPECT_EQ(stage_bytes(s), 4 * (128 + 256) * 128);
}

TEST(Legal, NamesOfAmdsDispatcher) {
  const std::string rowcol = "gemm_rowcolquant_fp8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_";
  EXPECT_FALSE(illegal(parsed(rowcol + "16x16x128_gfx950")));
  EXPECT_FALSE(illegal(parsed(rowcol + "16x16x32_gfx942")));
  // The shape that compiles on gfx942 and gives zeros.
  EXPECT_EQ(to_string(*illegal(parsed(rowcol + "16x16x128_gfx942"))),
            "gemm_rowcolquant_e4m3fnuz-e4m3fnuz-f16_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x128_"
            "gfx942: "
            "instruction: needed 16x16x32, 32x32x16; got 16x16x128 for e4m3_fnuz x e4m3_fnuz");
  // Composites of two instructions are no rows.
  EXPECT_EQ(illegal(parsed(rowcol + "16x16x64_gfx942"))->rule, "instruction");
  // Per 32 along K: fine where the instruction scales, not with f32 scales.
  const std::string mx = "mx_gemm_fp8_rcr_comp_async_cshuffle_intrawave_False_False_False_128x128x128_2x2x1_";
  EXPECT_FALSE(illegal(parsed(mx + "16x16x128_gfx950")));
  expect_broken(
      parsed(mx + "16x16x128_gfx950"),
      [](KernelSpec& s) {
        s.b_scale = ScaleSpec{DType::kF32, 1, 32, std::nullopt, false};
      },
      "scale blocks along K: needed a block_k that is a multiple of the instruction's 128, or e8m0 per 32");
  expect_broken(
      parsed(mx + "16x16x128_gfx950"), [](KernelSpec& s) { s.target = Target::kGfx942; },
      "fp8 flavour: needed e4m3_fnuz or e5m2_fnuz");
}

TEST(Legal, LdsLimitsAreThoseOfTheTarget) {
  const std::string front =
      "gemm_fp16_rcr_compv4_cshuffle_intrawave_False_False_False_False_256x128x64_2x2x1_32x32x16_";
  EXPECT_EQ(stage_bytes(parsed(front + "gfx950")), 2 * (256 + 128) * 64 * 2);
  EXPECT_FALSE(illegal(parsed(front + "gfx950"))) << to_string(*illegal(parsed(front + "gfx950")));
  KernelSpec s = parsed(front + "gfx942");
  s.instruction = {32, 32, 8};
  EXPECT_EQ(illegal(s)->rule, "shared memory");
}

// The schemes of the design on every GPU target: what has a kernel, what has none, and why.
TEST(GpuCandidates, EverySchemeHasAnAnswer) {
  const std::map<Target, std::set<std::string_view>> without = {{Target::kSm80, {}},
                                                                {Target::kSm89, {}},
                                                                {Target::kSm90a, {}},
                                                                {Target::kGfx942, {}},
                                                                {Target::kGfx950, {}}};
  for (const auto& [target, expected] : without) {
    std::set<std::string_view> none;
    for (const spec::SchemeInfo& row : spec::known_schemes()) {
      const Problem p = problem_of(row.text);
      int legal_count = 0;
      std::set<std::string> names;
      for (const KernelSpec& s : gpu_candidates(target, p)) {
        EXPECT_TRUE(check(s).ok()) << check(s).message();
        EXPECT_EQ(*spec::parse(spec::name(s)), s);
        EXPECT_EQ(s.target, target);
        const std::optional<Decline> decline = illegal(s);
        EXPECT_TRUE(!decline || !decline->needed.empty());
        if (!decline) {
          ++legal_count;
          EXPECT_FALSE(gpu_declines(s, p)) << to_string(*gpu_declines(s, p));
          EXPECT_NE(instruction_of(s), nullptr);
          EXPECT_TRUE(names.insert(spec::name(s)).second) << spec::name(s);
        }
      }
      if (legal_count == 0) {
        none.insert(row.text);
      }
    }
    EXPECT_EQ(none, expected) << spec::target_name(target);
  }
}

TEST(GpuCandidates, CarryTheProblem) {
  const Problem p = problem_of("abquant:bn=128");
  int legal_count = 0;
  for (const KernelSpec& s : gpu_candidates(Target::kSm90a, p)) {
    if (illegal(s) || s.pipeline == Pipeline::kMma) {
      continue;
    }
    ++legal_count;
    Problem other = p;
    other.d = DType::kF32;
    EXPECT_EQ(gpu_declines(s, other)->rule, "type of D");
    other = problem_of("abquant");
    EXPECT_EQ(gpu_declines(s, other)->rule, "B");
    other = problem_of("mxfp8");
    EXPECT_EQ(gpu_declines(s, other)->rule, "A");
    other = p;
    other.b_packing = spec::Packing::kPanelK1x32;
    EXPECT_EQ(gpu_declines(s, other)->rule, "packed layout of B");
    KernelSpec fast = s;
    fast.accuracy = spec::Accuracy::kFast;
    EXPECT_EQ(gpu_declines(fast, p)->rule, "accuracy");
    KernelSpec unmasked = s;
    unmasked.pads = {false, false, false};
    EXPECT_EQ(illegal(unmasked)->rule, "kernel template");
    other = p;
    other.k = 128;
    EXPECT_EQ(gpu_declines(s, other)->rule, "K");
    other = p;
    other.epilogue.activation = spec::Activation::kRelu;
    EXPECT_EQ(gpu_declines(s, other)->rule, "epilogue");
    other = p;
    other.batch = 2;
    EXPECT_EQ(gpu_declines(s, other), std::nullopt);
    other.b.layout = spec::Layout::kRow;
    EXPECT_EQ(gpu_declines(s, other)->rule, "layouts");
    other = p;
    other.batch_invariant = true;
    EXPECT_EQ(gpu_declines(s, other)->rule, "batch invariance");
    other = p;
    other.accuracy = spec::Accuracy::kExact;
    EXPECT_EQ(gpu_declines(s, other)->rule, "accuracy");
  }
  EXPECT_GE(legal_count, 5);
}

// The mma family takes every problem, in every layout and with every epilogue.
TEST(GpuCandidates, TheMmaFamilyTakesEverything) {
  for (const spec::SchemeInfo& row : spec::known_schemes()) {
    for (const char* layout : {"rcr", "rrr", "crr", "ccr"}) {
      Problem p = problem_of(row.text, layout);
      p.epilogue.activation = spec::Activation::kSilu;
      int takers = 0;
      for (const KernelSpec& s : gpu_candidates(Target::kSm89, p)) {
        takers += illegal(s) || gpu_declines(s, p) ? 0 : 1;
      }
      EXPECT_GE(takers, 2) << row.text << ' ' << layout;
    }
  }
}

TEST(GpuCandidates, NothingFitsAnEmptyTable) {
  EXPECT_TRUE(gpu_candidates(Target::kX86V3, problem_of("none")).empty());
}

TEST(Targets, FeaturesGrowWithTheLevel) {
  base::CpuInfo cpu;
  EXPECT_FALSE(runs_on(Target::kX86V3, cpu));
  for (Target target : {Target::kX86V3, Target::kAvx512, Target::kAvx512Bf16}) {
    for (base::CpuFeature f : required_features(target)) {
      cpu.features |= uint64_t{1} << static_cast<int>(f);
    }
    for (const spec::TargetName& row : spec::kTargets) {
      EXPECT_EQ(runs_on(row.target, cpu), spec::is_cpu(row.target) && row.target <= target);
    }
  }
}

TEST(Instructions, ShapesAndMixes) {
  const Operands mix{DType::kE4m3, DType::kE5m2, std::nullopt};
  EXPECT_NE(find_instruction(Target::kSm90a, mix, {64, 248, 32}), nullptr);
  EXPECT_EQ(find_instruction(Target::kSm90a, mix, {64, 264, 32}), nullptr);
  EXPECT_EQ(find_instruction(Target::kSm90a, mix, {64, 4, 32}), nullptr);
  EXPECT_STREQ(find_instruction(Target::kGfx950, {DType::kE4m3, DType::kE2m1, {}}, {16, 16, 128})->mnemonic,
               "v_mfma_scale_f32_16x16x128_f8f6f4");
  EXPECT_EQ(find_instruction(Target::kGfx950, {DType::kInt8, DType::kE2m1, {}}, {16, 16, 128}), nullptr);
  EXPECT_EQ(find_instruction(Target::kSm90a, {DType::kE2m1, DType::kE4m3, {}}, {64, 64, 32}), nullptr);
  // One shape, three instructions: the widened type tells them apart.
  const Dims shape = {16, 16, 32};
  const std::pair<DType, const char*> rows[] = {{DType::kE5m2, "v_mfma_f32_16x16x32_f8"},
                                                {DType::kBf16, "v_mfma_f32_16x16x32_bf16"},
                                                {DType::kF16, "v_mfma_f32_16x16x32_f16"}};
  for (const auto& [via, mnemonic] : rows) {
    EXPECT_STREQ(find_instruction(Target::kGfx950, {DType::kE2m1, DType::kE2m1, via}, shape)->mnemonic,
                 mnemonic);
  }
  EXPECT_TRUE(feeds(DType::kE2m1, DType::kE5m2, kOcp8));
  EXPECT_FALSE(feeds(DType::kE2m1, std::nullopt, kOcp8));
  EXPECT_FALSE(feeds(DType::kE4m3, DType::kE5m2, kInt8Only));
  EXPECT_FALSE(feeds(DType::kF32, DType::kBf16, kBf16Only));
}

}  // namespace
}  // namespace scalegemm::arch
