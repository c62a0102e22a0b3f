#include "runtime/executable.h"

#include "device/cpu/launch.h"

namespace scalegemm::runtime {

CpuExecutable::CpuExecutable(CpuCode code, const SgGemm& shape, std::shared_ptr<base::ThreadPool> pool,
                             int threads)
    : code_(std::move(code)),
      pool_(std::move(pool)),
      threads_(threads),
      workspace_bytes_(device::cpu_workspace_bytes(*code_.kernel, shape, threads)) {}

Status CpuExecutable::run(const SgGemm& gemm, void* stream) const {
  if (stream != nullptr) {
    return invalid_argument("args.stream: must be null, because this plan runs on the CPU, got {}", stream);
  }
  device::cpu_run(*code_.kernel, gemm, threads_, *pool_);
  return ok_status();
}

Status CudaExecutable::run(const SgGemm& gemm, void* stream) const {
  Status refused;
  for (const auto& kernel : kernels_) {
    Status addressable = kernel->check_addressable(gemm);
    if (addressable.ok()) {
      return kernel->launch(gemm, stream);
    }
    refused = std::move(addressable);
  }
  return refused;
}

}  // namespace scalegemm::runtime
