// Every kind of CUDA kernel compiles here, without a GPU: no spill, no serialised wgmma, ignored setmaxnreg
// (the compiler check refuses those), and what the code says of itself is within the limits of the target.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>

#include "arch/legal.h"
#include "gen/cuda_units.h"
#include "spec/scheme.h"
#include "toolchain/nvrtc.h"

namespace scalegemm {
namespace {

using spec::KernelSpec;

struct Kind {
  const char* scheme;
  num::DType d;
  spec::Accuracy accuracy;
  int64_t m;
  bool fused;
};

constexpr Kind kKinds[] = {
    {"rowcol", num::DType::kBf16, spec::Accuracy::kFast, 4096, false},
    {"rowcol", num::DType::kBf16, spec::Accuracy::kPromoted, 4096, false},
    {"rowcol", num::DType::kE4m3, spec::Accuracy::kFast, 4096, true},
    {"rowcol", num::DType::kBf16, spec::Accuracy::kFast, 16, false},
    {"tensor", num::DType::kF32, spec::Accuracy::kFast, 4096, false},
    {"abquant:bn=128", num::DType::kBf16, spec::Accuracy::kPromoted, 4096, false},
    {"abquant:bn=128", num::DType::kBf16, spec::Accuracy::kPromoted, 16, false},
    {"mxfp8", num::DType::kBf16, spec::Accuracy::kPromoted, 4096, false},
    {"none", num::DType::kBf16, spec::Accuracy::kPromoted, 4096, false},
    {"int8", num::DType::kBf16, spec::Accuracy::kPromoted, 4096, false},
    {"none:a=int8", num::DType::kInt32, spec::Accuracy::kPromoted, 4096, false},
    {"mxfp4", num::DType::kF32, spec::Accuracy::kPromoted, 4096, false},
    {"bquant:a=bf16,b=int4,g=32", num::DType::kBf16, spec::Accuracy::kPromoted, 16, false},
    {"none:a=f32", num::DType::kF32, spec::Accuracy::kPromoted, 512, false},
};

std::vector<KernelSpec> legal_kernels(const Kind& kind) {
  spec::Problem p;
  p.m = kind.m;
  p.n = p.k = 4096;
  p.d = kind.d;
  p.accuracy = kind.accuracy;
  p.epilogue.activation = kind.fused ? spec::Activation::kGeluErf : spec::Activation::kNone;
  EXPECT_TRUE(apply(*spec::parse_scheme(kind.scheme), "rcr", p).ok());
  std::vector<KernelSpec> legal;
  for (const KernelSpec& s : arch::gpu_candidates(spec::Target::kSm90a, p)) {
    if (!arch::illegal(s) && !arch::gpu_declines(s, p)) {
      legal.push_back(s);
    }
  }
  return legal;
}

// One kernel of each pipeline that takes the problem: the first of the table.
std::vector<KernelSpec> kernels_of(const Kind& kind) {
  std::vector<KernelSpec> chosen;
  std::set<std::pair<spec::Pipeline, bool>> seen;
  for (const KernelSpec& s : legal_kernels(kind)) {
    if (seen.insert({s.pipeline, s.persistent}).second) {
      chosen.push_back(s);
    }
  }
  return chosen;
}

// Registers of a unit; the compiler refuses spills.
int registers_of(const toolchain::Compiler& compiler, const gen::KernelSource& unit, spec::Target target) {
  const auto code =
      compiler.compile({.name = unit.name, .text = unit.text, .includes = unit.includes, .target = target});
  EXPECT_TRUE(code.ok()) << code.status().message();
  return code.ok() ? code->registers : 0;
}

TEST(CudaKernels, QuantisersCompile) {
  const auto compiler = toolchain::find_nvrtc();
  if (!compiler.ok()) {
    std::cerr << "NOT TESTED: " << compiler.status().message() << '\n';
    GTEST_SKIP() << "NOT TESTED: " << compiler.status().message();
  }
  using num::DType;
  constexpr gen::QuantizerConfig kConfigs[] = {{DType::kBf16, DType::kE4m3, DType::kF32, 0},
                                               {DType::kBf16, DType::kE4m3, DType::kF32, 128},
                                               {DType::kF16, DType::kInt8, DType::kF32, 0},
                                               {DType::kF32, DType::kE5m2, DType::kE8m0, 32},
                                               {DType::kBf16, DType::kE2m1, DType::kE8m0, 32}};
  for (const spec::Target target : {spec::Target::kSm80, spec::Target::kSm89, spec::Target::kSm90a}) {
    for (const gen::QuantizerConfig& config : kConfigs) {
      const auto unit = gen::quantizer_unit(config, target);
      ASSERT_TRUE(unit.ok()) << unit.status().message();
      // 64 leave 1,024 threads a multiprocessor, whose loads in flight hide the memory's latency.
      EXPECT_LE(registers_of(**compiler, *unit, target), 64)
          << unit->name << ' ' << spec::target_name(target);
    }
  }
}

TEST(CudaKernels, EveryKindCompiles) {
  const auto compiler = toolchain::find_nvrtc();
  if (!compiler.ok()) {
    std::cerr << "NOT TESTED: " << compiler.status().message() << '\n';
    GTEST_SKIP() << "NOT TESTED: " << compiler.status().message();
  }
  int compiled = 0;
  for (const Kind& kind : kKinds) {
    for (const KernelSpec& s : kernels_of(kind)) {
      const auto source = gen::generate(s);
      ASSERT_TRUE(source.ok()) << source.status().message();
      EXPECT_EQ(source->instruction, s.pipeline == spec::Pipeline::kMma ? "" : "wgmma.mma_async");
      const auto code = (*compiler)->compile({.name = source->name,
                                              .text = source->text,
                                              .includes = source->includes,
                                              .target = s.target,
                                              .instruction = source->instruction});
      ASSERT_TRUE(code.ok()) << code.status().message();
      EXPECT_GT(code->registers, 16) << source->name;
      EXPECT_LE(code->registers, 255) << source->name;
      EXPECT_NE(code->bytes.find(source->symbol + "_info"), std::string::npos) << source->name;
      ++compiled;
    }
  }
  EXPECT_GE(compiled, 20);
}

TEST(CudaKernels, SupportUnitsCompileForEveryTarget) {
  const auto compiler = toolchain::find_nvrtc();
  if (!compiler.ok()) {
    std::cerr << "NOT TESTED: " << compiler.status().message() << '\n';
    GTEST_SKIP() << "NOT TESTED: " << compiler.status().message();
  }
  for (const spec::Target target : {spec::Target::kSm80, spec::Target::kSm89, spec::Target::kSm90a}) {
    const auto units = gen::support_units(target);
    ASSERT_TRUE(units.ok()) << units.status().message();
    for (const gen::KernelSource& unit : *units) {
      const auto code = (*compiler)->compile(
          {.name = unit.name, .text = unit.text, .includes = unit.includes, .target = target});
      EXPECT_TRUE(code.ok()) << code.status().message();
    }
  }
}

// Of what dispatch may choose every 97th kernel, compiles. SCALEGEMM_COMPILE_EVERY=1
// takes all of them: half an hour, after a change to the kernels or to the rules.
TEST(CudaKernels, LegalKernelsCompile) {
  const auto compiler = toolchain::find_nvrtc();
  if (!compiler.ok()) {
    std::cerr << "NOT TESTED: " << compiler.status().message() << '\n';
    GTEST_SKIP() << "NOT TESTED: " << compiler.status().message();
  }
  std::vector<KernelSpec> all;
  using num::DType;
  for (const char* scheme : {"tensor", "rowcol", "abquant", "abquant:bn=128", "abquant:g=32", "mxfp8", "none",
                             "none:a=int8", "int8"}) {
    for (const DType d : {DType::kBf16, DType::kF32, DType::kE4m3, DType::kInt32}) {
      const bool raw = std::string_view(scheme) == "none:a=int8";
      if ((d == DType::kInt32) != raw) {
        continue;
      }
      for (const auto accuracy : {spec::Accuracy::kPromoted, spec::Accuracy::kFast}) {
        for (const int64_t m : {16, 4096}) {
          for (const bool fused : {false, true}) {
            for (const KernelSpec& s : legal_kernels({scheme, d, accuracy, m, fused})) {
              if (s.pipeline != spec::Pipeline::kMma && std::find(all.begin(), all.end(), s) == all.end()) {
                all.push_back(s);
              }
            }
          }
        }
      }
    }
  }
  const char* every = std::getenv("SCALEGEMM_COMPILE_EVERY");
  const size_t step = every != nullptr ? std::stoul(every) : 97;
  EXPECT_GT(all.size(), 3000u);
  for (size_t i = 0; i < all.size(); i += step) {
    const auto source = gen::generate(all[i]);
    ASSERT_TRUE(source.ok()) << source.status().message();
    const auto code = (*compiler)->compile(
        {.name = source->name, .text = source->text, .includes = source->includes, .target = all[i].target});
    EXPECT_TRUE(code.ok()) << source->name << ": " << code.status().message().substr(0, 100);
  }
}

// The probes of ceilings: every entry point that a target has, and no other.
TEST(CudaKernels, ProbesCompile) {
  const auto compiler = toolchain::find_nvrtc();
  if (!compiler.ok()) {
    GTEST_SKIP() << "NOT TESTED: " << compiler.status().message();
  }
  for (const spec::Target target : {spec::Target::kSm80, spec::Target::kSm90a}) {
    const auto source = gen::probe_unit(target);
    ASSERT_TRUE(source.ok()) << source.status().message();
    const auto code = (*compiler)->compile(
        {.name = source->name, .text = source->text, .includes = source->includes, .target = target});
    ASSERT_TRUE(code.ok()) << code.status().message();
    if (target == spec::Target::kSm90a) {
      EXPECT_GE(code->registers, 128) << "the sums of N = 256";
    }
    for (const char* entry : {"_empty", "_read"}) {
      EXPECT_NE(code->bytes.find(source->symbol + entry), std::string::npos) << entry;
    }
    for (const char* entry : {"_e4m3_n64", "_e4m3_n256", "_e4m3_promoted_n128", "_bf16_n256", "_int8_n256"}) {
      EXPECT_EQ(code->bytes.find(source->symbol + entry) != std::string::npos, target == spec::Target::kSm90a)
          << entry;
    }
  }
}

}  // namespace
}  // namespace scalegemm
