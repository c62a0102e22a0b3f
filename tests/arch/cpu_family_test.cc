#include "arch/cpu_family.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "arch/legal.h"
#include "spec/scheme.h"

namespace scalegemm::arch {
namespace {

using spec::kAll;
using spec::Layout;
using spec::OperandSpec;
using spec::Packing;
using spec::ScaleSpec;

TEST(CpuFamily, EnumeratesOneKernelATypeOfB) {
  std::set<std::string> names;
  for (Target target : {Target::kX86V3, Target::kAvx512}) {
    const std::vector<KernelSpec> specs = cpu_specs(target);
    EXPECT_EQ(specs.size(), 11u + 4u);
    for (const KernelSpec& s : specs) {
      EXPECT_FALSE(illegal(s).has_value()) << to_string(*illegal(s));
      EXPECT_TRUE(legal(s).ok());
      EXPECT_EQ(s.target, target);
      EXPECT_EQ(*spec::parse(spec::name(s)), s);
      names.insert(spec::name(s));
    }
  }
  EXPECT_EQ(names.size(), 30u);
  EXPECT_TRUE(
      names.contains("gemm_any_any-e2m1-any_any_f32fma_default_dynamic_14x32x256_1x1x1_1x16x1_avx512"));
  EXPECT_TRUE(names.contains("gemm_any_any-e2m1-any_any_i8dot_default_dynamic_14x16x8_1x1x1_1x16x4_avx512"));
  EXPECT_TRUE(names.contains("gemm_any_any-int8-any_any_i8dot_default_dynamic_6x16x4_1x1x1_1x8x4_x86v3"));
  // What a level adds to the one below it.
  EXPECT_EQ(cpu_specs(Target::kAvx512Bf16).size(), std::size(kBf16B));
  for (const KernelSpec& s : cpu_specs(Target::kAvx512Bf16)) {
    EXPECT_FALSE(illegal(s)) << to_string(*illegal(s));
    EXPECT_EQ(s.pipeline, Pipeline::kBf16Dot);
  }
  for (Target target : {Target::kSm80, Target::kSm90a, Target::kGfx942}) {
    EXPECT_TRUE(cpu_specs(target).empty()) << spec::target_name(target);
  }
}

TEST(CpuFamily, OnlyWhatARowMakesIsLegal) {
  const KernelSpec good = make_spec(*find_family(Target::kAvx512, Pipeline::kI8Dot), DType::kInt4);
  ASSERT_FALSE(illegal(good));
  const auto broken = [&good](auto change, const std::string& rule) {
    KernelSpec s = good;
    change(s);
    const std::optional<Decline> decline = illegal(s);
    ASSERT_TRUE(decline) << rule;
    EXPECT_EQ(decline->rule, rule) << to_string(*decline);
    EXPECT_FALSE(decline->needed.empty());
    EXPECT_FALSE(decline->got.empty());
    EXPECT_EQ(legal(s).code(), Code::kUnsupported);
  };
  broken([](KernelSpec& s) { s.target = Target::kAvx512Bf16; }, "kernel family");
  broken([](KernelSpec& s) { s.pipeline = Pipeline::kBf16Dot; }, "kernel family");
  broken([](KernelSpec& s) { s.pipeline = Pipeline::kCompV3; }, "kernel family");
  broken([](KernelSpec& s) { s.b = DType::kE4m3; }, "type of B");
  broken([](KernelSpec& s) { s.b = std::nullopt; }, "type of B");
  broken([](KernelSpec& s) { s.a = DType::kInt8; }, "run-time fields");
  broken([](KernelSpec& s) { s.d = DType::kF32; }, "run-time fields");
  broken([](KernelSpec& s) { s.scales = spec::Scales::kFixed; }, "run-time fields");
  broken([](KernelSpec& s) { s.layouts = spec::Layouts{}; }, "run-time fields");
  broken([](KernelSpec& s) { s.tile.m = 12; }, "tile");
  broken([](KernelSpec& s) { s.tile.k = 4; }, "tile");
  broken([](KernelSpec& s) { s.instruction.n = 8; }, "instruction");
  broken([](KernelSpec& s) { s.warps.m = 2; }, "options");
  broken([](KernelSpec& s) { s.packed = Packing::kPanelK1x32; }, "options");
  broken([](KernelSpec& s) { s.swap_ab = true; }, "options");
  broken([](KernelSpec& s) { s.pads.k = false; }, "options");
  broken([](KernelSpec& s) { s.tile.m = 0; }, "well-formed spec");
}

TEST(CpuFamily, TheKBlockOfAnF32PanelMayVary) {
  KernelSpec s = make_spec(*find_family(Target::kX86V3, Pipeline::kF32Fma), DType::kBf16);
  for (int k : {32, 256, 512, 4096}) {
    s.tile.k = k;
    EXPECT_FALSE(illegal(s)) << k;
  }
  for (int k : {1, 30, 255, 4098}) {
    s.tile.k = k;
    EXPECT_TRUE(illegal(s)) << k;
  }
}

Problem problem_of(DType a, DType b) {
  Problem p;
  p.m = p.n = 8;
  p.k = 256;
  p.a = {a, Layout::kRow, std::nullopt};
  p.b = {b, Layout::kCol, std::nullopt};
  return p;
}

TEST(CpuFamily, F32TakesEverythingButInt32) {
  for (int a = 1; a <= 13; ++a) {
    for (const KernelSpec& s : cpu_specs(Target::kX86V3)) {
      if (s.pipeline != Pipeline::kF32Fma) {
        continue;
      }
      Problem p = problem_of(static_cast<DType>(a), *s.b);
      if (!validate(p).ok()) {
        continue;
      }
      EXPECT_FALSE(cpu_declines(s, p)) << to_string(*cpu_declines(s, p));
      p.d = DType::kInt32;
      EXPECT_EQ(cpu_declines(s, p)->rule, "f32fma: type of D");
    }
  }
}

TEST(CpuFamily, PackingsMustMatch) {
  const CpuFamily& i8 = *find_family(Target::kAvx512, Pipeline::kI8Dot);
  const CpuFamily& f32 = *find_family(Target::kAvx512, Pipeline::kF32Fma);
  Problem p = problem_of(DType::kInt8, DType::kInt4);
  for (Packing packing : {Packing::kRaw, Packing::kPanelK1x32, Packing::kPanelK4x16}) {
    p.b_packing = packing;
    EXPECT_EQ(cpu_declines(make_spec(i8, DType::kInt4), p).has_value(), packing == Packing::kPanelK1x32);
    EXPECT_EQ(cpu_declines(make_spec(f32, DType::kInt4), p).has_value(), packing == Packing::kPanelK4x16);
  }
  p.b_packing = Packing::kPanelK1x32;
  EXPECT_EQ(to_string(*cpu_declines(make_spec(i8, DType::kInt4), p)),
            "packed layout of B: needed raw or k4x16; got k1x32");
  EXPECT_EQ(to_string(*cpu_declines(make_spec(i8, DType::kE2m1), p)), "type of B: needed e2m1; got int4");
}

}  // namespace
}  // namespace scalegemm::arch
