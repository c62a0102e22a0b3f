// Running a CPU kernel: its two phases over a thread pool.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "cpu/abi.h"

namespace scalegemm::device {

// Memory for one run with `threads` workers: the kernel's shared workspace, then one scratch area a worker,
// each starting at a multiple of 64 bytes. Depends on the sizes, types and packing in `gemm` only.
uint64_t cpu_workspace_bytes(const SgCpuKernel& kernel, const SgGemm& gemm, int threads);

// Runs `gemm` (whose workspace points at cpu_workspace_bytes() bytes, 64-byte aligned) and returns when D is
// complete. Allocates nothing. At most `threads` workers of the pool take part; callers may share the pool.
void cpu_run(const SgCpuKernel& kernel, const SgGemm& gemm, int threads, base::ThreadPool& pool);

}  // namespace scalegemm::device
