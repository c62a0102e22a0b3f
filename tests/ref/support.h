// Random problems with their memory, an independent element-wise reading of them, and plain f32 kernels in
// several orders of summation that a correct bound must accept.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "num/bulk.h"
#include "num/convert.h"
#include "ref/gemm.h"

namespace scalegemm::ref {

using num::DType;
using spec::Activation;
using spec::kAll;
using spec::OperandSpec;
using spec::Problem;
using spec::ScaleSpec;

// Contiguous memory of one operand: row-major codes, row-major grids.
struct OperandMemory {
  std::vector<std::byte> codes, scales, zeros;
  float global = 1;
  spec::Grid grid;

  OperandData data(const OperandSpec& spec, int64_t k) const {
    return {.codes = codes.data(),
            .stride_r = num::is_packed4(spec.type) ? k / 2 : k,
            .stride_k = 1,
            .scales = {scales.data(), grid.cols, 1},
            .zeros = {zeros.data(), grid.cols, 1},
            .global = &global};
  }
};

// Finite codes; scales between 2^-6 and 2^6, all over a grid; zero points anywhere in their type.
inline OperandMemory random_operand(const OperandSpec& spec, int64_t rows, int64_t k, std::mt19937& random) {
  OperandMemory m;
  std::normal_distribution<float> normal;
  m.codes.resize(num::storage_bytes(spec.type, rows * k));
  for (int64_t i = 0; i < rows * k; ++i) {
    const float spread = num::info(spec.type).is_float ? 1.5f : num::info(spec.type).max_finite / 2;
    num::store_code(spec.type, m.codes.data(), i,
                    num::encode(spec.type, normal(random) * spread, num::Overflow::kSaturate));
  }
  if (!spec.scale) {
    return m;
  }
  m.grid = spec::scale_grid(*spec.scale, rows, k);
  const int64_t count = m.grid.rows * m.grid.cols;
  m.scales.resize(num::storage_bytes(spec.scale->type, count));
  std::uniform_real_distribution<float> exponent(-6, 6);
  for (int64_t i = 0; i < count; ++i) {
    num::store_code(spec.scale->type, m.scales.data(), i,
                    num::encode(spec.scale->type, std::exp2(exponent(random)), num::Overflow::kSaturate));
  }
  if (spec.scale->zero_type) {
    m.zeros.resize(static_cast<size_t>(count));
    for (std::byte& zero : m.zeros) {
      zero = static_cast<std::byte>(random() % (1u << num::info(*spec.scale->zero_type).bits));
    }
  }
  m.global = spec.scale->global ? 0.37f : 1.0f;
  return m;
}

// The parts of one element, read the slow way.
struct Parts {
  float code = 0, zero = 0, scale = 1, global = 1;
  double value() const {
    return (static_cast<double>(code) - static_cast<double>(zero)) * static_cast<double>(scale) *
           static_cast<double>(global);
  }
};

inline Parts parts(const OperandSpec& spec, const OperandMemory& m, int64_t rows, int64_t k_total, int64_t r,
                   int64_t k) {
  Parts p;
  p.code = num::decode(spec.type, num::load_code(spec.type, m.codes.data(), r * k_total + k));
  if (!spec.scale) {
    return p;
  }
  const int64_t br = spec.scale->block_rows == kAll ? rows : spec.scale->block_rows;
  const int64_t bk = spec.scale->block_k == kAll ? k_total : spec.scale->block_k;
  const int64_t at = r / br * m.grid.cols + k / bk;
  p.scale = num::decode(spec.scale->type, num::load_code(spec.scale->type, m.scales.data(), at));
  p.global = m.global;
  if (spec.scale->zero_type) {
    p.zero = num::decode(*spec.scale->zero_type, static_cast<uint32_t>(m.zeros[static_cast<size_t>(at)]));
  }
  return p;
}

struct Instance {
  Problem problem;
  OperandMemory a, b;
  std::vector<float> c, bias;
  float alpha = 1, beta = 0;

  GemmData data() const {
    return {.a = a.data(problem.a, problem.k),
            .b = b.data(problem.b, problem.k),
            .c = {c.data(), problem.n, 1},
            .bias = bias.data(),
            .alpha = alpha,
            .beta = beta};
  }
};

inline OperandSpec operand(DType type, std::optional<ScaleSpec> scale = std::nullopt) {
  return {.type = type, .layout = spec::Layout::kRow, .scale = scale};
}

inline ScaleSpec blocks(DType type, int64_t rows, int64_t k) {
  return {.type = type, .block_rows = rows, .block_k = k, .zero_type = std::nullopt, .global = false};
}

inline Instance make_instance(const OperandSpec& a, const OperandSpec& b, DType d, std::array<int64_t, 3> mnk,
                              uint32_t seed) {
  Instance x;
  x.problem.m = mnk[0];
  x.problem.n = mnk[1];
  x.problem.k = mnk[2];
  x.problem.a = a;
  x.problem.b = b;
  x.problem.d = d;
  std::mt19937 random(seed);
  x.a = random_operand(a, mnk[0], mnk[2], random);
  x.b = random_operand(b, mnk[1], mnk[2], random);
  std::normal_distribution<float> normal;
  x.c.resize(static_cast<size_t>(mnk[0] * mnk[1]));
  x.bias.resize(static_cast<size_t>(mnk[1]));
  for (std::vector<float>* v : {&x.c, &x.bias}) {
    for (float& value : *v) {
      value = normal(random) * 100;
    }
  }
  return x;
}

// Pairs of operands: every scheme of the design table.
struct Scheme {
  std::string name;
  OperandSpec a, b;
};

inline std::vector<Scheme> schemes() {
  const auto zeros = [](DType scale, int64_t g, DType zero) {
    ScaleSpec s = blocks(scale, 1, g);
    s.zero_type = zero;
    return s;
  };
  ScaleSpec nv = blocks(DType::kE4m3, 1, 16);
  nv.global = true;
  const ScaleSpec mx = blocks(DType::kE8m0, 1, 32), row = blocks(DType::kF32, 1, kAll),
                  g128 = blocks(DType::kF32, 1, 128);
  return {
      {"none f32", operand(DType::kF32), operand(DType::kF32)},
      {"none bf16", operand(DType::kBf16), operand(DType::kBf16)},
      {"tensor", operand(DType::kE4m3, blocks(DType::kF32, kAll, kAll)),
       operand(DType::kE5m2, blocks(DType::kF32, kAll, kAll))},
      {"rowcol", operand(DType::kE4m3, row), operand(DType::kE4m3, row)},
      {"aquant", operand(DType::kE4m3Fnuz, g128), operand(DType::kE5m2Fnuz)},
      {"bquant int4", operand(DType::kBf16), operand(DType::kInt4, blocks(DType::kF16, 1, 32))},
      {"bquant uint4 zero", operand(DType::kF16),
       operand(DType::kUint4, zeros(DType::kF16, 64, DType::kUint4))},
      {"bquant int8 zero", operand(DType::kF32),
       operand(DType::kInt8, zeros(DType::kBf16, 32, DType::kInt8))},
      {"int8 x int4 zero", operand(DType::kInt8, row),
       operand(DType::kInt4, zeros(DType::kF32, 32, DType::kInt4))},
      {"abquant 128x128", operand(DType::kE4m3, g128), operand(DType::kE4m3, blocks(DType::kF32, 128, 128))},
      {"mxfp8", operand(DType::kE4m3, mx), operand(DType::kE5m2, mx)},
      {"mxfp4", operand(DType::kE2m1, mx), operand(DType::kE2m1, mx)},
      {"mx-weight", operand(DType::kBf16), operand(DType::kE2m1, mx)},
      {"nvfp4", operand(DType::kE2m1, nv), operand(DType::kE2m1, nv)},
      {"int8", operand(DType::kInt8, row), operand(DType::kInt8, row)},
  };
}

// What a plain f32 kernel may do. kForward, kBackward: decoded operands, FMA or not is the compiler's choice.
// kBlocks: sums of codes per 16 along K, then scales. kZeroApart: zero points as code*a - zero*a, each
// multiplied out.
enum class Order { kForward, kBackward, kBlocks, kZeroApart };

inline float f32_sum(const Instance& x, int64_t m, int64_t n, Order order) {
  const Problem& p = x.problem;
  float total = 0;
  float block = 0;
  for (int64_t step = 0; step < p.k; ++step) {
    const int64_t k = order == Order::kBackward ? p.k - 1 - step : step;
    const Parts a = parts(p.a, x.a, p.m, p.k, m, k);
    const Parts b = parts(p.b, x.b, p.n, p.k, n, k);
    switch (order) {
      case Order::kForward:
      case Order::kBackward:
        total += ((a.code - a.zero) * a.scale * a.global) * ((b.code - b.zero) * b.scale * b.global);
        break;
      case Order::kBlocks:
        block += (a.code - a.zero) * (b.code - b.zero);
        if (k % 16 == 15 || k + 1 == p.k) {
          total += block * ((a.scale * b.scale) * (a.global * b.global));
          block = 0;
        }
        break;
      case Order::kZeroApart: {
        const float s = a.scale * a.global * (b.scale * b.global);
        total += (a.code - a.zero) * b.code * s;
        total -= (a.code - a.zero) * b.zero * s;
        break;
      }
    }
  }
  return total;
}

inline float f32_activate(Activation activation, float v) {
  switch (activation) {
    case Activation::kRelu:
      return v < 0 ? 0.0f : v;
    case Activation::kGeluTanh:
      return 0.5f * v * (1 + std::tanh(0.797884561f * (v + 0.044715f * v * v * v)));
    case Activation::kGeluErf:
      return 0.5f * v * std::erfc(-v * 0.707106781f);
    case Activation::kSilu:
      return v / (1 + std::exp(-v));
    case Activation::kNone:
      break;
  }
  return v;
}

inline uint32_t f32_output(DType d, float v) {
  const bool ieee = num::info(d).bits >= 16;
  return num::encode(d, v, ieee ? num::Overflow::kIeee : num::Overflow::kSaturate);
}

// All of D, row-major codes of type problem.d.
inline std::vector<std::byte> f32_gemm(const Instance& x, Order order) {
  const Problem& p = x.problem;
  std::vector<std::byte> d(num::storage_bytes(p.d, p.m * p.n));
  for (int64_t m = 0; m < p.m; ++m) {
    for (int64_t n = 0; n < p.n; ++n) {
      float v = x.alpha * f32_sum(x, m, n, order);
      if (p.epilogue.c && x.beta != 0) {
        v += x.beta * x.c[static_cast<size_t>(m * p.n + n)];
      }
      if (p.epilogue.bias) {
        v += x.bias[static_cast<size_t>(n)];
      }
      v = f32_activate(p.epilogue.activation, v);
      v = v < p.epilogue.clamp_min   ? p.epilogue.clamp_min
          : v > p.epilogue.clamp_max ? p.epilogue.clamp_max
                                     : v;
      num::store_code(p.d, d.data(), m * p.n + n, f32_output(p.d, v));
    }
  }
  return d;
}

inline Comparison judge_output(const Instance& x, const std::vector<std::byte>& d,
                               Demand demand = Demand::kBound) {
  const Result<Reference> r = reference(x.problem, x.data(), whole(x.problem.m, x.problem.n));
  EXPECT_TRUE(r.ok()) << r.status().message();
  return r.ok() ? compare(*r, {d.data(), x.problem.n, 1}, demand) : Comparison{.wrong = -1};
}

}  // namespace scalegemm::ref
