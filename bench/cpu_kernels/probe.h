// Ceilings of this core, measured in the same run as the kernels: what a share is a share of.
#pragma once

#include <cstddef>

namespace scalegemm::bench {

// f32 FMA from registers, 512- and 256-bit: GFLOP/s.
double fma_registers_512();
double fma_registers_256();

// Plain loads over `bytes` of memory, read once a pass with prefetch: GB/s.
double read_bandwidth(size_t bytes);

// CPU seconds of this thread: what other processes on a shared core take is not counted.
double seconds();

}  // namespace scalegemm::bench
