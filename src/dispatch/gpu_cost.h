// The analytic cost of a CUDA kernel on a problem: what dispatch ranks by where nothing was measured.
//
//   persistent      waves of tiles; a tile is its steps of 128 bytes of K, each tile_m * tile_n / 32 cycles
//   of the
//                   tensor cores over the efficiency of its main loop, and its store where nothing hides it
//   thin, split K   the read of the operands by as many CTAs as there are, each with its ring of stages in
//   flight,
//                   and the cluster's reduction
//   mma             the same waves at the rate of mma.sync with operands decoded on the way
//
// never less than the bytes of the problem over the read bandwidth, plus a launch. Constants were fitted to
// the H200 (docs/hopper.md); ranks are what they are for.
#pragma once

#include "dispatch/cost.h"
#include "spec/device_desc.h"

namespace scalegemm::dispatch {

// `spec` is a legal CUDA kernel that takes the (valid) problem.
Cost predict(const spec::KernelSpec& spec, const spec::Problem& problem, const spec::GpuDesc& gpu);

}  // namespace scalegemm::dispatch
