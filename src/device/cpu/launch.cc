#include "device/cpu/launch.h"

#include <algorithm>

namespace scalegemm::device {
namespace {

constexpr uint64_t kAlign = 64;

uint64_t round_up(uint64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

using Phase = void (*)(const SgCpuGemm*, int64_t, int64_t, void*);

struct PhaseCall {
  const SgCpuGemm* gemm;
  Phase phase;
  char* scratch;
  uint64_t scratch_bytes;
};

void run_phase(PhaseCall call, int64_t units, int threads, base::ThreadPool& pool) {
  // Four chunks a worker even out cores of unequal speed without many visits to the shared counter.
  const int64_t chunk = std::max<int64_t>(1, units / (4 * threads));
  pool.parallel_for(
      units, threads == 1 ? units : chunk,
      [&call](int64_t begin, int64_t end, int worker) {
        call.phase(call.gemm, begin, end, call.scratch + static_cast<uint64_t>(worker) * call.scratch_bytes);
      },
      threads);
}

}  // namespace

uint64_t cpu_workspace_bytes(const SgCpuKernel& kernel, const SgCpuGemm& gemm, int threads) {
  return round_up(kernel.workspace_bytes(&gemm)) +
         static_cast<uint64_t>(threads) * round_up(kernel.scratch_bytes(&gemm));
}

void cpu_run(const SgCpuKernel& kernel, const SgCpuGemm& gemm, int threads, base::ThreadPool& pool) {
  char* scratch = static_cast<char*>(gemm.workspace) + round_up(kernel.workspace_bytes(&gemm));
  const uint64_t scratch_bytes = round_up(kernel.scratch_bytes(&gemm));
  run_phase({&gemm, kernel.prepare, scratch, scratch_bytes}, kernel.prepare_units(&gemm), threads, pool);
  run_phase({&gemm, kernel.compute, scratch, scratch_bytes}, kernel.compute_units(&gemm), threads, pool);
}

}  // namespace scalegemm::device
