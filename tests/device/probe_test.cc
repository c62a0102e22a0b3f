#include "device/cpu/probe.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/cpu_info.h"

namespace scalegemm::device {
namespace {

using spec::Target;

TEST(Probe, RatesArePlausibleAndStable) {
  for (Target target : {Target::kX86V3, Target::kAvx512, Target::kAvx512Bf16}) {
    const Result<CpuProbe> first = probe(target);
    if (!first.ok()) {
      EXPECT_EQ(first.status().code(), Code::kUnsupported);
      continue;
    }
    std::printf(
        "%s: registers f32 %.0f bf16 %.0f i8 %.0f, loaded f32 %.0f bf16 %.0f i8 %.0f, read %.1f GB/s\n",
        std::string(spec::target_name(target)).c_str(), first->ceiling.f32_fma_gflops,
        first->ceiling.bf16dp_gflops, first->ceiling.i8dot_gops, first->loaded.f32_fma_gflops,
        first->loaded.bf16dp_gflops, first->loaded.i8dot_gops, first->loaded.read_gbps);
    for (const spec::CpuRates& r : {first->ceiling, first->loaded}) {
      // From a slow emulated core to far beyond any core: catches wrong operation counts and dead loops.
      EXPECT_TRUE(r.f32_fma_gflops > 1 && r.f32_fma_gflops < 2000) << r.f32_fma_gflops;
      EXPECT_TRUE(r.i8dot_gops > 1 && r.i8dot_gops < 8000) << r.i8dot_gops;
      EXPECT_TRUE(r.read_gbps > 0.1 && r.read_gbps < 1000) << r.read_gbps;
      EXPECT_EQ(r.bf16dp_gflops > 0, target >= Target::kAvx512Bf16);
    }
    EXPECT_GT(first->ceiling.i8dot_gops, first->ceiling.f32_fma_gflops);
    const Result<CpuProbe> second = probe(target);
    EXPECT_EQ(second->loaded, first->loaded) << "measured once";
    EXPECT_EQ(second->ceiling, first->ceiling);
  }
}

TEST(Probe, OnlyCpusAreProbed) {
  EXPECT_EQ(probe(Target::kSm90a).status().code(), Code::kUnsupported);
  EXPECT_EQ(probe(Target::kGfx942).status().message(), "probe, target: needed a CPU target; given gfx942");
}

TEST(Probe, ReadRateOfASize) {
  const Result<double> small = measure_read_gbps(16 << 10);
  const Result<double> large = measure_read_gbps(64 << 20);
  ASSERT_TRUE(small.ok() && large.ok());
  std::printf("16 KB %.1f GB/s, 64 MB %.1f GB/s\n", *small, *large);
  EXPECT_GT(*small, 0.1);
  EXPECT_GT(*large, 0.1);
  EXPECT_EQ(measure_read_gbps(0).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(measure_read_gbps(64).ok());
}

}  // namespace
}  // namespace scalegemm::device
