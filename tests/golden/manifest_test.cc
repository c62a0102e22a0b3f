#include "manifest.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "arch/cpu_family.h"

namespace scalegemm::build_builtin {
namespace {

TEST(Manifest, FieldsMultiplyAndNamesAreTaken) {
  const auto fields = read_manifest(
      "[[kernels]]\ntargets = ['x86-64-v3', 'avx512']\npipelines = ['f32fma', 'i8dot']\nb = ['int8', "
      "'e2m1']\n",
      "m.toml");
  ASSERT_TRUE(fields.ok()) << fields.status().message();
  EXPECT_EQ(fields->size(), 8U);
  const std::string name = spec::name(fields->front());
  const auto names = read_manifest(
      "[[kernels]]\nnames = ['" + name + "']\n[[kernels]]\nnames = ['" + name + "']\n", "m.toml");
  ASSERT_TRUE(names.ok()) << names.status().message();
  ASSERT_EQ(names->size(), 1U) << "each kernel once";
  EXPECT_EQ(names->front(), fields->front());
}

TEST(Manifest, AllIsWhatTheFamilyHas) {
  const auto specs =
      read_manifest("[[kernels]]\ntargets = ['avx512']\npipelines = ['i8dot']\nb = ['all']\n", "m.toml");
  ASSERT_TRUE(specs.ok());
  EXPECT_EQ(specs->size(), arch::find_family(spec::Target::kAvx512, spec::Pipeline::kI8Dot)->b_types.size());
}

TEST(Manifest, ProblemsTakeWhatDispatchWouldChoose) {
  const auto specs = read_manifest(
      "[[kernels]]\ntargets = ['sm_90a']\nschemes = ['rowcol']\nm = [16, 4096]\nd = ['bf16', 'f16']\n"
      "accuracy = ['fast']\nepilogue = ['plain', 'fused']\n",
      "m.toml");
  ASSERT_TRUE(specs.ok()) << specs.status().message();
  EXPECT_EQ(specs->size(), 8U);
  for (const spec::KernelSpec& spec : *specs) {
    EXPECT_NE(spec.pipeline, spec::Pipeline::kMma) << spec::name(spec);
  }
  const auto mma = read_manifest(
      "[[kernels]]\ntargets = ['sm_80']\npipelines = ['mma']\nschemes = ['all']\nm = [4096]\nd = ['f32']\n",
      "m.toml");
  ASSERT_TRUE(mma.ok()) << mma.status().message();
  EXPECT_GT(mma->size(), 5U);
}

TEST(Manifest, TunedKernelsAreThoseOfTheShippedTable) {
  const auto specs = read_manifest("[[kernels]]\ntuned = ['sm_90a']\n", "m.toml");
  ASSERT_TRUE(specs.ok()) << specs.status().message();
  EXPECT_GT(specs->size(), 30U);
}

TEST(Manifest, WhatIsWrongIsNamed) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"", "[[kernels]]"},
      {"kernels = 3", "[[kernels]]"},
      {"kernels = [3]", "[[kernels]]"},
      {"[[kernels]]\nnames = ['x']\n[other]\n", "nothing else"},
      {"[[kernels]]\n", "targets"},
      {"[[kernels]]\nnames = []\n", "not empty"},
      {"[[kernels]]\nnames = [1]\n", "strings"},
      {"[[kernels]]\nnames = ['no_kernel']\n", "m.toml:1"},
      {"[[kernels]]\ntarget = ['avx512']\n", "target"},
      {"[[kernels]]\ntargets = ['avx1024']\npipelines = ['i8dot']\nb = ['all']\n", "avx1024"},
      {"[[kernels]]\ntargets = ['avx512']\npipelines = ['x']\nb = ['all']\n", "pipeline"},
      {"[[kernels]]\ntargets = ['avx512']\npipelines = ['i8dot']\nb = ['f32']\n", "f32"},
      {"[[kernels]]\ntargets = ['sm_90a']\npipelines = ['i8dot']\nb = ['all']\n", "sm_90a"},
      {"[[kernels]]\nnames = ['x']\nb = ['all']\n", "together"},
      {"[[kernels]\n", "m.toml:1"},
      {"[[kernels]]\ntuned = ['gfx942']\n", "gfx942"},
      {"[[kernels]]\nschemes = ['rowcol']\nm = [1]\nd = ['bf16']\n", "targets"},
      {"[[kernels]]\ntargets = ['sm_90a']\nschemes = ['rowcol']\nm = [0]\nd = ['bf16']\n", "1 or more"},
      {"[[kernels]]\ntargets = ['sm_90a']\nschemes = ['rowcol']\nm = [1]\nd = ['b']\n", "bf16"},
      {"[[kernels]]\ntargets = ['sm_90a']\nschemes = ['rowcol']\nm = [1]\nd = ['bf16']\nb = ['all']\n",
       "b does"},
      {"[[kernels]]\ntargets = ['sm_90a']\nschemes = ['nothing']\nm = [1]\nd = ['bf16']\n", "scheme"},
  };
  for (const auto& c : cases) {
    const auto specs = read_manifest(c.text, "m.toml");
    EXPECT_EQ(specs.status().code(), Code::kInvalidArgument) << c.text;
    EXPECT_NE(specs.status().message().find(c.says), std::string::npos) << specs.status().message();
  }
}

}  // namespace
}  // namespace scalegemm::build_builtin
