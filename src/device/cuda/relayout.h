// Operands and block scales laid out anew in device memory, so that TMA can address them.
#pragma once

#include <array>
#include <memory>

#include "base/status.h"
#include "common/gemm.h"
#include "cuda/abi.h"
#include "cuda/relayout_abi.h"
#include "device/cuda/module.h"

namespace scalegemm::device::cuda {

// What can be copied.
enum class Part { kA, kB, kScaleA, kScaleB };
inline constexpr std::array kParts = {Part::kA, Part::kB, Part::kScaleA, Part::kScaleB};
template <class T>
using OfParts = std::array<T, kParts.size()>;  // by part

// Immutable and thread-safe.
class Relayouter {
 public:
  // `module` holds the unit of gen::relayout_unit under this symbol.
  static Result<std::shared_ptr<const Relayouter>> load(std::shared_ptr<const LoadedModule> module,
                                                        const std::string& symbol);

  // Bytes that the copy of one part takes, a multiple of 128. `gemm` has sizes and types; `info` is that of
  // the kernel.
  static uint64_t bytes(const SgGemm& gemm, const SgCudaInfo& info, Part part);

  // Makes the GEMM read copies of the parts whose memory is not null: data and strides.
  static SgRelayoutJobs redirect(SgGemm* gemm, const SgCudaInfo& info, const OfParts<void*>& to);
  // Makes the copies. Allocates nothing and waits for nothing.
  Status launch(const SgRelayoutJobs& jobs, void* stream) const;

 private:
  explicit Relayouter(std::shared_ptr<const LoadedModule> module) : module_(std::move(module)) {}

  std::shared_ptr<const LoadedModule> module_;
  Function function_ = nullptr;
};

}  // namespace scalegemm::device::cuda
