// Times of quantizers on a GPU, interleaved with a copy on the device that moves as many bytes.
#pragma once

#include <string>

#include "harness/case.h"
#include "harness/gpu_bench.h"
#include "harness/timing.h"

namespace scalegemm::harness {

struct QuantizeBenchResult {
  Case c;  // M and K count, and what the scheme says of A
  int32_t source_dtype = 0;
  Timing timing;
  Timing copy;
  double bytes = 0;  // source, codes and scales
  bool verified = false;
  std::string problem;
};

// Rows lie at multiples of 16 bytes, f32 scales contiguous along rows: as TMA kernels like them. Verified
// before it is timed: bit by bit against scalegemm_quantize.
QuantizeBenchResult bench_quantizer(const Runtime& runtime, const Case& c, int32_t source_dtype,
                                    const GpuBenchOptions& options);

}  // namespace scalegemm::harness
