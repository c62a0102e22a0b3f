#include "dispatch/gpu_cost.h"

#include <algorithm>
#include <cmath>

#include "arch/cuda_family.h"
#include "arch/legal.h"

namespace scalegemm::dispatch {
namespace {

using spec::GpuDesc;
using spec::KernelSpec;
using spec::Pipeline;
using spec::Problem;

constexpr double kLaunchUs = 2.0;
constexpr double kFillCycles = 1500;          // from the start of a CTA to its first full stage
constexpr double kStoreBytesPerCycle = 32;    // of one multiprocessor
constexpr double kMostBytesInFlight = 40000;  // of one multiprocessor at full read rate
constexpr double kReductionUs = 0.7;          // through distributed shared memory, and 0.1 a slice

double tiles(int64_t extent, int tile) {
  return std::ceil(static_cast<double>(extent) / tile);
}

// Share of the tensor cores' rate that a main loop reaches on long K.
double efficiency(const KernelSpec& s) {
  const double area = static_cast<double>(s.tile.m) * s.tile.n;
  const bool blocks =
      (s.a_scale && s.a_scale->block_k != spec::kAll) || (s.b_scale && s.b_scale->block_k != spec::kAll);
  double share = 0;
  switch (s.pipeline) {
    case Pipeline::kTmaPingPong:
      share = area >= 128 * 128 ? 0.95 : 0.86;
      break;
    case Pipeline::kTmaCarried:
      share = s.tile.n >= 128 ? 0.80 : 0.70;
      break;
    default:
      share = arch::promote_k(s) == 0 ? 0.93 : area >= 192 * 128 ? 0.85 : 0.78;
  }
  const double strided = s.strided_scales ? 0.83 : 1.0;
  return share * strided * (blocks ? 0.97 : 1.0);
}

double element_bytes(const std::optional<num::DType>& type) {
  return type ? num::info(*type).bits / 8.0 : 4;
}

double persistent_units(const KernelSpec& s, const Problem& p) {
  return std::ceil(tiles(p.m, s.tile.m) / s.cluster_m) * std::ceil(tiles(p.n, s.tile.n) / s.cluster_n);
}

double persistent_cycles(const KernelSpec& s, const Problem& p, const GpuDesc& gpu) {
  const double cluster = s.cluster_m * s.cluster_n;
  const double units = persistent_units(s, p);
  const double waves = std::ceil(units / std::floor(gpu.multiprocessors / cluster));
  const double area = static_cast<double>(s.tile.m) * s.tile.n;
  const double steps = tiles(p.k, s.tile.k);
  const double multiply = steps * area / 32 / efficiency(s);
  const double store = area * element_bytes(s.d) / kStoreBytesPerCycle + 700;
  if (s.pipeline == Pipeline::kTmaPingPong) {
    // One consumer stores while the other multiplies.
    return kFillCycles + waves * std::max(multiply, (multiply + store) / 2) + store;
  }
  return kFillCycles + waves * (multiply + store);
}

// Microseconds of a thin kernel: a read of its operands.
double thin_us(const KernelSpec& s, const Problem& p, const GpuDesc& gpu) {
  const int64_t rows_x = s.swap_ab ? p.n : p.m;
  const int64_t rows_y = s.swap_ab ? p.m : p.n;
  const double ctas = tiles(rows_x, s.tile.m) * tiles(rows_y, s.tile.n) * s.k_slices;
  const double stage = (s.tile.m + s.tile.n) * 128.0;
  const double ring = stage * s.stages;
  const double resident = std::max(1.0, std::floor(static_cast<double>(gpu.shared_bytes) / (ring + 2048)));
  const double waves = std::ceil(ctas / (resident * gpu.multiprocessors));
  const double steps = std::ceil(tiles(p.k, s.tile.k) / s.k_slices);
  const double busy = std::min(1.0, ctas / gpu.multiprocessors);  // share of the multiprocessors at work
  const double together = std::min(resident, std::max(1.0, ctas / gpu.multiprocessors));
  const double in_flight = std::min(1.0, together * ring / kMostBytesInFlight);
  const double cluster_bytes_per_us =
      gpu.read_gbps * 1e3 / gpu.multiprocessors * in_flight;  // of a multiprocessor
  const double read = waves * together * steps * stage / cluster_bytes_per_us;
  const double multiply = waves * together * steps * s.tile.m * s.tile.n / 32 / (gpu.clock_ghz * 1e3) /
                          (arch::promote_k(s) != 0 ? 0.5 : 0.7);
  const double reduce = s.k_slices > 1 ? kReductionUs + 0.1 * s.k_slices : 0;
  return kFillCycles / (gpu.clock_ghz * 1e3) + std::max(read, multiply) + reduce + (busy < 0.5 ? 0.3 : 0);
}

double mma_us(const KernelSpec& s, const Problem& p, const GpuDesc& gpu) {
  const arch::Instruction& row = *arch::instruction_of(s);
  const double area = static_cast<double>(s.tile.m) * s.tile.n;
  const double ctas = tiles(p.m, s.tile.m) * tiles(p.n, s.tile.n) * static_cast<double>(p.batch);
  const double waves = std::ceil(ctas / gpu.multiprocessors);
  // Decoding on the way to shared memory leaves a third of the rate, and of tiles of few rows, for which
  // every code of B is decoded to be used 16 times, a fifteenth (results/h200/mma-gemm28-rowcol.csv).
  const double flops_per_cycle = std::max(1, row.rate) * (s.tile.m <= 16 ? 0.066 : 0.33);
  const double cycles = 2 * area * static_cast<double>(p.k) / flops_per_cycle + 2000;
  return waves * cycles / (gpu.clock_ghz * 1e3);
}

// One more launch, and every byte of the copied operands read and written. Scales are few, and only a run
// knows whether they are copied.
double relayout_us(const KernelSpec& s, const Problem& p, const GpuDesc& gpu) {
  const arch::Relayout relayout = arch::relayout_for(s, p);
  const double a = relayout.a ? static_cast<double>(p.m) * num::info(p.a.type).bits / 8 : 0;
  const double b = relayout.b ? static_cast<double>(p.n) * num::info(p.b.type).bits / 8 : 0;
  return relayout.operands() ? kLaunchUs + 2 * (a + b) * static_cast<double>(p.k) / (gpu.read_gbps * 0.75e3)
                             : 0;
}

}  // namespace

Cost predict(const KernelSpec& s, const Problem& p, const GpuDesc& gpu) {
  Cost cost;
  cost.memory_us = problem_bytes(p) / (gpu.read_gbps * 1e3);
  if (s.pipeline == Pipeline::kMma) {
    cost.compute_us = mma_us(s, p, gpu);
  } else {
    const double one =
        s.persistent ? persistent_cycles(s, p, gpu) / (gpu.clock_ghz * 1e3) : thin_us(s, p, gpu);
    // Batches are launched one by one, each beginning while the one before ends.
    cost.compute_us = p.batch == 1 ? one : std::max(one, kLaunchUs) * static_cast<double>(p.batch);
    if (s.persistent) {  // a multiprocessor reads at its own share of the rate, also where others are idle
      const double ctas = persistent_units(s, p) * s.cluster_m * s.cluster_n;
      cost.memory_us /= std::min(1.0, ctas / gpu.multiprocessors);
    }
  }
  cost.relayout_us = relayout_us(s, p, gpu);
  cost.total_us = kLaunchUs + std::max(cost.compute_us, cost.memory_us) + cost.relayout_us;
  return cost;
}

}  // namespace scalegemm::dispatch
