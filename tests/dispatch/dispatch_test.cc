#include "dispatch/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "arch/legal.h"
#include "spec/scheme.h"

namespace scalegemm::dispatch {
namespace {

using num::DType;
using spec::CpuDesc;
using spec::Packing;
using spec::Pipeline;
using spec::Problem;
using spec::Target;

// A core as measured: f32 multiply-adds equally fast at both widths, int8 dots twice as fast on AVX-512.
CpuDesc wide_cpu() {
  CpuDesc cpu;
  cpu.name = "Test CPU, 2 cores";
  cpu.targets = {
      {Target::kX86V3, {.f32_fma_gflops = 115, .bf16dp_gflops = 0, .i8dot_gops = 200, .read_gbps = 20}},
      {Target::kAvx512, {.f32_fma_gflops = 118, .bf16dp_gflops = 0, .i8dot_gops = 355, .read_gbps = 20}}};
  cpu.cores = 1;
  return cpu;
}

Problem problem_of(std::string_view scheme, int64_t m, int64_t n = 4096, int64_t k = 4096) {
  Problem p;
  p.m = m, p.n = n, p.k = k;
  const Result<spec::Scheme> parsed = spec::parse_scheme(scheme);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_TRUE(apply(*parsed, "rcr", p).ok());
  return p;
}

Explanation explained(const Problem& p, const CpuDesc& cpu = wide_cpu(), const Options& options = {}) {
  const Result<Explanation> e = explain(p, cpu, options);
  EXPECT_TRUE(e.ok()) << e.status().message();
  return e.ok() ? *e : Explanation();
}

TEST(Dispatch, EverySchemeHasAKernelOnEveryCpuLevel) {
  CpuDesc narrow = wide_cpu();
  narrow.targets.pop_back();
  for (const CpuDesc& cpu : {wide_cpu(), narrow}) {
    for (const spec::SchemeInfo& row : spec::known_schemes()) {
      for (int64_t m : {1, 3, 16, 257}) {
        for (Packing packing : {Packing::kRaw, Packing::kChosen}) {
          Problem p = problem_of(row.text, m, 48, 130);
          p.b_packing = packing;
          const Explanation e = explained(p, cpu);
          ASSERT_FALSE(e.candidates.empty()) << row.text;
          EXPECT_NE(e.problem.b_packing, Packing::kChosen);
          double last = 0;
          for (const Candidate& c : e.candidates) {
            EXPECT_FALSE(arch::illegal(c.spec));
            EXPECT_EQ(c.name, spec::name(c.spec));
            EXPECT_TRUE(std::isfinite(c.cost->total_us) && c.cost->total_us >= last) << c.name;
            last = c.cost->total_us;
          }
        }
      }
    }
  }
}

// Every kernel of the device's targets is a candidate or a decline, and nothing is both.
TEST(Dispatch, AccountsForEveryFamily) {
  const CpuDesc cpu = wide_cpu();
  const auto families =
      std::count_if(arch::kCpuFamilies.begin(), arch::kCpuFamilies.end(), [&cpu](const auto& f) {
        return std::any_of(cpu.targets.begin(), cpu.targets.end(),
                           [&f](const auto& t) { return t.target == f.target; });
      });
  for (const spec::SchemeInfo& row : spec::known_schemes()) {
    const Explanation e = explained(problem_of(row.text, 8));
    EXPECT_EQ(e.candidates.size() + e.declines.size(), static_cast<size_t>(families)) << row.text;
    for (const spec::Decline& d : e.declines) {
      EXPECT_FALSE(d.kernel.empty() || d.rule.empty() || d.needed.empty() || d.got.empty()) << to_string(d);
    }
  }
}

TEST(Dispatch, RoutesByMeasuredRates) {
  const struct {
    const char* scheme;
    Pipeline best;
  } cases[] = {{"mxfp4", Pipeline::kI8Dot},         {"int8", Pipeline::kI8Dot},
               {"nvfp4", Pipeline::kI8Dot},         {"bquant:a=int8,g=32", Pipeline::kI8Dot},
               {"mx-weight", Pipeline::kF32Fma},    {"rowcol", Pipeline::kF32Fma},
               {"mxfp4:a=e4m3", Pipeline::kF32Fma}, {"none", Pipeline::kF32Fma}};
  for (const auto& c : cases) {
    const Explanation e = explained(problem_of(c.scheme, 128));
    EXPECT_EQ(e.candidates[0].spec.pipeline, c.best) << to_text(e);
    EXPECT_EQ(e.candidates[0].spec.target, Target::kAvx512) << to_text(e);
  }
  // Where the int8 dot is the slow one, f32 takes over: it is the rates that decide.
  CpuDesc slow = wide_cpu();
  for (spec::TargetRates& t : slow.targets) {
    t.rates.i8dot_gops = 20;
  }
  EXPECT_EQ(explained(problem_of("mxfp4", 128), slow).candidates[0].spec.pipeline, Pipeline::kF32Fma);
  // And a narrower target where the wide one is slow.
  CpuDesc throttled = wide_cpu();
  throttled.targets[1].rates = {30, 0, 60, 20};
  EXPECT_EQ(explained(problem_of("none", 128), throttled).candidates[0].spec.target, Target::kX86V3);
}

TEST(Dispatch, DeclinesSayWhy) {
  const Explanation e = explained(problem_of("mx-weight", 128));
  ASSERT_EQ(e.declines.size(), 2u);
  EXPECT_EQ(
      to_string(e.declines[0]),
      "gemm_any_any-e2m1-any_any_i8dot_default_dynamic_14x16x8_1x1x1_1x16x4_avx512: i8dot: type of A: needed "
      "int8, int4, uint4, e2m1; got bf16");
  EXPECT_EQ(to_string(explained(problem_of("rowcol", 4)).declines[0]),
            "i8dot on avx512: i8dot: type of B: needed int8, int4, uint4, e2m1; got e4m3");
  Problem odd = problem_of("bquant:a=int8,g=12", 4, 64, 96);
  EXPECT_EQ(explained(odd).declines[0].rule, "i8dot: common block_k of A and B");
}

TEST(Dispatch, Int32ComesFromI8dotAlone) {
  Problem p = problem_of("none:a=int8", 5);
  p.d = DType::kInt32;
  const Explanation e = explained(p);
  ASSERT_EQ(e.candidates.size(), 2u);
  for (const Candidate& c : e.candidates) {
    EXPECT_EQ(c.spec.pipeline, Pipeline::kI8Dot);
  }
  p.k = 131072;
  const Result<Candidate> none = choose(p, wide_cpu());
  EXPECT_EQ(none.status().code(), Code::kUnsupported);
  EXPECT_NE(none.status().message().find("i8dot: K of an int32 output: needed at most 131071; got 131072"),
            std::string::npos)
      << none.status().message();
  EXPECT_NE(none.status().message().find("f32fma: type of D"), std::string::npos);
}

TEST(Dispatch, PackingDependsOnTheSchemeNotOnM) {
  for (const spec::SchemeInfo& row : spec::known_schemes()) {
    std::set<Packing> chosen;
    for (int64_t m : {1, 4, 128, 5000}) {
      Problem p = problem_of(row.text, m);
      p.b_packing = Packing::kChosen;
      chosen.insert(*choose_packing(p, wide_cpu()));
      const Explanation e = explained(p);
      chosen.insert(e.problem.b_packing);
      for (const Candidate& c : e.candidates) {
        EXPECT_EQ(c.spec.packed, e.problem.b_packing);
      }
    }
    EXPECT_EQ(chosen.size(), 1u) << row.text;
    EXPECT_NE(*chosen.begin(), Packing::kRaw);
  }
  EXPECT_EQ(*choose_packing(problem_of("mxfp4", 1), wide_cpu()), Packing::kPanelK4x16);
  EXPECT_EQ(*choose_packing(problem_of("mx-weight", 1), wide_cpu()), Packing::kPanelK1x32);
}

// Of a library that holds only some kernels, also the packed layout is one that they take.
TEST(Dispatch, OnlyAvailableKernelsAreChosen) {
  const auto is_fma = [](const spec::KernelSpec& kernel) {
    return kernel.pipeline == Pipeline::kF32Fma && kernel.target == Target::kX86V3;
  };
  const Options some = {.available = is_fma};
  Problem p = problem_of("mxfp4", 1);
  ASSERT_EQ(*choose_packing(p, wide_cpu()), Packing::kPanelK4x16);
  EXPECT_EQ(*choose_packing(p, wide_cpu(), some), Packing::kPanelK1x32);
  p.b_packing = Packing::kChosen;
  const Explanation e = explained(p, wide_cpu(), some);
  EXPECT_EQ(e.problem.b_packing, Packing::kPanelK1x32);
  ASSERT_EQ(e.candidates.size(), 1u);
  EXPECT_TRUE(is_fma(e.candidates[0].spec));
  EXPECT_TRUE(std::any_of(e.declines.begin(), e.declines.end(),
                          [](const spec::Decline& d) { return d.rule == "built in"; }));

  const Options none = {.available = [](const spec::KernelSpec&) { return false; }};
  const Explanation nothing = explained(problem_of("mxfp4", 1), wide_cpu(), none);
  EXPECT_TRUE(nothing.candidates.empty());
  EXPECT_EQ(nothing.declines.back().rule, "built in");
  EXPECT_NE(nothing.declines.back().got.find(" more"), std::string::npos) << nothing.declines.back().got;
  spec::GpuDesc gpu;
  gpu.name = "NVIDIA H200";
  const auto on_gpu = explain(problem_of("rowcol", 16), gpu,
                              {.shipped = &TunedTable::shipped(), .available = none.available});
  ASSERT_TRUE(on_gpu.ok());
  EXPECT_TRUE(on_gpu->candidates.empty()) << "a tuned row brings no kernel that cannot be had";
}

TEST(Dispatch, BatchInvariantChoiceDoesNotDependOnM) {
  std::set<std::string> names;
  for (int64_t m : {1, 2, 4, 5, 16, 128, 1000, 100000}) {
    Problem p = problem_of("mxfp4", m);
    p.batch_invariant = true;
    names.insert(explained(p).candidates[0].name);
  }
  EXPECT_EQ(names.size(), 1u);
}

TEST(Dispatch, InvalidProblemsAndEmptyDevicesAreErrors) {
  EXPECT_EQ(explain(problem_of("mxfp4", 1, 64, 63), wide_cpu()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(explain(problem_of("mxfp4", 0), wide_cpu()).status().message(),
            "M: needed a positive size; given 0");
  EXPECT_EQ(explain(problem_of("mxfp4", 1), CpuDesc()).status().code(), Code::kNoDevice);
  EXPECT_EQ(explain_target(problem_of("mxfp4", 0), Target::kSm90a, Backend::kNotBuilt).status().code(),
            Code::kInvalidArgument);
}

TunedTable tuned(const std::string& kernel, const std::string& device = "*") {
  TunedTable table;
  table.add({Target::kAvx512, device, signature(problem_of("mxfp4", 100)), 128, 4096, 4096, kernel, 1234.5});
  return table;
}

TEST(Dispatch, TunedKernelsComeFirst) {
  const Problem p = problem_of("mxfp4", 100);
  const Explanation model = explained(p);
  const TunedTable table = tuned(model.candidates.back().name);
  const Explanation e = explained(p, wide_cpu(), {.tuned = &table});
  EXPECT_EQ(e.candidates.size(), model.candidates.size());
  EXPECT_EQ(e.candidates[0].name, model.candidates.back().name);
  EXPECT_EQ(e.candidates[0].tuned_us, 1234.5);
  EXPECT_EQ(e.candidates[1].name, model.candidates[0].name);
  EXPECT_FALSE(e.candidates[1].tuned_us);
  EXPECT_TRUE(e.notes.empty());
  // Another M bucket, another N, a cap to AVX2: not this row.
  for (const Problem& other :
       {problem_of("mxfp4", 200), problem_of("mxfp4", 100, 4095), problem_of("nvfp4", 100)}) {
    EXPECT_FALSE(explained(other, wide_cpu(), {.tuned = &table}).candidates[0].tuned_us);
  }
  CpuDesc narrow = wide_cpu();
  narrow.targets.pop_back();
  EXPECT_FALSE(explained(p, narrow, {.tuned = &table}).candidates[0].tuned_us);
}

TEST(Dispatch, ALegalVariantOutsideTheTablesMayBeTuned) {
  const std::string name = "gemm_any_any-e2m1-any_any_f32fma_default_dynamic_14x32x512_1x1x1_1x16x1_avx512";
  const TunedTable table = tuned(name);
  const Explanation e = explained(problem_of("mxfp4", 100), wide_cpu(), {.tuned = &table});
  EXPECT_EQ(e.candidates.size(), 5u);
  EXPECT_EQ(e.candidates[0].name, name);
  EXPECT_TRUE(e.candidates[0].cost);
}

TEST(Dispatch, UnusableTunedRowsAreNotedOrRefused) {
  const struct {
    const char* kernel;
    const char* reason;
  } cases[] = {
      {"gemm_nonsense_avx512", "needed a quant word"},
      {"gemm_any_any-e4m3-any_any_f32fma_default_dynamic_14x32x256_1x1x1_1x16x1_avx512",
       "type of B: needed e4m3"},
      {"gemm_any_any-e2m1-any_any_f32fma_default_dynamic_13x32x256_1x1x1_1x16x1_avx512",
       "tile: needed 14x32xK"},
  };
  for (const auto& c : cases) {
    const TunedTable table = tuned(c.kernel);
    const Explanation e = explained(problem_of("mxfp4", 100), wide_cpu(), {.tuned = &table});
    ASSERT_EQ(e.notes.size(), 1u);
    EXPECT_NE(e.notes[0].find(c.reason), std::string::npos) << e.notes[0];
    EXPECT_NE(e.notes[0].find("ranked by the model instead"), std::string::npos);
    EXPECT_FALSE(e.candidates[0].tuned_us);
    const auto strict =
        explain(problem_of("mxfp4", 100), wide_cpu(), {.tuned = &table, .strictness = Strictness::kStrict});
    ASSERT_FALSE(strict.ok());
    EXPECT_NE(strict.status().message().find(c.reason), std::string::npos) << strict.status().message();
  }
}

TEST(ExplainTarget, GpusWithoutADevice) {
  for (Target target : {Target::kGfx942, Target::kGfx950}) {
    const Result<Explanation> e = explain_target(problem_of("mxfp4", 128), target, Backend::kNotBuilt);
    ASSERT_TRUE(e.ok());
    ASSERT_FALSE(e->candidates.empty()) << to_text(*e);
    for (const Candidate& c : e->candidates) {
      EXPECT_FALSE(c.cost) << "no device, no time";
      EXPECT_EQ(c.spec.target, target);
    }
    const std::string text = to_text(*e);
    EXPECT_NE(text.find("the back end of " + std::string(spec::target_name(target)) + " is not built"),
              std::string::npos);
    EXPECT_EQ(explain_target(problem_of("mxfp4", 128), target, Backend::kBuilt)->notes.size(), 1u);
  }
}

TEST(ExplainTarget, CudaTimesAreNominalAndOneFamilyIsDeclinedOnce) {
  const Result<Explanation> e = explain_target(problem_of("mxfp4", 128), Target::kSm90a, Backend::kBuilt);
  ASSERT_TRUE(e.ok());
  ASSERT_EQ(e->declines.size(), 1u) << to_text(*e);
  EXPECT_EQ(e->declines[0].rule, "instruction");
  ASSERT_FALSE(e->candidates.empty());
  for (const Candidate& c : e->candidates) {
    ASSERT_TRUE(c.cost);
    EXPECT_GT(c.cost->total_us, 0);
    EXPECT_EQ(c.spec.pipeline, spec::Pipeline::kMma);
  }
  EXPECT_EQ(e->notes.size(), 1u);
}

// The bits of a row must not depend on M: one kernel whatever M is, and none that strides choose.
TEST(ExplainGpu, BatchInvarianceHasOneKernelForEveryM) {
  std::string name;
  for (int64_t m : {1, 16, 128, 4096}) {
    spec::Problem p = problem_of("rowcol", m);
    p.batch_invariant = true;
    const Result<Explanation> e = explain(p, spec::GpuDesc{}, {});
    ASSERT_TRUE(e.ok()) << e.status().message();
    ASSERT_FALSE(e->candidates.empty());
    EXPECT_EQ(e->candidates[0].spec.pipeline, spec::Pipeline::kMma);
    name = name.empty() ? e->candidates[0].name : name;
    EXPECT_EQ(e->candidates[0].name, name) << m;
  }
}

TEST(ExplainGpu, SaysWhatTakesRunsThatTmaCannot) {
  const Result<Explanation> e = explain(problem_of("abquant:bn=128", 512), spec::GpuDesc{}, {});
  ASSERT_TRUE(e.ok());
  ASSERT_EQ(e->notes.size(), 2u);
  EXPECT_NE(e->notes[0].find("_strided_"), std::string::npos) << e->notes[0];
  EXPECT_NE(e->notes[1].find("_mma_"), std::string::npos) << e->notes[1];
}

// What a TMA kernel may be unable to address at a run is taken by the kernels behind it.
TEST(WithFallbacks, StridedScalesThenMma) {
  const Result<Explanation> e = explain(problem_of("abquant:bn=128", 512), spec::GpuDesc{}, {});
  ASSERT_TRUE(e.ok()) << e.status().message();
  const spec::KernelSpec& best = e->candidates[0].spec;
  ASSERT_NE(best.pipeline, spec::Pipeline::kMma);
  const auto kernels = with_fallbacks(best, *e, true);
  ASSERT_EQ(kernels.size(), best.strided_scales ? 2u : 3u);
  EXPECT_EQ(kernels.front(), best);
  EXPECT_TRUE(kernels[kernels.size() - 2].strided_scales);
  EXPECT_EQ(kernels.back().pipeline, spec::Pipeline::kMma);
  EXPECT_EQ(with_fallbacks(best, *e, false).size(), 1u);
}

TEST(ExplainTarget, SmallMPrefersSmallTiles) {
  const auto rows_of = [](int64_t m) {
    const Result<Explanation> e = explain_target(problem_of("rowcol", m), Target::kSm90a, Backend::kNotBuilt);
    const spec::KernelSpec& best = e->candidates[0].spec;
    return best.swap_ab ? best.tile.n : best.tile.m;
  };
  EXPECT_LE(rows_of(1), 16);
  EXPECT_LE(rows_of(64), 64);
  EXPECT_GE(rows_of(4096), 64);
}

// A problem without a row of its own takes the tile of its kin: the same cost, other types of scales and D.
TEST(Overlay, GpuProblemsTakeTheTileOfTheirKin) {
  Problem measured = problem_of("rowcol", 64);
  measured.d = DType::kBf16;
  measured.accuracy = spec::Accuracy::kFast;
  spec::GpuDesc gpu;
  gpu.name = "NVIDIA H200";
  const Result<Explanation> plain = explain(measured, gpu);
  ASSERT_TRUE(plain.ok());
  const spec::KernelSpec tile = plain->candidates[3].spec;
  TunedTable table;
  table.add({Target::kSm90a, "*", signature(measured), 64, 4096, 4096, spec::name(tile), 1.0, 0.0});
  const auto chosen = [&](std::string_view scheme, DType d) {
    Problem p = problem_of(scheme, 64);
    p.d = d;
    p.accuracy = spec::Accuracy::kFast;
    const Result<Explanation> e = explain(p, gpu, {.tuned = &table});
    EXPECT_TRUE(e.ok());
    EXPECT_EQ(e->candidates[0].tuned_us.has_value(), scheme == "rowcol" && d == DType::kBf16) << scheme;
    EXPECT_EQ(e->candidates[0].spec.d, d);
    return e->candidates[0].spec.tile;
  };
  EXPECT_EQ(chosen("rowcol", DType::kBf16), tile.tile);
  EXPECT_EQ(chosen("tensor", DType::kF16), tile.tile);
  EXPECT_EQ(chosen("tensor:a=e5m2", DType::kBf16), tile.tile);
  EXPECT_EQ(chosen("rowcol:b=e5m2", DType::kF16), tile.tile);

  // A row for another problem is never an error, and a row of one GEMM says nothing of a batch.
  Problem odd = problem_of("rowcol", 64);
  odd.d = DType::kBf16;
  odd.accuracy = spec::Accuracy::kFast;
  odd.batch = 2;
  EXPECT_TRUE(apply(*spec::parse_scheme("rowcol"), "rrr", odd).ok());
  const Result<Explanation> e = explain(odd, gpu, {.tuned = &table, .strictness = Strictness::kStrict});
  ASSERT_TRUE(e.ok()) << e.status().message();
  EXPECT_FALSE(e->candidates[0].tuned_us);
}

// Operands that TMA cannot address as they lie are copied, and that is said and counted.
TEST(ExplainTarget, OtherLayoutsAndOddRowsAreCopied) {
  const auto chosen = [](std::string_view layout, int64_t k) {
    Problem p = problem_of("rowcol", 4096, 4096, k);
    EXPECT_TRUE(apply(*spec::parse_scheme("rowcol"), layout, p).ok());
    const Result<Explanation> e = explain_target(p, Target::kSm90a, Backend::kBuilt);
    EXPECT_TRUE(e.ok());
    const Candidate& best = e->candidates.front();
    EXPECT_NE(best.spec.pipeline, spec::Pipeline::kMma) << layout;
    return std::pair(best.cost->relayout_us, to_text(*e));
  };
  EXPECT_EQ(chosen("rcr", 4096).first, 0);
  EXPECT_EQ(chosen("rcr", 4096).second.find("copied"), std::string::npos);
  const auto b = chosen("rrr", 4096);
  EXPECT_GT(b.first, 10);
  EXPECT_NE(b.second.find("B is copied into the workspace before each run"), std::string::npos) << b.second;
  EXPECT_GT(chosen("crr", 4096).first, b.first);
  EXPECT_NE(chosen("ccr", 4096).second.find("A is copied"), std::string::npos);
  EXPECT_NE(chosen("rcr", 4099).second.find("A and B are copied"), std::string::npos);
}

TEST(ExplainTarget, CpusWithoutADevice) {
  const Result<Explanation> e =
      explain_target(problem_of("mxfp4", 128), Target::kAvx512Bf16, Backend::kBuilt);
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(e->candidates.size(), 5u);
  EXPECT_NE(to_text(*e).find("no device was given"), std::string::npos);
  EXPECT_EQ(explain_target(problem_of("mxfp4", 128), Target::kX86V3, Backend::kBuilt)->candidates.size(), 2u);
}

TEST(ToText, HoldsEveryPart) {
  Problem p = problem_of("mx-weight", 16);
  p.batch = 3;
  const std::string text = to_text(explained(p));
  for (const char* part :
       {"problem     M 16, N 4096, K 4096, batch 3\n", "bf16 x e2m1*e8m0[1x32] -> f32 rcr\n",
        "device      Test CPU, 2 cores\n", "chosen      gemm_any_any-e2m1-any_any_f32fma",
        "runners-up  gemm_any", "declined    gemm_any", "predicted ", "needed int8, int4"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Cost, ScalesAsItShould) {
  const Problem p = problem_of("mx-weight", 512);
  const spec::KernelSpec spec = explained(p).candidates[0].spec;
  const spec::CpuRates rates{100, 0, 300, 20};
  const Cost one = predict(spec, p, rates, 1);
  EXPECT_NEAR(one.compute_us, 2 * 512.0 * 4096 * 4096 / 100e3, 1);
  EXPECT_NEAR(one.memory_us, problem_bytes(p) / 20e3, 1);
  EXPECT_GT(one.decode_us, 0);
  EXPECT_LT(one.decode_us, 0.1 * one.compute_us);
  const Cost two = predict(spec, p, rates, 2);
  EXPECT_NEAR(two.compute_us * 2, one.compute_us, 1);
  Problem thin = p;
  thin.m = 1;
  const Cost gemv = predict(spec, thin, rates, 1);
  EXPECT_GE(gemv.total_us, 1.0 + problem_bytes(thin) / 20e3);
  EXPECT_LT(gemv.total_us, one.total_us);
}

TEST(Cost, CountsBytes) {
  Problem p = problem_of("mxfp4", 2, 32, 64);
  p.d = DType::kBf16;
  EXPECT_EQ(problem_bytes(p), (2 + 32) * (64 / 2 + 2) + 2 * 32 * 2);
  p.epilogue.bias = DType::kF32;
  p.epilogue.c = DType::kBf16;
  EXPECT_EQ(problem_bytes(p), (2 + 32) * (64 / 2 + 2) + 2 * 2 * 32 * 2 + 32 * 4);
  p.batch = 2;
  EXPECT_EQ(problem_bytes(p), 2 * ((2 + 32) * (64 / 2 + 2) + 2 * 2 * 32 * 2 + 32 * 4));
}

}  // namespace
}  // namespace scalegemm::dispatch
