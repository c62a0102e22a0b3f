// Runtime: devices, kernels, threads, cache; makes plans. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/packed.h"
#include "runtime/plan.h"
#include "runtime/quantizer.h"
#include "spec/device_desc.h"
#include "spec/problem.h"

namespace scalegemm::runtime {

struct RuntimeOptions {
  int threads = 0;  // 0: one a core
  bool jit = true;
  std::string cache_dir = {};    // empty: the default places
  std::string tuned_table = {};  // path, or empty
  bool strict = false;
  std::string cpu_target = {};  // cap; empty: $SCALEGEMM_CPU_TARGET, else none
};

struct DeviceInfo {
  std::string name = {};
  std::string model = {};
  std::string target = {};
  std::string features = {};
  int cores = 0;
  uint64_t l1_bytes = 0;
  uint64_t l2_bytes = 0;
  uint64_t l3_bytes = 0;
  uint64_t memory_bytes = 0;
};

struct Support {
  bool supported = false;
  bool needs_compiler = false;
  uint64_t workspace_bytes = 0;
  std::string kernel = {};
  std::string reason = {};
};

struct KernelInfo {
  std::string name = {};
  std::string target = {};
  std::string id = {};  // empty where it is not known without a compiler
  bool built_in = false;
  bool cached = false;
};

struct CacheInfo {
  std::string path = {};
  int64_t entries = 0;
  uint64_t bytes = 0;
  bool writable = false;
};

struct ToolchainInfo {
  std::string name = {};
  std::string version = {};  // what the compiler says of itself
  std::string problem = {};  // why it cannot be used and what to do; empty when it can
};

enum class TextFormat { kText, kJson };
enum class BuildMode { kIfMissing, kAlways };

class Runtime {
 public:
  static Result<std::unique_ptr<Runtime>> create(const RuntimeOptions& options);
  ~Runtime();

  const std::vector<DeviceInfo>& devices() const;

  // Supported or why not; compiles nothing.
  Result<Support> query(const spec::Problem& problem, const PlanOptions& options);
  Result<std::unique_ptr<Plan>> plan(const spec::Problem& problem, const PlanOptions& options);
  Result<std::string> explain(const spec::Problem& problem, const PlanOptions& options, TextFormat format);
  Result<std::unique_ptr<PackedMatrix>> pack(const spec::Problem& problem, const PlanOptions& options,
                                             const WeightTensors& weights);

  // Of the options, the device counts.
  Result<std::unique_ptr<Quantizer>> quantizer(const QuantizerDesc& desc, const PlanOptions& options);

  // The CPU kernels of this machine's targets and the built-in CUDA kernels whose names contain `filter`.
  Result<std::vector<KernelInfo>> kernels(std::string_view filter);
  Status build_kernel(std::string_view name, BuildMode mode);
  Result<std::string> kernel_source(std::string_view name) const;

  // The rows of scalegemm_ceiling.
  Result<std::vector<spec::Ceiling>> measure_ceilings(std::string_view device, int threads);
  CacheInfo cache() const;
  Status clear_cache();
  std::vector<ToolchainInfo> toolchains();
  // As scalegemm_runtime_warnings says.
  std::vector<std::string> warnings() const;

 private:
  struct Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalegemm::runtime
