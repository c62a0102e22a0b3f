// The built-in kernels as the library links them.
#include "store/builtin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "arch/cpu_family.h"
#include "base/files.h"
#include "base/subprocess.h"
#include "cpu/abi.h"
#include "gen/cuda_units.h"
#include "manifest.h"

namespace scalegemm::store {
namespace {

TEST(Builtin, EveryKernelOfEveryCpuTargetIsLinkedAndFoundByItsSource) {
  const auto kernels = builtin_kernels();
  size_t count = 0;
  for (const spec::TargetName& row : spec::kTargets) {
    for (const spec::KernelSpec& spec : arch::cpu_specs(row.target)) {
      const auto source = gen::generate(spec);
      ASSERT_TRUE(source.ok());
      const BuiltinKernel* kernel = find_builtin(kernels, source->source_id);
      ASSERT_NE(kernel, nullptr) << source->name;
      EXPECT_EQ(kernel->name, source->name);
      const SgCpuKernel* table = kernel->table();
      ASSERT_NE(table, nullptr);
      EXPECT_EQ(table->abi_version, static_cast<uint32_t>(SG_CPU_ABI_VERSION));
      EXPECT_EQ(table->name, source->name);
      EXPECT_NE(table->compute, nullptr);
      ++count;
    }
  }
  std::set<base::Hash128> ids;
  size_t cpu = 0;
  for (const BuiltinKernel& kernel : kernels) {
    ids.insert(kernel.id);
    cpu += kernel.table != nullptr ? 1 : 0;
  }
  EXPECT_EQ(cpu, count) << "nothing is built in that no target asks for";
  EXPECT_EQ(ids.size(), kernels.size());
}

// A build without NVRTC has none; then there is nothing to look at.
TEST(Builtin, CudaKernelsAreCubinsOfTheSourceInThisTree) {
  const auto units = gen::support_units(spec::Target::kSm90a);
  ASSERT_TRUE(units.ok()) << units.status().message();
  size_t linked = 0;
  for (const gen::KernelSource& unit : *units) {
    const BuiltinKernel* kernel = find_builtin(builtin_kernels(), unit.source_id);
    linked += kernel != nullptr && kernel->cubin().find(unit.symbol) != std::string_view::npos ? 1 : 0;
  }
  size_t support = 0;
  for (const BuiltinKernel& kernel : builtin_kernels()) {
    if (kernel.table != nullptr) {
      continue;
    }
    const auto spec = spec::parse(kernel.name);
    if (!spec.ok()) {
      ++support;
      continue;
    }
    const auto source = gen::generate(*spec);
    ASSERT_TRUE(source.ok()) << source.status().message();
    EXPECT_EQ(source->source_id, kernel.source_id) << kernel.name;
    EXPECT_TRUE(
        kernel.cubin().starts_with("\x7f"
                                   "ELF"))
        << kernel.name;
    EXPECT_NE(kernel.cubin().find(source->symbol + "_info"), std::string_view::npos) << kernel.name;
  }
  EXPECT_EQ(support, linked) << "what is no GEMM is a support unit";
}

// Code of an ISA level that the linker could merge with code of another, or with the library's own baseline
// code, would crash on an older processor. So every weak symbol carries its ISA in its name.
TEST(Builtin, NoWeakSymbolIsSharedBetweenIsaLevels) {
  const auto done = base::run({.argv = {SCALEGEMM_NM, "-C", "--defined-only",
                                        std::string(SCALEGEMM_BUILD_DIR) + "/builtin/kernels.a"},
                               .max_output = size_t{64} << 20});
  ASSERT_TRUE(done.ok() && done->succeeded()) << done.status().message();
  std::istringstream lines(done->output);
  int weak = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t kind = line.find_first_of(' ');
    if (kind == std::string::npos || kind + 2 >= line.size() ||
        std::string("WVu").find(line[kind + 1]) == std::string::npos) {
      continue;
    }
    const std::string name = line.substr(kind + 3);
    // Sanitizers add data of their own.
    if (name.find("asan") != std::string::npos || name.find("tsan") != std::string::npos ||
        name.find("DW.ref") != std::string::npos) {
      continue;
    }
    ++weak;
    const auto in = [&](const char* isa) { return name.find(isa) != std::string::npos; };
    EXPECT_TRUE(in("scalegemm_kernel::avx2::") || in("scalegemm_kernel::avx512::") ||
                in("scalegemm_kernel::avx512bf16::"))
        << name;
  }
  EXPECT_GT(weak, 0);
}

size_t listed(const char* manifest) {
  const auto text =
      base::read_file(std::string(SCALEGEMM_SOURCE_DIR) + "/manifests/" + manifest, uint64_t{1} << 20);
  EXPECT_TRUE(text.ok());
  const auto specs = build_builtin::read_manifest(*text, manifest);
  EXPECT_TRUE(specs.ok()) << specs.status().message();
  return specs.ok() ? specs->size() : 0;
}

TEST(Builtin, TheManifestsAreWhatIsLinked) {
  size_t cpu = 0;
  size_t cuda = 0;
  for (const BuiltinKernel& kernel : builtin_kernels()) {
    (kernel.table != nullptr ? cpu : cuda) += 1;
  }
  EXPECT_EQ(cpu, listed("builtin.toml"));
  const size_t wanted = listed("builtin_cuda.toml") + gen::support_units(spec::Target::kSm90a)->size();
  EXPECT_GT(wanted, 100U);
  EXPECT_TRUE(cuda == wanted || cuda == 0) << cuda << " of " << wanted;
}

}  // namespace
}  // namespace scalegemm::store
