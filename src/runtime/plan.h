// A plan: one problem, one kernel, ready to run. Immutable and thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "common/gemm.h"
#include "runtime/executable.h"
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
  void* stream = nullptr;                  // of a GPU
  Tensor c, bias, d;
  float alpha = 1.0f;
  float beta = 0.0f;
  void* workspace = nullptr;
  uint64_t workspace_bytes = 0;
};

class Plan {
 public:
  Plan(spec::Problem problem, spec::KernelSpec kernel, std::unique_ptr<const Executable> executable);

  // Checks the arguments and computes D, or enqueues that on a GPU. Allocates nothing unless it fails; any
  // number of threads may run one plan at a time, each with its own workspace.
  Status run(const RunArgs& args) const;

  uint64_t workspace_bytes() const { return executable_->workspace_bytes(); }
  const std::string& kernel_name() const { return kernel_name_; }
  const spec::KernelSpec& kernel() const { return kernel_; }
  const spec::Problem& problem() const { return problem_; }

 private:
  Status check(const RunArgs& args) const;
  Status check_b(const RunArgs& args) const;
  void bind_b(const RunArgs& args, SgGemm* gemm) const;

  spec::Problem problem_;
  spec::KernelSpec kernel_;
  std::string kernel_name_;
  std::unique_ptr<const Executable> executable_;
  SgGemm shape_;  // everything that is known before the run
};

}  // namespace scalegemm::runtime
