// The CUDA quantisers, thread by thread on the host, against src/quant: the same bits for every kind of
// source, codes and scales. What the emulation cannot show, such as the fp8 instructions of sm_89 and later,
// is left to tests/gpu/quantizer_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "emulated/device.h"
// After the words above.
#include "cuda/quantize.cuh"
#undef asm
#include "num/bulk.h"
#include "quant/quantize.h"

namespace scalegemm {
namespace {

using cuda::QuantizeConfig;
using num::DType;

struct Shape {
  uint32_t rows, k;
};

// Blocks of normal numbers of all magnitudes, of zeros, of subnormals, with an outlier, a NaN, an infinity.
std::vector<float> make_values(std::mt19937& random, Shape shape, uint32_t block) {
  std::vector<float> values(size_t{shape.rows} * shape.k);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < values.size(); i += block) {
    const auto kind = static_cast<uint32_t>(random() % 12);
    const float scale = std::ldexp(1.0f, kind == 1   ? -140
                                         : kind == 2 ? 120
                                                     : static_cast<int>(random() % 60) - 30);
    const size_t end = std::min(values.size(), i + block);
    for (size_t j = i; j < end; ++j) {
      values[j] = kind == 0 ? (random() % 2 == 0 ? 0.0f : -0.0f) : normal(random) * scale;
    }
    float& any = values[i + random() % (end - i)];
    any = kind == 3   ? std::ldexp(scale, 30)
          : kind == 4 ? std::numeric_limits<float>::quiet_NaN()
          : kind == 5 ? -std::numeric_limits<float>::infinity()
                      : any;
  }
  return values;
}

template <QuantizeConfig c>
void launch(const SgQuantize& p) {
  const uint32_t lanes = c.group / SG_QUANTIZE_UNIT;
  const uint32_t rows = cuda::ceil_div(p.rows, 1u << p.row_shift) << p.row_shift;
  const uint32_t ctas = c.group == 0
                            ? cuda::ceil_div(p.rows, c.rows_per_cta())
                            : cuda::ceil_div(rows * cuda::ceil_div(p.k, c.group == 0 ? 1 : c.group) * lanes,
                                             cuda::kQuantizeThreads);
  for (uint32_t cta = 0; cta < ctas; ++cta) {
    emulated::Cta::now().run(cta, cuda::kQuantizeThreads, [&] { cuda::quantize<c>(p); });
  }
}

template <QuantizeConfig c>
void compare(std::mt19937& random, Shape shape) {
  const auto source = static_cast<DType>(c.source);
  const auto codes = static_cast<DType>(c.codes);
  shape.k += c.codes == SG_E2M1 ? shape.k % 2 : 0;
  std::vector<float> values = make_values(random, shape, c.group == 0 ? shape.k : c.group);
  std::vector<std::byte> input(num::storage_bytes(source, static_cast<int64_t>(values.size())) + 16);
  const size_t skew = random() % 2 * num::storage_bytes(source, 1);
  num::encode_array(source, values, num::Overflow::kIeee, input.data() + skew);
  num::decode_array(source, input.data() + skew, values);
  const spec::OperandSpec operand = {
      .type = codes,
      .scale =
          spec::ScaleSpec{.type = c.e8m0 ? DType::kE8m0 : DType::kF32, .block_rows = 1, .block_k = c.group}};
  const auto rounding = static_cast<quant::ScaleRounding>(random() % 3);
  const auto wanted = quant::quantize(
      operand, {.data = values.data(), .rows = shape.rows, .k = shape.k, .stride_r = shape.k}, {rounding});
  ASSERT_TRUE(wanted.ok()) << wanted.status().message();

  constexpr auto kPoison = std::byte{0xA5};
  std::vector<std::byte> out(wanted->codes.size() + 32, kPoison);
  std::vector<std::byte> scales(wanted->scales.size(), kPoison);
  SgQuantize p{};
  p.source = input.data() + skew;
  p.source_stride = shape.k;
  p.codes = out.data() + 16;
  p.code_stride = num::bytes_of(codes, shape.k);
  p.scales = scales.data();
  p.scale_stride_row = wanted->grid.cols;
  p.scale_stride_k = 1;
  p.row_shift = random() % 2 * 3;
  p.rows = shape.rows;
  p.k = shape.k;
  p.rounding = static_cast<uint32_t>(rounding);
  launch<c>(p);
  const std::string what = fmt::format("{} to {}, group {}, e8m0 {}, {} x {}, rounding {}", num::name(source),
                                       num::name(codes), c.group, c.e8m0, shape.rows, shape.k, p.rounding);
  ASSERT_EQ(scales, wanted->scales) << what;
  ASSERT_TRUE(std::equal(wanted->codes.begin(), wanted->codes.end(), out.begin() + 16)) << what;
  EXPECT_EQ(std::count(out.begin(), out.begin() + 16, kPoison), 16) << what;
  EXPECT_EQ(std::count(out.end() - 16, out.end(), kPoison), 16) << what;
}

template <SgDType kSource, SgDType kCodes, bool kE8m0>
void compare_groups() {
  std::mt19937 random(kSource * 100 + kCodes * 2 + kE8m0);
  for (const Shape shape : {Shape{1, 1}, {3, 15}, {2, 16}, {5, 17}, {7, 127}, {9, 257}, {3, 1031}}) {
    compare<{.source = kSource, .codes = kCodes, .group = 16, .e8m0 = kE8m0}>(random, shape);
    compare<{.source = kSource, .codes = kCodes, .group = 128, .e8m0 = kE8m0}>(random, shape);
    compare<{.source = kSource, .codes = kCodes, .group = 0, .e8m0 = kE8m0, .warps_per_row = 2}>(random,
                                                                                                 shape);
  }
  // Past the registers of a row's threads.
  compare<{.source = kSource, .codes = kCodes, .group = 0, .e8m0 = kE8m0, .warps_per_row = 2}>(random,
                                                                                               {5, 5003});
}

template <SgDType kSource>
void compare_codes() {
  compare_groups<kSource, SG_E4M3, false>();
  compare_groups<kSource, SG_E5M2, false>();
  compare_groups<kSource, SG_E2M1, false>();
  compare_groups<kSource, SG_INT8, false>();
  compare_groups<kSource, SG_E4M3, true>();
  compare_groups<kSource, SG_E5M2, true>();
  compare_groups<kSource, SG_E2M1, true>();
  compare_groups<kSource, SG_INT8, true>();
}

TEST(EmulatedQuantizer, F32) {
  compare_codes<SG_F32>();
}
TEST(EmulatedQuantizer, F16) {
  compare_codes<SG_F16>();
}
TEST(EmulatedQuantizer, Bf16) {
  compare_codes<SG_BF16>();
}

// Division by scales at the ends of f32 and between: every rounding of x / s.
TEST(EmulatedQuantizer, DividesAsTheHostDoes) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000000; ++i) {
    const uint32_t amax = static_cast<uint32_t>(random()) % 0x7f800000u;
    const cuda::GroupScale<SG_E4M3, false> scale(amax, 0);
    const float s = std::bit_cast<float>(scale.code);
    // Elements down to those whose code is 0, half of them near halves of a code.
    const uint32_t low = amax > 0x0a000000u ? amax - 0x0a000000u : 0;
    float x = std::bit_cast<float>(low + static_cast<uint32_t>(random()) % (amax - low + 1));
    if (i % 2 == 0) {
      const float near = s * (static_cast<float>(random() % 896) * 0.5f);
      x = std::isfinite(near) && near <= std::bit_cast<float>(amax) ? near : x;
    }
    const float wanted = x / s;
    const float got = scale.divide(i % 3 == 0 ? -x : x);
    if (wanted > 0x1p-20f) {
      ASSERT_EQ(std::fabs(got), wanted) << std::hexfloat << x << " / " << s;
    } else {
      ASSERT_LE(std::fabs(got), 0x1p-19f) << std::hexfloat << x << " / " << s;
    }
    ASSERT_EQ(std::signbit(got), i % 3 == 0);
  }
}

}  // namespace
}  // namespace scalegemm
