// Units of CUDA kernels that are no GEMM: what a plan needs beside one, and quantisers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "gen/generate.h"
#include "num/dtype.h"
#include "spec/target.h"

namespace scalegemm::gen {

// The kernel that lays operands out anew for TMA (kernels/cuda/relayout.cuh).
Result<KernelSource> relayout_unit(spec::Target target);

// A quantiser of rows (kernels/cuda/quantize.cuh).
struct QuantizerConfig {
  num::DType source;  // f32, f16, bf16
  num::DType codes;   // e4m3, e5m2, e2m1, int8
  num::DType scale;   // f32, e8m0
  int64_t group;      // elements of K that share a scale: 16, 32, 64, 128, 256; 0: a whole row
};

// kUnsupported, with what there is, for another configuration.
Result<KernelSource> quantizer_unit(const QuantizerConfig& config, spec::Target target);

// The entry points in that unit. Where a whole row shares a scale there is one for each number of warps that
// share a row, rising: the least whose registers hold the row is the fastest.
std::vector<std::string> quantizer_entries(const QuantizerConfig& config, const KernelSource& unit);

// What measures a GPU (kernels/cuda/probe.cuh): launch and read on every target, matrix rates on sm_90a.
Result<KernelSource> probe_unit(spec::Target target);

// The units that are built in with the CUDA kernels of a target: the relayout, and the quantisers of bf16 and
// f16 activations of the common schemes.
Result<std::vector<KernelSource>> support_units(spec::Target target);

}  // namespace scalegemm::gen
