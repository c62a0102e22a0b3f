// What this processor really does: rates of the instructions that kernels are made of, measured in a few
// milliseconds. CPUID says which instructions there are, not how fast they are: on some cores a bf16 dot
// product runs at half the rate of the f32 multiply-adds that it replaces.
//
// Every instruction is measured twice on the calling thread: from registers (the ceiling) and as the inner
// loop of a GEMM tile that loads its operands from the first cache (what dispatch believes). A machine shared
// with others has states in which only loads are slow; the first number does not see them.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "spec/device_desc.h"

namespace scalegemm::device {

struct CpuProbe {
  spec::CpuRates ceiling;  // from registers; read_gbps as in `loaded`
  spec::CpuRates loaded;   // fed from the first cache
};

// The rates of a CPU target, measured on the first call for it and then the same for the life of the process.
// Takes about 0.1 s (and the time to touch a buffer larger than the last cache, once). Thread-safe; threads
// that run beside it lower the result. kUnsupported where the processor lacks the target.
Result<CpuProbe> probe(spec::Target target);

// The same, always measured anew: a ceiling of this moment.
Result<CpuProbe> probe_now(spec::Target target);

// Rate, in 10^9 bytes/s, of one thread that reads `bytes` (at least 64) over and over undisturbed: the
// ceiling of a kernel that streams a matrix of that size. Always measured anew. kOutOfMemory where the buffer
// cannot be had.
Result<double> measure_read_gbps(int64_t bytes);

}  // namespace scalegemm::device
