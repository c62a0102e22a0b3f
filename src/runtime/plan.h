// A plan: one problem, one kernel, ready to run. Immutable and thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "base/thread_pool.h"
#include "cpu/abi.h"
#include "runtime/packed.h"
#include "runtime/tensor.h"
#include "spec/kernel_spec.h"
#include "spec/problem.h"

namespace scalegemm::runtime {

struct PlanOptions {
  std::string device = "cpu";  // a device, or for explain a target name
  std::string kernel = {};     // a kernel name; empty: choose
  int threads = 0;             // at most; 0: the runtime's
};

struct RunArgs {
  Tensor a, scale_a, zero_a;
  const float* global_a = nullptr;
  WeightTensors weights;                   // absent when packed_b is set
  const PackedMatrix* packed_b = nullptr;  // where the problem's B is packed
  Tensor c, bias, d;
  float alpha = 1.0f;
  float beta = 0.0f;
  void* workspace = nullptr;
  uint64_t workspace_bytes = 0;
};

// Code of a loaded CPU kernel and whatever keeps it mapped.
struct CpuCode {
  const SgCpuKernel* kernel = nullptr;
  std::shared_ptr<const void> owner;  // null for built-in kernels
};

class Plan {
 public:
  Plan(spec::Problem problem, spec::KernelSpec kernel, CpuCode code, std::shared_ptr<base::ThreadPool> pool,
       int threads);

  // Checks the arguments and computes D. Allocates nothing unless it fails; any number of threads may run
  // one plan at a time, each with its own workspace.
  Status run(const RunArgs& args) const;

  uint64_t workspace_bytes() const { return workspace_bytes_; }
  const std::string& kernel_name() const { return kernel_name_; }
  const spec::KernelSpec& kernel() const { return kernel_; }
  const spec::Problem& problem() const { return problem_; }

 private:
  Status check(const RunArgs& args) const;
  Status check_b(const RunArgs& args) const;
  void bind_b(const RunArgs& args, SgCpuGemm* gemm) const;

  spec::Problem problem_;
  spec::KernelSpec kernel_;
  std::string kernel_name_;
  CpuCode code_;
  std::shared_ptr<base::ThreadPool> pool_;
  int threads_;
  SgCpuGemm shape_;  // everything that is known before the run
  uint64_t workspace_bytes_;
};

// Sizes, types, blocks and epilogue of a problem as the kernels take them; pointers and strides unset.
SgCpuGemm describe_cpu(const spec::Problem& problem);

}  // namespace scalegemm::runtime
