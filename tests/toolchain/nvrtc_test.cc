#include "toolchain/nvrtc.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "toolchain/scoped_env.h"

namespace scalegemm::toolchain {
namespace {

class NvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!compiler_.ok()) {
      std::cerr << "NOT TESTED: " << compiler_.status().message() << '\n';
      GTEST_SKIP() << "NOT TESTED: " << compiler_.status().message();
    }
  }

  Result<std::unique_ptr<Compiler>> compiler_ = find_nvrtc();
};

CompileJob job(std::string_view text) {
  return {.name = "scale_kernel",
          .text = text,
          .includes = {{"common/factor.h", "constexpr float kFactor = 3.0f;\n"}},
          .target = spec::Target::kSm90a};
}

TEST_F(NvrtcTest, CompilesATrivialKernelToACubin) {
  const auto code = (*compiler_)
                        ->compile(job("#include \"common/factor.h\"\n"
                                      "extern \"C\" __global__ void scale_kernel(float* x) {\n"
                                      "  x[threadIdx.x] *= kFactor;\n}\n"));
  ASSERT_TRUE(code.ok()) << code.status().message();
  EXPECT_EQ(code->kind, CodeKind::kCubin);
  ASSERT_GT(code->bytes.size(), 64U);
  EXPECT_EQ(code->bytes.substr(0, 4), "\177ELF");
  EXPECT_EQ(code->bytes[18], '\xbe') << "e_machine of a CUDA ELF file (190)";
  EXPECT_NE(code->bytes.find(".text.scale_kernel"), std::string::npos);
}

TEST_F(NvrtcTest, AcceptsInstructionsOfSm90aOnly) {
  const auto code = (*compiler_)
                        ->compile(job("extern \"C\" __global__ void scale_kernel() {\n"
                                      "  asm volatile(\"wgmma.fence.sync.aligned;\");\n}\n"));
  EXPECT_TRUE(code.ok()) << code.status().message();
}

TEST_F(NvrtcTest, CodeWithoutTheInstructionItIsForIsRefused) {
  CompileJob fence =
      job("extern \"C\" __global__ void scale_kernel() {\n"
          "  asm volatile(\"wgmma.fence.sync.aligned;\");\n}\n");
  fence.instruction = "wgmma.fence";
  EXPECT_TRUE((*compiler_)->compile(fence).ok());
  fence.instruction = "wgmma.mma_async";
  const auto code = (*compiler_)->compile(fence);
  EXPECT_EQ(code.status().code(), Code::kCompileFailed);
  EXPECT_NE(code.status().message().find("without wgmma.mma_async"), std::string::npos)
      << code.status().message();
}

TEST_F(NvrtcTest, ErrorsCarryTheLog) {
  const auto code = (*compiler_)->compile(job("__global__ void f() { undeclared_thing(); }\n"));
  EXPECT_EQ(code.status().code(), Code::kCompileFailed);
  for (const char* part : {"scale_kernel", "undeclared_thing", "kernel.cu"}) {
    EXPECT_NE(code.status().message().find(part), std::string::npos) << code.status().message();
  }
  EXPECT_EQ((*compiler_)->compile(job("#include \"missing.h\"\n")).status().code(), Code::kCompileFailed);
}

TEST_F(NvrtcTest, DescribesItselfAndItsFlags) {
  EXPECT_TRUE((*compiler_)->identity().starts_with("nvrtc 1")) << (*compiler_)->identity();
  const auto flags = (*compiler_)->flags(spec::Target::kSm90a);
  ASSERT_TRUE(flags.ok()) << flags.status().message();
  EXPECT_EQ(flags->accepted.at(0), "--gpu-architecture=sm_90a");
  const auto refused = (*compiler_)->flags(spec::Target::kAvx512);
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  EXPECT_NE(refused.status().message().find("avx512"), std::string::npos);
}

TEST_F(NvrtcTest, AnUnknownOptionIsAnErrorNotACrash) {
  CompileJob odd = job("__global__ void f() {}\n");
  odd.extra_flags = {"--no-such-option"};
  const auto code = (*compiler_)->compile(odd);
  EXPECT_EQ(code.status().code(), Code::kCompileFailed) << code.status().message();
}

// On a machine without a toolkit nothing but this finds the second library of the Python wheel.
TEST(Nvrtc, OpensTheBuiltinsBesideIt) {
  namespace fs = std::filesystem;
  const auto found = find_nvrtc();
  if (!found.ok()) {
    GTEST_SKIP() << "NOT TESTED: " << found.status().message();
  }
  // The loader's own name, or a path: where it is mapped from says which.
  const auto mapped = [](const std::string& name) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (const size_t at = line.find('/'); at != std::string::npos && line.find(name) != std::string::npos) {
        return fs::path(line.substr(at));
      }
    }
    return fs::path();
  };
  const fs::path library = mapped("/libnvrtc.so.");
  ASSERT_FALSE(library.empty());
  const ScopedEnv chosen("SCALEGEMM_NVRTC", library.c_str());
  ASSERT_TRUE(find_nvrtc().ok());
  EXPECT_EQ(mapped("/libnvrtc-builtins.so.").parent_path(), library.parent_path());
}

TEST(Nvrtc, AMissingLibrarySaysSo) {
  ::setenv("SCALEGEMM_NVRTC", "/nonexistent/libnvrtc.so.13", 1);
  const auto compiler = find_nvrtc();
  ::unsetenv("SCALEGEMM_NVRTC");
  EXPECT_EQ(compiler.status().code(), Code::kNotBuilt);
  EXPECT_NE(compiler.status().message().find("/nonexistent/libnvrtc.so.13"), std::string::npos);
}

}  // namespace
}  // namespace scalegemm::toolchain
