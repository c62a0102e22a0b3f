#include "dispatch/cost.h"

#include <algorithm>

#include "base/int_math.h"
#include "spec/scheme.h"

namespace scalegemm::dispatch {
namespace {

using base::ceil_div;
using num::DType;
using spec::kAll;
using spec::KernelSpec;
using spec::OperandSpec;
using spec::Pipeline;
using spec::Problem;

constexpr double kLaunchUs = 1.0;  // waking the pool and the two phases of a kernel
constexpr double kExposed = 0.3;   // share of the shorter of work and memory that the longer does not hide
constexpr int64_t kRowsPerDecode = 504;  // rows of D that share one decoded panel of f32fma
// bf16dot, a vector of codes beside its decoding: packing the pair, storing and reloading the panel, none of
// it hidden by few rows. From e4m3 at N = K = 4096 on a Zen 4: 46 GFLOP/s at M = 4, 112 at M = 16.
constexpr double kPairPanelOperations = 5;
constexpr double kPairTableOperations = 0.6;  // 64 8-bit codes 2.6 cycles, 128 4-bit ones 3.7, on a Zen 4
constexpr int64_t kFusedRows = 4;             // up to here f32fma decodes weights in registers, once
constexpr int64_t kFusedPairRows = 16;        // and bf16dot

double number(int64_t value) {
  return static_cast<double>(value);
}

// Vector operations to turn one vector of codes into f32 (kernels/cpu/decode.h).
double decode_operations(DType type) {
  switch (type) {
    case DType::kF32:
      return 0;
    case DType::kF16:
    case DType::kBf16:
    case DType::kE5m2:
    case DType::kE5m2Fnuz:
      return 2;
    case DType::kInt8:
    case DType::kInt4:
    case DType::kUint4:
    case DType::kE2m1:
      return 3;
    default:
      return 4;
  }
}

// Does bf16dot look pairs up (kernels/cpu/bf16_pairs.h)?
bool has_pair_table(DType type) {
  return type != DType::kBf16 && type != DType::kInt8;
}

double scale_operations(const OperandSpec& x) {
  return x.scale ? (x.scale->zero_type ? 2 : 1) : 0;
}

int64_t block_k(const OperandSpec& x, int64_t k) {
  return x.scale && x.scale->block_k != kAll ? std::min(x.scale->block_k, k) : k;
}

struct Rates {
  double f32;  // operations a microsecond: 2 a lane of a multiply-add
  double i8;
  double bf16;
  double bytes;
};

Rates per_us(const spec::CpuRates& rates, int lanes, int threads) {
  const auto or_nominal = [](double measured, double nominal) { return measured > 0 ? measured : nominal; };
  const double scale = 1e3 * std::max(1, threads);
  return {or_nominal(rates.f32_fma_gflops, 2.0 * lanes) * scale,
          or_nominal(rates.i8dot_gops, 8.0 * lanes) * scale,
          or_nominal(rates.bf16dp_gflops, 2.0 * lanes) * scale, or_nominal(rates.read_gbps, 10) * scale};
}

// A vector operation takes the time of a multiply-add, that is of two operations a lane.
double vector_us(double element_operations, const Rates& rates) {
  return 2 * element_operations / rates.f32;
}

Cost f32_cost(const KernelSpec& s, const Problem& p, const Rates& rates) {
  const double columns = number(ceil_div(p.n, s.tile.n) * s.tile.n) * number(p.batch);
  const double k = number(p.k);
  const double decodes = p.m <= kFusedRows ? 1 : number(ceil_div(p.m, kRowsPerDecode));
  Cost cost;
  cost.compute_us = 2 * number(p.m) * columns * k / rates.f32;
  cost.decode_us =
      vector_us(columns * k * decodes * (decode_operations(p.b.type) + scale_operations(p.b)), rates) +
      vector_us(number(p.m * p.batch) * k * (decode_operations(p.a.type) + scale_operations(p.a) + 1), rates);
  return cost;
}

// As f32_cost at the rate of the pair instruction, and with the sums of every segment scaled and added: four
// operations a vector. Few rows have a fused route for types with a table of pairs.
Cost bf16_cost(const KernelSpec& s, const Problem& p, const Rates& rates) {
  const double columns = number(ceil_div(p.n, s.tile.n) * s.tile.n) * number(p.batch);
  const double k = number(p.k);
  const double segments =
      std::max(number(ceil_div(p.k, std::min(block_k(p.a, p.k), block_k(p.b, p.k)))), k / s.tile.k);
  const bool fused = p.m <= kFusedPairRows && has_pair_table(p.b.type);
  const double operations = (has_pair_table(p.b.type) ? kPairTableOperations : decode_operations(p.b.type)) +
                            (fused ? 0 : kPairPanelOperations);
  const double decodes = number(ceil_div(p.m, kRowsPerDecode));
  Cost cost;
  cost.compute_us = 2 * number(p.m) * columns * k / rates.bf16;
  cost.decode_us = vector_us(columns * k * decodes * operations, rates) +
                   vector_us(number(p.m) * columns * segments * (fused ? 6 : 4), rates) +
                   vector_us(number(p.m * p.batch) * k * (decode_operations(p.a.type) + 2), rates);
  return cost;
}

Cost i8_cost(const KernelSpec& s, const Problem& p, const Rates& rates) {
  const double columns = number(ceil_div(p.n, s.tile.n) * s.tile.n) * number(p.batch);
  const double k = number(p.k);
  const double segments = number(ceil_div(p.k, std::min(block_k(p.a, p.k), block_k(p.b, p.k))));
  const double row_tiles = number(ceil_div(p.m, s.tile.m));
  Cost cost;
  cost.compute_us = 2 * number(p.m) * columns * k / rates.i8;
  // A block's sum: convert, scale, add. Codes of B: two operations per 64 bytes, shared by the rows of a
  // tile; counted in f32 lanes like everything else here. A: quantised codes are copied and summed once.
  const double code_bytes = columns * k * (num::is_packed4(p.b.type) ? 1.0 : 0.0) / 4;
  cost.decode_us = vector_us(number(p.m) * columns * segments * 3, rates) +
                   vector_us(row_tiles * code_bytes * 2, rates) +
                   vector_us(number(p.m * p.batch) * k * 0.5, rates);
  return cost;
}

}  // namespace

double problem_bytes(const Problem& p) {
  const auto operand = [&p](const OperandSpec& x, int64_t rows) {
    return number(rows) * number(p.k) * bits_per_weight(x, rows, p.k) / 8;
  };
  const auto matrix = [&p](DType type) { return number(p.m) * number(p.n) * num::info(type).bits / 8; };
  double bytes = operand(p.a, p.m) + operand(p.b, p.n) + matrix(p.d);
  bytes += p.epilogue.c ? matrix(*p.epilogue.c) : 0;
  bytes += p.epilogue.bias ? number(p.n) * num::info(*p.epilogue.bias).bits / 8 : 0;
  return bytes * number(p.batch);
}

Cost predict(const KernelSpec& spec, const Problem& problem, const spec::CpuRates& measured, int threads) {
  const Rates rates = per_us(measured, spec.instruction.n, threads);
  Cost cost = spec.pipeline == Pipeline::kI8Dot     ? i8_cost(spec, problem, rates)
              : spec.pipeline == Pipeline::kBf16Dot ? bf16_cost(spec, problem, rates)
                                                    : f32_cost(spec, problem, rates);
  cost.memory_us = problem_bytes(problem) / rates.bytes;
  // Decoding hides behind reading, and the reverse, but not all of it.
  const double work = cost.compute_us + cost.decode_us;
  cost.total_us = kLaunchUs + std::max(work, cost.memory_us) + kExposed * std::min(work, cost.memory_us);
  return cost;
}

}  // namespace scalegemm::dispatch
