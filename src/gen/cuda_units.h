// Units of CUDA kernels that are no GEMM.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "gen/generate.h"
#include "num/dtype.h"

namespace scalegemm::gen {

// A quantiser of rows (kernels/cuda/quantize.cuh).
struct QuantizerConfig {
  num::DType source;  // f32, f16, bf16
  num::DType codes;   // e4m3, e5m2, e2m1, int8
  num::DType scale;   // f32, e8m0
  int64_t group;      // elements of K that share a scale: 16, 32, 64, 128, 256; 0: a whole row
};

// kUnsupported, with what there is, for another configuration.
Result<KernelSource> quantizer_unit(const QuantizerConfig& config);

// The entry points in that unit. Where a whole row shares a scale there is one for each number of warps that
// share a row, rising: the least whose registers hold the row is the fastest.
std::vector<std::string> quantizer_entries(const QuantizerConfig& config, const KernelSource& unit);

}  // namespace scalegemm::gen
