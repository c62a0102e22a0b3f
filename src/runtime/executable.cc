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

namespace {

// Memory in the workspace for every part that the kernel cannot address and the plan reserved a copy for.
device::cuda::OfParts<void*> copies_of(const CudaRoute& route, const SgGemm& gemm) {
  device::cuda::OfParts<void*> to = {};
  auto* memory = static_cast<std::byte*>(gemm.workspace);
  for (const device::cuda::Part part : device::cuda::kParts) {
    const auto i = static_cast<size_t>(part);
    if (route.copy_bytes[i] != 0 && !route.kernel->check_addressable(gemm, part).ok()) {
      to[i] = memory;
    }
    memory += route.copy_bytes[i];
  }
  return to;
}

}  // namespace

Status CudaExecutable::run(const SgGemm& gemm, void* stream) const {
  Status refused;
  for (const CudaRoute& route : routes_) {
    const auto to = copies_of(route, gemm);
    SgGemm g = gemm;
    const SgRelayoutJobs jobs = device::cuda::Relayouter::redirect(&g, route.kernel->info(), to);
    refused = route.kernel->check_addressable(g);
    if (refused.ok()) {
      if (jobs.end[SG_RELAYOUT_JOBS - 1] > 0) {
        SCALEGEMM_RETURN_IF_ERROR(relayouter_->launch(jobs, stream));
      }
      return route.kernel->launch(g, stream);
    }
  }
  return refused;
}

}  // namespace scalegemm::runtime
