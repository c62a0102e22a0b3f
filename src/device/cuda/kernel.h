// A CUDA kernel in a device's memory, and how it is launched for a GEMM.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "common/gemm.h"
#include "cuda/abi.h"
#include "device/cuda/module.h"
#include "device/cuda/relayout.h"

namespace scalegemm::device::cuda {

// Immutable and thread-safe.
class Kernel {
 public:
  // kCorruptData when the module does not hold `symbol` and its info as this library's ABI has them.
  static Result<std::shared_ptr<const Kernel>> load(std::shared_ptr<const LoadedModule> module,
                                                    const std::string& symbol);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const SgCudaInfo& info() const { return info_; }
  const Device& device() const { return module_->device(); }

  // Enqueues the GEMM, whose pointers are device memory, on a stream of the device (null: the default one).
  // Allocates nothing and waits for nothing; may be captured into a graph. check_addressable() must be ok.
  Status launch(const SgGemm& gemm, void* stream) const;

  // Why the TMA families cannot address the GEMM, with the argument, what was needed and what was given; ok
  // for the others. Looks at strides and, where they are set, pointers.
  Status check_addressable(const SgGemm& gemm) const;
  // The same for one part alone.
  Status check_addressable(const SgGemm& gemm, Part part) const;

 private:
  explicit Kernel(std::shared_ptr<const LoadedModule> module) : module_(std::move(module)) {}
  Status launch_mma(const SgGemm& gemm, Stream stream) const;
  Status launch_tma(const SgGemm& gemm, Stream stream) const;

  std::shared_ptr<const LoadedModule> module_;
  Function function_ = nullptr;
  SgCudaInfo info_{};
};

}  // namespace scalegemm::device::cuda
