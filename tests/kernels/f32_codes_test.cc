// Every code of every type through the kernels, every rounding of every output, every activation.
#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <cmath>
#include <cstring>

#include "common/panels.h"
#include "kernels/f32_case.h"
#include "kernels/f32_kernels.h"

namespace scalegemm::kernels {
namespace {

uint32_t bits_of_float(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}

constexpr uint32_t kOne = 0x3f800000;  // f32 1.0

class F32Codes : public testing::TestWithParam<F32KernelEntry> {};

// The codes of a type, a sample of f32.
std::vector<uint32_t> all_codes(int type) {
  std::vector<uint32_t> codes;
  if (bits_of(type) <= 16) {
    for (uint32_t i = 0; i < (1u << bits_of(type)); ++i) {
      codes.push_back(i);
    }
    return codes;
  }
  std::mt19937 random(5);
  for (int i = 0; i < 5000; ++i) {
    codes.push_back(static_cast<uint32_t>(random()));
  }
  return codes;
}

void expect_code(double got, int type, uint32_t code) {
  const double want = decode_code(type, code);
  if (std::isnan(want)) {
    ASSERT_TRUE(std::isnan(got)) << "type " << type << " code " << code << " gave " << got;
  } else {
    ASSERT_EQ(got, want) << "type " << type << " code " << code;
  }
}

TEST_P(F32Codes, EveryCodeOfBDecodesExactly) {
  const int type = GetParam().b_type;
  const std::vector<uint32_t> codes = all_codes(type);
  // Two k so that the 4-bit types fit; the second is multiplied by a code of 0.
  for (const int64_t m : {1, 4, 6}) {
    for (const int packed : {0, static_cast<int>(SG_PANEL_K1X32)}) {
      for (const int64_t used : {0, 1}) {
        Case c;
        c.m = m, c.n = static_cast<int64_t>(codes.size()), c.k = 2;
        c.b.type = type, c.b.packed = packed;
        Problem p(
            c, [&](int64_t, int64_t, int64_t k) { return k == used ? kOne : 0u; },
            [&](int64_t, int64_t n, int64_t k) { return k == used ? codes[static_cast<size_t>(n)] : 0u; });
        p.run(*GetParam().kernel);
        for (size_t n = 0; n < codes.size(); ++n) {
          ASSERT_NO_FATAL_FAILURE(expect_code(p.d(0, m - 1, static_cast<int64_t>(n)), type, codes[n]));
        }
      }
    }
  }
}

// A call must not depend on the caller's rounding or flush modes, and must leave them alone.
TEST_P(F32Codes, CallersFloatModeDoesNotMatter) {
  const int type = GetParam().b_type;
  const std::vector<uint32_t> codes = all_codes(type);
  Case c;
  c.m = 3, c.n = static_cast<int64_t>(codes.size()), c.k = 2;
  c.b.type = type;
  Problem p(
      c, [](int64_t, int64_t, int64_t k) { return k == 0 ? kOne : 0u; },
      [&](int64_t, int64_t n, int64_t k) { return k == 0 ? codes[static_cast<size_t>(n)] : 0u; });
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(0x1f80 | 0x8040 | 0x6000);  // flush to zero, denormals are zero, round toward zero
  p.run(*GetParam().kernel);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  EXPECT_EQ(after & 0xffc0u, 0x1f80u | 0x8040u | 0x6000u);
  for (size_t n = 0; n < codes.size(); ++n) {
    ASSERT_NO_FATAL_FAILURE(expect_code(p.d(0, 2, static_cast<int64_t>(n)), type, codes[n]));
  }
}

std::string name_of(const testing::TestParamInfo<F32KernelEntry>& info) {
  return std::string(info.param.name) + "_" + info.param.isa;
}

INSTANTIATE_TEST_SUITE_P(Kernels, F32Codes, testing::ValuesIn(f32_kernels()), name_of);

std::vector<F32KernelEntry> f32_only() {
  std::vector<F32KernelEntry> out;
  for (const F32KernelEntry& e : f32_kernels()) {
    if (e.b_type == SG_F32) {
      out.push_back(e);
    }
  }
  return out;
}

class F32Values : public testing::TestWithParam<F32KernelEntry> {};

TEST_P(F32Values, EveryCodeOfADecodesExactly) {
  for (const int type : {SG_F32, SG_F16, SG_BF16, SG_E4M3, SG_E4M3_FNUZ, SG_E5M2, SG_E5M2_FNUZ, SG_E2M1,
                         SG_INT8, SG_INT4, SG_UINT4}) {
    const std::vector<uint32_t> codes = all_codes(type);
    for (const Order order : {Order::kKContiguous, Order::kRowContiguous, Order::kStrided}) {
      Case c;
      c.m = static_cast<int64_t>(codes.size()), c.n = 1, c.k = 2;
      c.a.type = type, c.a.order = order;
      Problem p(
          c, [&](int64_t, int64_t m, int64_t k) { return k == 1 ? codes[static_cast<size_t>(m)] : 0u; },
          [&](int64_t, int64_t, int64_t k) { return k == 1 ? kOne : 0u; });
      p.run(*GetParam().kernel);
      for (size_t m = 0; m < codes.size(); ++m) {
        ASSERT_NO_FATAL_FAILURE(expect_code(p.d(0, static_cast<int64_t>(m), 0), type, codes[m]));
      }
    }
  }
}

// f32 inputs around every value of `type` and half-way between neighbours, and random ones.
std::vector<float> rounding_inputs(int type) {
  std::vector<float> x = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e30f, -1e30f, 1e-30f, -1e-30f, 0x1p-149f};
  std::mt19937 random(11);
  const auto near = [&](double v) {
    const auto f = static_cast<float>(v);
    for (const float y : {f, std::nextafter(f, INFINITY), std::nextafter(f, -INFINITY)}) {
      x.push_back(y);
      x.push_back(-y);
    }
  };
  const uint32_t step = bits_of(type) == 16 ? 13 : 1;
  for (uint32_t code = 0; type != SG_F32 && code + 1 < (1u << (bits_of(type) - 1)); code += step) {
    const double low = decode_code(type, code), high = decode_code(type, code + 1);
    if (std::isfinite(low) && std::isfinite(high)) {
      near(low);
      near((low + high) / 2);
    }
  }
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    float f;
    std::memcpy(&f, &bits, 4);
    x.push_back(f);
  }
  return x;
}

TEST_P(F32Values, OutputsRoundOnceToNearestEven) {
  for (const int type : {SG_F32, SG_F16, SG_BF16, SG_E4M3, SG_E4M3_FNUZ, SG_E5M2, SG_E5M2_FNUZ}) {
    const std::vector<float> x = rounding_inputs(type);
    Case c;
    c.m = 1, c.n = static_cast<int64_t>(x.size()), c.k = 1, c.d_type = type;
    Problem p(
        c, [](int64_t, int64_t, int64_t) { return kOne; },
        [&](int64_t, int64_t n, int64_t) { return bits_of_float(x[static_cast<size_t>(n)]); });
    p.run(*GetParam().kernel);
    for (size_t n = 0; n < x.size(); ++n) {
      const double want = round_to(type, static_cast<double>(x[n])), got = p.d(0, 0, static_cast<int64_t>(n));
      if (std::isnan(x[n])) {
        ASSERT_TRUE(std::isnan(got)) << "type " << type;
      } else {
        ASSERT_EQ(got, want) << "type " << type << " of " << x[n];
      }
    }
  }
}

TEST_P(F32Values, ActivationsAreAccurate) {
  std::vector<float> x;
  for (double v = 1e-6; v < 90; v *= 1.0005) {
    x.push_back(static_cast<float>(v));
    x.push_back(static_cast<float>(-v));
  }
  for (const int activation : {SG_ACT_GELU_TANH, SG_ACT_GELU_ERF, SG_ACT_SILU}) {
    Case c;
    c.m = 1, c.n = static_cast<int64_t>(x.size()), c.k = 1, c.activation = activation;
    Problem p(
        c, [](int64_t, int64_t, int64_t) { return kOne; },
        [&](int64_t, int64_t n, int64_t) { return bits_of_float(x[static_cast<size_t>(n)]); });
    p.run(*GetParam().kernel);
    double worst = 0;
    for (size_t n = 0; n < x.size(); ++n) {
      // Without the sum's own error: K = 1 with A = 1 is exact.
      const double v = static_cast<double>(x[n]);
      const double want = activation == SG_ACT_SILU ? v / (1 + std::exp(-v))
                          : activation == SG_ACT_GELU_ERF
                              ? 0.5 * v * std::erfc(-v / std::sqrt(2.0))
                              : v / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      const double got = p.d(0, 0, static_cast<int64_t>(n));
      if (std::abs(want) < 0x1p-120) {  // 1 + e^x overflows there and gives 0
        ASSERT_TRUE(std::abs(got) < 0x1p-119) << "activation " << activation << " of " << v;
        continue;
      }
      const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
      ASSERT_TRUE(std::abs(got - want) <= 5 * ulp)
          << "activation " << activation << " of " << v << ": " << got << ", not " << want;
      worst = std::max(worst, std::abs(got - want) / ulp);
    }
    RecordProperty("worst_ulp_" + std::to_string(activation), std::to_string(worst));
    std::printf("activation %d: %.2f ulp\n", activation, worst);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, F32Values, testing::ValuesIn(f32_only()), name_of);

}  // namespace
}  // namespace scalegemm::kernels
