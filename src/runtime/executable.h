// A kernel ready to run the problems of one plan: the part of a plan that differs between devices.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "common/gemm.h"
#include "cpu/abi.h"
#include "device/cuda/kernel.h"
#include "device/cuda/relayout.h"
#include "spec/problem.h"

namespace scalegemm::runtime {

// Immutable and thread-safe; run allocates nothing.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual uint64_t workspace_bytes() const = 0;
  // The arguments were checked by the plan. `stream` is that of a GPU.
  virtual Status run(const SgGemm& gemm, void* stream) const = 0;
};

// Code of a loaded CPU kernel and whatever keeps it mapped.
struct CpuCode {
  const SgCpuKernel* kernel = nullptr;
  std::shared_ptr<const void> owner;  // null for built-in kernels
};

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(CpuCode code, const SgGemm& shape, std::shared_ptr<base::ThreadPool> pool, int threads);
  uint64_t workspace_bytes() const override { return workspace_bytes_; }
  Status run(const SgGemm& gemm, void* stream) const override;

 private:
  CpuCode code_;
  std::shared_ptr<base::ThreadPool> pool_;
  int threads_;
  uint64_t workspace_bytes_;
};

// A kernel of a plan, and the workspace that copies of its operands would take (0: none is made).
struct CudaRoute {
  std::shared_ptr<const device::cuda::Kernel> kernel;
  device::cuda::OfParts<uint64_t> copy_bytes = {};
};

// Strides and pointers are known at the run only, and TMA cannot address all of them: the first route whose
// kernel can, if need be after copying operands, takes the run.
class CudaExecutable final : public Executable {
 public:
  // At least one route; `relayouter` is there when one of them copies.
  CudaExecutable(std::vector<CudaRoute> routes, std::shared_ptr<const device::cuda::Relayouter> relayouter);
  uint64_t workspace_bytes() const override { return workspace_bytes_; }
  Status run(const SgGemm& gemm, void* stream) const override;

 private:
  std::vector<CudaRoute> routes_;
  std::shared_ptr<const device::cuda::Relayouter> relayouter_;
  uint64_t workspace_bytes_ = 0;
};

// Sizes, types, blocks and epilogue of a problem as the kernels take them; pointers and strides unset.
SgGemm describe(const spec::Problem& problem);

}  // namespace scalegemm::runtime
