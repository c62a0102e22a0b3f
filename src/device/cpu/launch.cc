#include "device/cpu/launch.h"

#include <algorithm>

#include "base/int_math.h"

namespace scalegemm::device {
namespace {

// Where the workspace and each scratch area start.
uint64_t aligned(uint64_t bytes) {
  return base::round_up(bytes, 64u);
}

using Phase = void (*)(const SgGemm*, int64_t, int64_t, void*);

struct PhaseCall {
  const SgGemm* gemm;
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

uint64_t cpu_workspace_bytes(const SgCpuKernel& kernel, const SgGemm& gemm, int threads) {
  return aligned(kernel.workspace_bytes(&gemm)) +
         static_cast<uint64_t>(threads) * aligned(kernel.scratch_bytes(&gemm));
}

void cpu_run(const SgCpuKernel& kernel, const SgGemm& gemm, int threads, base::ThreadPool& pool) {
  char* scratch = static_cast<char*>(gemm.workspace) + aligned(kernel.workspace_bytes(&gemm));
  const uint64_t scratch_bytes = aligned(kernel.scratch_bytes(&gemm));
  run_phase({&gemm, kernel.prepare, scratch, scratch_bytes}, kernel.prepare_units(&gemm), threads, pool);
  run_phase({&gemm, kernel.compute, scratch, scratch_bytes}, kernel.compute_units(&gemm), threads, pool);
}

}  // namespace scalegemm::device
