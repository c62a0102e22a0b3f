// A real kernel from its spec to numbers: generate, compile, store, load, run; and without a compiler.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>

#include "arch/cpu_family.h"
#include "base/cpu_info.h"
#include "base/files.h"
#include "cpu/abi.h"
#include "gen/generate.h"
#include "store/cpu_code.h"
#include "store/store.h"
#include "toolchain/host_compiler.h"

namespace scalegemm {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Memory aligned(uint64_t bytes) {
  return Memory(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
}

SgOperand operand(const void* data, int64_t k, SgDType type) {
  SgOperand x{};
  x.data = data;
  x.stride_r = k;
  x.stride_k = 1;
  x.scale.block_r = x.scale.block_k = 1;
  x.zero.block_r = x.zero.block_k = 1;
  x.dtype = type;
  return x;
}

// D = A * B^T in small integers, which every order of summation gets exactly right.
void check_runs(const SgCpuKernel& kernel) {
  constexpr int64_t kM = 17;
  constexpr int64_t kN = 37;
  constexpr int64_t kK = 53;
  std::vector<float> a(kM * kK);
  std::vector<int8_t> b(kN * kK);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
  }
  for (size_t i = 0; i < b.size(); ++i) {
    b[i] = static_cast<int8_t>(static_cast<int>(i * 5 % 13) - 6);
  }
  std::vector<float> d(kM * kN, std::numeric_limits<float>::quiet_NaN());
  SgGemm g{};
  g.m = kM;
  g.n = kN;
  g.k = kK;
  g.batch = 1;
  g.a = operand(a.data(), kK, SG_F32);
  g.b = operand(b.data(), kK, SG_INT8);
  g.d = d.data();
  g.d_stride_m = kN;
  g.d_stride_n = 1;
  g.c_dtype = g.bias_dtype = g.d_dtype = SG_F32;
  g.alpha = 1.0f;
  g.clamp_min = -std::numeric_limits<float>::infinity();
  g.clamp_max = std::numeric_limits<float>::infinity();
  const Memory workspace = aligned(kernel.workspace_bytes(&g));
  const Memory scratch = aligned(kernel.scratch_bytes(&g));
  g.workspace = workspace.get();
  kernel.prepare(&g, 0, kernel.prepare_units(&g), scratch.get());
  kernel.compute(&g, 0, kernel.compute_units(&g), scratch.get());
  for (int64_t m = 0; m < kM; ++m) {
    for (int64_t n = 0; n < kN; ++n) {
      float expected = 0;
      for (int64_t k = 0; k < kK; ++k) {
        expected +=
            a[static_cast<size_t>(m * kK + k)] * static_cast<float>(b[static_cast<size_t>(n * kK + k)]);
      }
      ASSERT_EQ(d[static_cast<size_t>(m * kN + n)], expected) << m << ',' << n;
    }
  }
}

gen::KernelSource real_source() {
  const arch::CpuFamily* family = arch::find_family(spec::Target::kX86V3, spec::Pipeline::kF32Fma);
  return *gen::generate(arch::make_spec(*family, num::DType::kInt8));
}

// User time of finished children in seconds: what the compiler took, whatever else the machine does.
double children_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}

TEST(Jit, ARealKernelFromSpecToNumbers) {
  const base::CpuInfo cpu = base::detect_cpu();
  if (!cpu.has(base::CpuFeature::kAvx2) || !cpu.has(base::CpuFeature::kFma)) {
    std::cerr << "NOT TESTED: this processor has no AVX2\n";
    GTEST_SKIP() << "NOT TESTED: this processor has no AVX2";
  }
  const auto dir = base::TempDir::make("scalegemm-jit");
  ASSERT_TRUE(dir.ok());
  store::Store store(dir->path());
  const gen::KernelSource source = real_source();
  const auto compiler = toolchain::find_host_compiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status().message();
  const auto flags = (*compiler)->flags(spec::Target::kX86V3);
  ASSERT_TRUE(flags.ok()) << flags.status().message();
  const base::Hash128 id = gen::kernel_id(source.source_id, (*compiler)->identity(), flags->accepted);
  const auto build = [&]() -> Result<std::string> {
    SCALEGEMM_ASSIGN_OR_RETURN(auto code, (*compiler)->compile({.name = source.name,
                                                                .text = source.text,
                                                                .includes = source.includes,
                                                                .target = spec::Target::kX86V3}));
    return std::move(code.bytes);
  };

  const double before = children_seconds();
  const auto begin = std::chrono::steady_clock::now();
  const auto built = store.get_or_build(id, source.name, build);
  ASSERT_TRUE(built.ok()) << built.status().message();
  const auto loaded = store::CpuCode::load(*built->bytes, source.symbol, source.name);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const double used = children_seconds() - before;
  std::cout << source.name << ": " << used << " s of compiler, " << elapsed.count() << " s of waiting\n";
  EXPECT_GT(used, 0.0);
  EXPECT_LT(used, 5.0);
  check_runs(loaded->kernel());
  EXPECT_EQ(built->bytes->find(dir->path()), std::string::npos);
  EXPECT_EQ(built->bytes->find(SCALEGEMM_SOURCE_DIR), std::string::npos);

  // The second process finds it on disk.
  const auto again = store::Store(dir->path()).get_or_build(id, source.name, [] {
    ADD_FAILURE() << "compiled again";
    return Result<std::string>(make_error(Code::kInternal, "x"));
  });
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->origin, store::Origin::kDisk);
  check_runs(store::CpuCode::load(*again->bytes, source.symbol, source.name)->kernel());

  // Code that is not what it should be is refused, not run.
  const auto wrong_symbol = store::CpuCode::load(*again->bytes, "other_symbol", source.name);
  EXPECT_EQ(wrong_symbol.status().code(), Code::kCorruptData);
  const auto wrong_name = store::CpuCode::load(*again->bytes, source.symbol, "other_name");
  EXPECT_EQ(wrong_name.status().code(), Code::kCorruptData);
  for (const size_t cut : {size_t{0}, size_t{63}, size_t{200}, size_t{4000}, again->bytes->size() / 2}) {
    const auto cut_off = store::CpuCode::load(again->bytes->substr(0, cut), source.symbol, source.name);
    EXPECT_EQ(cut_off.status().code(), Code::kCorruptData) << cut;
  }
}

TEST(Jit, AnUnwritableTemporaryFolderIsAnError) {
  const auto compiler = toolchain::find_host_compiler();
  ASSERT_TRUE(compiler.ok());
  ::setenv("TMPDIR", "/nonexistent", 1);
  const auto code =
      (*compiler)->compile({.name = "k", .text = "int x;\n", .includes = {}, .target = spec::Target::kX86V3});
  ::unsetenv("TMPDIR");
  EXPECT_EQ(code.status().code(), Code::kIoError);
  EXPECT_NE(code.status().message().find("/nonexistent"), std::string::npos) << code.status().message();
}

TEST(Jit, ACompilerThatDisappearsIsAnErrorAndTheNextBuildWorks) {
  const auto dir = base::TempDir::make("scalegemm-jit");
  ASSERT_TRUE(dir.ok());
  store::Store store(dir->path());
  const auto build = [](std::string program) -> Result<std::string> {
    SCALEGEMM_ASSIGN_OR_RETURN(const auto compiler,
                               toolchain::find_host_compiler({.program = std::move(program)}));
    SCALEGEMM_ASSIGN_OR_RETURN(
        auto code,
        compiler->compile({.name = "k", .text = "int x;\n", .includes = {}, .target = spec::Target::kX86V3}));
    return std::move(code.bytes);
  };
  const auto missing = store.get_or_build({1, 1}, "k", [&] { return build("/nonexistent/c++"); });
  EXPECT_EQ(missing.status().code(), Code::kNotBuilt);
  EXPECT_NE(missing.status().message().find("install g++"), std::string::npos);
  EXPECT_TRUE(store.get_or_build({1, 1}, "k", [&] { return build("g++"); }).ok());
}

}  // namespace
}  // namespace scalegemm
