// scalegemm tune with a kernel that faults: the fault takes the CUDA context with it, and the tuning goes on.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "arch/legal.h"
#include "base/files.h"
#include "gen/generate.h"
#include "gpu/require_gpu.h"
#include "spec/problem.h"
#include "spec/scheme.h"
#include "store/builtin.h"
#include "store/store.h"
#include "toolchain/nvrtc.h"

namespace scalegemm::harness {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The unit of a TMA kernel whose threads write to an address that nobody has.
std::string sabotaged(const gen::KernelSource& source) {
  std::string text = source.text;
  text.insert(text.find('\n') + 1, R"(
#undef SCALEGEMM_KERNEL_SM90
#define SCALEGEMM_KERNEL_SM90(symbol, config)                                                  \
  extern "C" {                                                                                 \
  __constant__ SgCudaInfo symbol##_info = scalegemm::cuda::tma_info<config>(                   \
      SG_CUDA_TMA, config.threads(), scalegemm::cuda::Epilogue<config>::kEnd);                 \
  }                                                                                            \
  extern "C" __global__ void symbol(const __grid_constant__ scalegemm::cuda::TensorMap map_a,  \
                                    const __grid_constant__ scalegemm::cuda::TensorMap map_b,  \
                                    const __grid_constant__ scalegemm::cuda::TensorMap map_d,  \
                                    const __grid_constant__ SgTmaGemm params) {                \
    *reinterpret_cast<volatile int*>(16) = 1;                                                  \
  }
)");
  return text;
}

TEST(Tune, GoesOnWithoutAKernelThatFaults) {
  REQUIRE_GPU();
  spec::Problem problem;
  problem.m = 512, problem.n = 1024, problem.k = 512;
  problem.d = spec::DType::kBf16;
  problem.accuracy = spec::Accuracy::kFast;
  ASSERT_TRUE(apply(*spec::parse_scheme("rowcol"), "rcr", problem).ok());
  const auto compiler = toolchain::find_nvrtc();
  if (!compiler.ok()) {
    GTEST_SKIP() << "NOT TESTED: " << compiler.status().message();
  }
  const auto flags = (*compiler)->flags(spec::Target::kSm90a);
  ASSERT_TRUE(flags.ok()) << flags.status().message();
  auto dir = base::TempDir::make("tune_test");
  ASSERT_TRUE(dir.ok());
  const std::string cache = dir->path() + "/cache", table = dir->path() + "/tuned.csv";

  std::string faulty;
  for (const spec::KernelSpec& s : arch::gpu_candidates(spec::Target::kSm90a, problem)) {
    if (!faulty.empty() || s.pipeline != spec::Pipeline::kTmaPingPong || arch::illegal(s) ||
        arch::gpu_declines(s, problem)) {
      continue;
    }
    const auto source = gen::generate(s);
    ASSERT_TRUE(source.ok()) << source.status().message();
    if (store::find_builtin(store::builtin_kernels(), source->source_id) != nullptr) {
      continue;
    }
    faulty = source->name;
    const std::string text = sabotaged(*source);
    const auto code = (*compiler)->compile(
        {.name = faulty, .text = text, .includes = source->includes, .target = spec::Target::kSm90a});
    ASSERT_TRUE(code.ok()) << code.status().message();
    const auto planted = store::Store(cache).get_or_build(
        gen::kernel_id(source->source_id, (*compiler)->identity(), flags->accepted), faulty,
        [&]() -> Result<std::string> { return code->bytes; });
    ASSERT_TRUE(planted.ok()) << planted.status().message();
  }
  ASSERT_FALSE(faulty.empty());

  std::ofstream(dir->path() + "/suite.csv") << "name,m,n,k\nx,512,1024,512\n";
  const std::string tool = fs::canonical("/proc/self/exe").parent_path().string() + "/scalegemm";
  const std::string command = fmt::format(
      "{} tune --device cuda:0 --scheme rowcol --accuracy fast --suite {}/suite.csv --table {} --cache-dir "
      "{} > {}/log 2>&1",
      tool, dir->path(), table, cache, dir->path());
  const int status = std::system(command.c_str());
  const std::string log = text_of(dir->path() + "/log"), rows = text_of(table);
  EXPECT_EQ(status, 0) << log;
  EXPECT_NE(log.find("left out: " + faulty + ": "), std::string::npos) << log;
  EXPECT_NE(rows.find(",512,1024,512,gemm_rowcolquant"), std::string::npos) << rows;
  EXPECT_EQ(rows.find(faulty), std::string::npos) << rows;
}

}  // namespace
}  // namespace scalegemm::harness
