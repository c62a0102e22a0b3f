#include "spec/problem.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string_view>

#include "num/name_list.h"

namespace scalegemm::spec {
namespace {

using num::info;
using num::is_packed4;
using num::name;

constexpr std::array kOperandTypes = {DType::kF32,      DType::kF16,  DType::kBf16,     DType::kE4m3,
                                      DType::kE4m3Fnuz, DType::kE5m2, DType::kE5m2Fnuz, DType::kE2m1,
                                      DType::kInt8,     DType::kInt4, DType::kUint4};
constexpr std::array kScaleTypes = {DType::kF32, DType::kF16, DType::kBf16, DType::kE8m0, DType::kE4m3};
constexpr std::array kZeroTypes = {DType::kInt8, DType::kInt4, DType::kUint4};
constexpr std::array kOutputTypes = {DType::kF32,  DType::kF16,  DType::kBf16,
                                     DType::kE4m3, DType::kE5m2, DType::kInt32};
constexpr std::array kVectorTypes = {DType::kF32, DType::kF16, DType::kBf16};  // bias and C

// `type` may come from a C caller: it is checked before any table is read.
Status expect_type(std::string_view argument, DType type, std::span<const DType> allowed) {
  if (std::ranges::find(allowed, type) != allowed.end()) {
    return ok_status();
  }
  const int value = static_cast<int>(type);
  const std::string given = num::is_valid(value) ? std::string(name(type)) : fmt::format("type {}", value);
  return invalid_argument("{}: needed one of {}; given {}", argument, num::name_list(allowed), given);
}

Status expect_block(std::string_view argument, int64_t block) {
  if (block < 0) {
    return invalid_argument("{}: needed a positive block, or 0 for the whole extent; given {}", argument,
                            block);
  }
  return ok_status();
}

Status validate_scale(std::string_view operand, DType type, const ScaleSpec& scale) {
  SCALEGEMM_RETURN_IF_ERROR(expect_type(fmt::format("{} scale type", operand), scale.type, kScaleTypes));
  SCALEGEMM_RETURN_IF_ERROR(expect_block(fmt::format("{} scale block_rows", operand), scale.block_rows));
  SCALEGEMM_RETURN_IF_ERROR(expect_block(fmt::format("{} scale block_k", operand), scale.block_k));
  if (is_packed4(type) && scale.block_k % 2 != 0) {
    return invalid_argument("{} scale block_k: needed an even block, as two {} codes share a byte; given {}",
                            operand, name(type), scale.block_k);
  }
  if (!scale.zero_type) {
    return ok_status();
  }
  SCALEGEMM_RETURN_IF_ERROR(
      expect_type(fmt::format("{} zero-point type", operand), *scale.zero_type, kZeroTypes));
  if (info(type).is_float) {
    return invalid_argument("{} zero-point type: needed none, as {} is a float type; given {}", operand,
                            name(type), name(*scale.zero_type));
  }
  return ok_status();
}

Status validate_operand(std::string_view operand, const OperandSpec& spec, int64_t k) {
  SCALEGEMM_RETURN_IF_ERROR(expect_type(fmt::format("{} type", operand), spec.type, kOperandTypes));
  if (spec.layout != Layout::kRow && spec.layout != Layout::kCol) {
    return invalid_argument("{} layout: needed row or column; given {}", operand,
                            static_cast<int>(spec.layout));
  }
  if (is_packed4(spec.type) && k % 2 != 0) {
    return invalid_argument("K: needed an even K, as two {} codes of {} share a byte; given {}",
                            name(spec.type), operand, k);
  }
  return spec.scale ? validate_scale(operand, spec.type, *spec.scale) : ok_status();
}

// The bytes of a contiguous matrix of every batch must be countable: offsets are int64.
Status expect_extent(std::string_view argument, int64_t rows, int64_t cols, int64_t batch, int bits) {
  int64_t elements = 0;
  int64_t total = 0;
  int64_t total_bits = 0;
  // Bits rather than bytes, so that 4-bit types need no rounding: 8 EiB less a factor of 8 is room enough.
  if (__builtin_mul_overflow(rows, cols, &elements) || __builtin_mul_overflow(elements, batch, &total) ||
      __builtin_mul_overflow(total, bits, &total_bits)) {
    return invalid_argument("{}: needed fewer than 2^63 bits; given {} x {} x {} elements of {} bits",
                            argument, batch, rows, cols, bits);
  }
  return ok_status();
}

Status validate_sizes(const Problem& p) {
  const struct {
    std::string_view argument;
    int64_t value;
  } sizes[] = {{"M", p.m}, {"N", p.n}, {"K", p.k}, {"batch", p.batch}};
  for (const auto& size : sizes) {
    if (size.value <= 0) {
      return invalid_argument("{}: needed a positive size; given {}", size.argument, size.value);
    }
  }
  return ok_status();
}

Status validate_extents(const Problem& p) {
  SCALEGEMM_RETURN_IF_ERROR(expect_extent("A", p.m, p.k, p.batch, info(p.a.type).bits));
  SCALEGEMM_RETURN_IF_ERROR(expect_extent("B", p.n, p.k, p.batch, info(p.b.type).bits));
  // Kernels keep f32 copies of operands and sums of D: those must be countable too.
  SCALEGEMM_RETURN_IF_ERROR(expect_extent("A as f32", p.m, p.k, p.batch, 32));
  SCALEGEMM_RETURN_IF_ERROR(expect_extent("B as f32", p.n, p.k, p.batch, 32));
  return expect_extent("D", p.m, p.n, p.batch, 32);
}

Status validate_epilogue(const Problem& p) {
  const EpilogueSpec& e = p.epilogue;
  if (e.bias) {
    SCALEGEMM_RETURN_IF_ERROR(expect_type("bias type", *e.bias, kVectorTypes));
  }
  if (e.c) {
    SCALEGEMM_RETURN_IF_ERROR(expect_type("C type", *e.c, kVectorTypes));
  }
  if (static_cast<int>(e.activation) > static_cast<int>(Activation::kSilu)) {
    return invalid_argument("activation: needed 0 to {}; given {}", static_cast<int>(Activation::kSilu),
                            static_cast<int>(e.activation));
  }
  if (!(e.clamp_min <= e.clamp_max)) {  // also refuses NaN
    return invalid_argument("clamp: needed clamp_min <= clamp_max; given {} and {}", e.clamp_min,
                            e.clamp_max);
  }
  return ok_status();
}

// int32 output is the raw integer product: anything that is arithmetic in f32 has no place in it.
Status validate_int32_output(const Problem& p) {
  if (p.a.type != DType::kInt8 || p.b.type != DType::kInt8) {
    return invalid_argument("D type: int32 needed int8 A and int8 B; given {} and {}", name(p.a.type),
                            name(p.b.type));
  }
  if (p.a.scale || p.b.scale) {
    return invalid_argument("D type: int32 needed operands without scales; given scales on {}",
                            !p.b.scale ? "A" : (p.a.scale ? "A and B" : "B"));
  }
  const EpilogueSpec& e = p.epilogue;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const bool clamped = e.clamp_min != -kInf || e.clamp_max != kInf;
  if (e.bias || e.c || e.activation != Activation::kNone || clamped) {
    return invalid_argument("D type: int32 needed no bias, C, activation or clamp; given {}",
                            e.bias ? "a bias" : (e.c ? "C" : (clamped ? "a clamp" : "an activation")));
  }
  return ok_status();
}

}  // namespace

Status validate(const Problem& p) {
  SCALEGEMM_RETURN_IF_ERROR(validate_sizes(p));
  SCALEGEMM_RETURN_IF_ERROR(validate_operand("A", p.a, p.k));
  SCALEGEMM_RETURN_IF_ERROR(validate_operand("B", p.b, p.k));
  SCALEGEMM_RETURN_IF_ERROR(validate_extents(p));
  SCALEGEMM_RETURN_IF_ERROR(expect_type("D type", p.d, kOutputTypes));
  SCALEGEMM_RETURN_IF_ERROR(validate_epilogue(p));
  if (static_cast<int>(p.b_packing) < -1 || static_cast<int>(p.b_packing) > 2) {
    return invalid_argument("B packing: needed -1 (chosen), 0 (raw), 1 (k1x32) or 2 (k4x16); given {}",
                            static_cast<int>(p.b_packing));
  }
  if (static_cast<int>(p.accuracy) > static_cast<int>(Accuracy::kExact)) {
    return invalid_argument("accuracy: needed 0 (promoted), 1 (fast) or 2 (exact); given {}",
                            static_cast<int>(p.accuracy));
  }
  return p.d == DType::kInt32 ? validate_int32_output(p) : ok_status();
}

Grid scale_grid(const ScaleSpec& scale, int64_t rows, int64_t k) {
  const auto blocks = [](int64_t extent, int64_t block) {
    return block == kAll ? int64_t{1} : extent / block + (extent % block != 0 ? 1 : 0);
  };
  return {blocks(rows, scale.block_rows), blocks(k, scale.block_k)};
}

}  // namespace scalegemm::spec
