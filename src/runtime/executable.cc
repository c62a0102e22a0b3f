#include "runtime/executable.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

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

CudaExecutable::CudaExecutable(std::vector<CudaRoute> routes,
                               std::shared_ptr<const device::cuda::Relayouter> relayouter)
    : routes_(std::move(routes)), relayouter_(std::move(relayouter)) {
  for (const CudaRoute& route : routes_) {
    workspace_bytes_ = std::max(
        workspace_bytes_, std::accumulate(route.copy_bytes.begin(), route.copy_bytes.end(), uint64_t{0}));
  }
}

Status CudaExecutable::run(const SgGemm& gemm, void* stream) const {
  Status refused;
  for (const CudaRoute& route : routes_) {
    Status addressable = route.kernel->check_addressable(gemm);
    if (addressable.ok()) {
      return route.kernel->launch(gemm, stream);
    }
    bool taken = false;
    Status status = run_copied(route, gemm, stream, &taken);
    if (taken) {
      return status;
    }
    refused = std::move(addressable);
  }
  return refused;
}

// Copies what the kernel cannot address, where the plan reserved memory for that; not taken when something
// else is in the way as well.
Status CudaExecutable::run_copied(const CudaRoute& route, const SgGemm& gemm, void* stream,
                                  bool* taken) const {
  auto* memory = static_cast<std::byte*>(gemm.workspace);
  device::cuda::OfParts<void*> to = {};
  bool any = false;
  for (const device::cuda::Part part : device::cuda::kParts) {
    const auto i = static_cast<size_t>(part);
    if (route.copy_bytes[i] != 0 && !route.kernel->check_addressable(gemm, part).ok()) {
      to[i] = memory;
      any = true;
    }
    memory += route.copy_bytes[i];
  }
  if (!any) {
    return ok_status();
  }
  SgGemm copied = gemm;
  const SgRelayoutJobs jobs = device::cuda::Relayouter::redirect(&copied, route.kernel->info(), to);
  if (!route.kernel->check_addressable(copied).ok()) {
    return ok_status();
  }
  *taken = true;
  SCALEGEMM_RETURN_IF_ERROR(relayouter_->launch(jobs, stream));
  return route.kernel->launch(copied, stream);
}

}  // namespace scalegemm::runtime
