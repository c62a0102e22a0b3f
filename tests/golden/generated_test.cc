// The generated source of three kernels. After a change that is meant: run golden_test with
// SCALEGEMM_UPDATE_GOLDEN=1 and read the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "arch/cpu_family.h"
#include "gen/generate.h"

namespace scalegemm {
namespace {

struct Case {
  const char* file;
  spec::Target target;
  spec::Pipeline pipeline;
  num::DType b;
};

// The name on the first line, what it exports, the unit, and what that includes.
std::string describe(const gen::KernelSource& source) {
  std::string text =
      "name: " + source.name + "\nsymbol: " + source.symbol + "\n\n" + source.text + "\nincludes:\n";
  for (const base::SourceFile& file : source.includes) {
    text += "  " + std::string(file.path) + "\n";
  }
  return text;
}

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, GeneratedSource) {
  const Case& c = GetParam();
  const arch::CpuFamily* family = arch::find_family(c.target, c.pipeline);
  ASSERT_NE(family, nullptr);
  const auto source = gen::generate(arch::make_spec(*family, c.b));
  ASSERT_TRUE(source.ok()) << source.status().message();
  const std::string path = std::string(SCALEGEMM_SOURCE_DIR) + "/tests/golden/" + c.file;
  if (std::getenv("SCALEGEMM_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << describe(*source);
    GTEST_SKIP() << path << " written";
  }
  std::ifstream in(path);
  ASSERT_TRUE(in) << path;
  std::ostringstream expected;
  expected << in.rdbuf();
  EXPECT_EQ(describe(*source), expected.str());
}

INSTANTIATE_TEST_SUITE_P(Kernels, Golden,
                         testing::Values(Case{"f32fma_e2m1_avx512.txt", spec::Target::kAvx512,
                                              spec::Pipeline::kF32Fma, num::DType::kE2m1},
                                         Case{"f32fma_e4m3_fnuz_x86v3.txt", spec::Target::kX86V3,
                                              spec::Pipeline::kF32Fma, num::DType::kE4m3Fnuz},
                                         Case{"i8dot_int4_avx512.txt", spec::Target::kAvx512,
                                              spec::Pipeline::kI8Dot, num::DType::kInt4}));

}  // namespace
}  // namespace scalegemm
