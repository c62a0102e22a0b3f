// The oracle accepts every honest f32 kernel and refuses small lies.
#include "ref/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ref/support.h"

namespace scalegemm::ref {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr Order kOrders[] = {Order::kForward, Order::kBackward, Order::kBlocks, Order::kZeroApart};

double number(DType type, const std::vector<std::byte>& codes, int64_t index) {
  return num::decode_double(type, num::load_code(type, codes.data(), index));
}

void put(DType type, std::vector<std::byte>& codes, int64_t index, float value) {
  num::store_code(type, codes.data(), index, num::encode(type, value, num::Overflow::kIeee));
}

// A 1 x 1 problem of f32 vectors.
Instance vectors(const std::vector<float>& a, const std::vector<float>& b, DType d) {
  Instance x =
      make_instance(operand(DType::kF32), operand(DType::kF32), d, {1, 1, static_cast<int64_t>(a.size())}, 1);
  std::memcpy(x.a.codes.data(), a.data(), x.a.codes.size());
  std::memcpy(x.b.codes.data(), b.data(), x.b.codes.size());
  return x;
}

Element only_element(const Instance& x) {
  const Result<Reference> r = reference(x.problem, x.data(), whole(1, 1));
  EXPECT_TRUE(r.ok()) << r.status().message();
  return r->elements.at(0);
}

// Is `value` an output the oracle takes for this 1 x 1 problem?
bool accepts(const Instance& x, float value) {
  std::vector<std::byte> d(4);
  num::store_code(x.problem.d, d.data(), 0, f32_output(x.problem.d, value));
  return judge_output(x, d).ok();
}

TEST(Reference, ExactValuesAreTheDefinition) {
  for (const Scheme& s : schemes()) {
    const Instance x = make_instance(s.a, s.b, DType::kF32, {3, 4, 70}, 2);
    const Result<Reference> r = reference(x.problem, x.data(), whole(3, 4));
    ASSERT_TRUE(r.ok()) << r.status().message();
    for (int64_t m = 0; m < 3; ++m) {
      for (int64_t n = 0; n < 4; ++n) {
        long double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < 70; ++k) {
          const double product = parts(s.a, x.a, 3, 70, m, k).value() * parts(s.b, x.b, 4, 70, n, k).value();
          sum += product;
          magnitude += std::fabs(product);
        }
        EXPECT_NEAR(r->elements[static_cast<size_t>(m * 4 + n)].exact, static_cast<double>(sum),
                    1e-13 * static_cast<double>(magnitude))
            << s.name;
      }
    }
  }
}

TEST(Reference, HonestKernelsPass) {
  double worst = 0;
  for (const Scheme& s : schemes()) {
    for (DType d : {DType::kF32, DType::kBf16, DType::kF16, DType::kE4m3, DType::kE5m2}) {
      for (int64_t k : {2, 34, 256, 1030}) {
        Instance x = make_instance(s.a, s.b, d, {3, 5, k}, static_cast<uint32_t>(k));
        x.alpha = 0.003f;
        for (Order order : kOrders) {
          const Comparison c = judge_output(x, f32_gemm(x, order));
          EXPECT_TRUE(c.ok()) << s.name << " " << num::name(d) << " K " << k;
          EXPECT_EQ(c.compared, 15);
          EXPECT_EQ(c.unjudged, 0);
          worst = std::max(worst, c.worst_ratio);
        }
      }
    }
  }
  EXPECT_LE(worst, 1.0);
  EXPECT_GT(worst, 0.9);  // roundings to narrow types come near half a unit
}

TEST(Reference, EpiloguesPass) {
  for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGeluTanh,
                                Activation::kGeluErf, Activation::kSilu}) {
    for (DType d : {DType::kF32, DType::kBf16, DType::kF16, DType::kE4m3}) {
      for (float range : {0.001f, 0.03f, 1.0f}) {
        Instance x = make_instance(operand(DType::kE4m3, blocks(DType::kF32, 1, 32)),
                                   operand(DType::kE4m3, blocks(DType::kF32, 1, 32)), d, {16, 16, 64}, 3);
        x.problem.epilogue.activation = activation;
        x.problem.epilogue.bias = DType::kF32;
        x.problem.epilogue.c = DType::kF32;
        x.problem.epilogue.clamp_min = -0.15f;
        x.problem.epilogue.clamp_max = 20.0f;
        x.alpha = range;
        x.beta = range;
        for (float& bias : x.bias) {
          bias *= range;
        }
        for (Order order : kOrders) {
          const Comparison c = judge_output(x, f32_gemm(x, order));
          EXPECT_TRUE(c.ok()) << static_cast<int>(activation) << " " << num::name(d) << " got "
                              << c.first->got << " expected " << c.first->expected;
        }
      }
    }
  }
}

// Small lies in otherwise honest results, each told for every scheme.
TEST(Reference, LiesAreFound) {
  for (const Scheme& s : schemes()) {
    const Instance x = make_instance(s.a, s.b, DType::kF32, {4, 6, 64}, 5);
    const std::vector<std::byte> honest = f32_gemm(x, Order::kForward);
    ASSERT_TRUE(judge_output(x, honest).ok()) << s.name;
    std::vector<std::byte> d = honest;
    put(DType::kF32, d, 7, kNan);
    Comparison c = judge_output(x, d);
    EXPECT_EQ(c.wrong, 1) << s.name;
    EXPECT_EQ(c.first->m, 1);
    EXPECT_EQ(c.first->n, 1);
    EXPECT_TRUE(std::isnan(c.first->got));
    EXPECT_TRUE(std::isinf(c.worst_ratio));
    d = honest;
    put(DType::kF32, d, 9, 0.0f);
    EXPECT_EQ(judge_output(x, d).wrong, 1) << s.name;
    // One product of a sum missing: the largest one.
    d = honest;
    double largest = 0;
    for (int64_t k = 0; k < 64; ++k) {
      const double product = parts(s.a, x.a, 4, 64, 2, k).value() * parts(s.b, x.b, 6, 64, 3, k).value();
      largest = std::fabs(product) > std::fabs(largest) ? product : largest;
    }
    put(DType::kF32, d, 15, static_cast<float>(number(DType::kF32, honest, 15) - largest));
    c = judge_output(x, d);
    EXPECT_EQ(c.wrong, 1) << s.name;
    EXPECT_GT(c.first->bound, 0.0);
    EXPECT_GT(c.worst_ratio, 100.0) << s.name;
    // A sign.
    d = honest;
    put(DType::kF32, d, 3, static_cast<float>(-number(DType::kF32, honest, 3)));
    EXPECT_EQ(judge_output(x, d).wrong, 1) << s.name;
  }
}

// Wrong scales, nibbles and zero points: the kernel reads memory that was tampered with.
TEST(Reference, MisreadOperandsAreFound) {
  int tampered = 0;
  for (const Scheme& s : schemes()) {
    const Instance x = make_instance(s.a, s.b, DType::kBf16, {3, 5, 128}, 6);
    const auto expect_found = [&](const Instance& liar, const char* what) {
      ++tampered;
      EXPECT_FALSE(judge_output(x, f32_gemm(liar, Order::kForward)).ok()) << s.name << " " << what;
    };
    if (num::is_packed4(s.b.type)) {
      Instance liar = x;
      for (std::byte& pair : liar.b.codes) {
        pair = (pair << 4) | (pair >> 4);
      }
      expect_found(liar, "nibbles swapped");
    }
    if (s.b.scale && x.b.grid.cols > 1) {
      Instance liar = x;
      const int64_t size = num::info(s.b.scale->type).bits / 8;
      std::rotate(liar.b.scales.begin(), liar.b.scales.begin() + size, liar.b.scales.end());
      expect_found(liar, "scales shifted by one block");
    }
    if (s.b.scale && s.b.scale->zero_type) {
      Instance liar = x;
      for (std::byte& zero : liar.b.zeros) {
        zero ^= std::byte{1};
      }
      expect_found(liar, "zero points off by one");
    }
    if (s.b.scale && s.b.scale->global) {
      Instance liar = x;
      liar.b.global *= 1.02f;
      expect_found(liar, "global factor off by 2%");
    }
  }
  EXPECT_GE(tampered, 15);
}

// f32 outputs may be off by about K units; narrower ones only by their own rounding.
TEST(Reference, OneUnitOfANarrowOutputIsFound) {
  for (DType d : {DType::kBf16, DType::kF16, DType::kE4m3, DType::kE5m2}) {
    Instance x = make_instance(operand(DType::kE2m1, blocks(DType::kE8m0, 1, 32)),
                               operand(DType::kE2m1, blocks(DType::kE8m0, 1, 32)), d, {8, 8, 64}, 7);
    x.alpha = 0.01f;
    const std::vector<std::byte> honest = f32_gemm(x, Order::kBlocks);
    int found = 0;
    for (int64_t i = 0; i < 64; ++i) {
      const uint32_t code = num::load_code(d, honest.data(), i);
      if ((code & 0x7F) >= 0x7B || (code & 0x7F) == 0) {
        continue;  // no neighbour above
      }
      for (uint32_t beside : {code - 1, code + 1}) {
        std::vector<std::byte> lie = honest;
        num::store_code(d, lie.data(), i, beside);
        found += judge_output(x, lie).ok() ? 0 : 1;
      }
    }
    // A neighbour passes only where the exact value lies within the error of a rounding boundary: seldom.
    EXPECT_GE(found, 100) << num::name(d);
  }
}

TEST(Reference, WrongActivationIsFound) {
  for (Activation wrong : {Activation::kNone, Activation::kRelu, Activation::kGeluTanh, Activation::kSilu}) {
    Instance x = make_instance(operand(DType::kBf16), operand(DType::kBf16), DType::kF32, {8, 8, 16}, 8);
    x.problem.epilogue.activation = Activation::kGeluErf;
    Instance liar = x;
    liar.problem.epilogue.activation = wrong;
    EXPECT_FALSE(judge_output(x, f32_gemm(liar, Order::kForward)).ok()) << static_cast<int>(wrong);
    EXPECT_TRUE(judge_output(x, f32_gemm(x, Order::kForward)).ok());
  }
}

// Rounding errors of a constant sequence all have one sign within a binade: far more than the square root of
// K units, and still inside the bound, which therefore must grow like K.
TEST(Reference, OneSidedRoundingErrorsPass) {
  const int64_t k = 1 << 20;
  const Instance x = vectors(std::vector<float>(static_cast<size_t>(k), 1.0f),
                             std::vector<float>(static_cast<size_t>(k), 0.1f), DType::kF32);
  const float sum = f32_sum(x, 0, 0, Order::kForward);
  const double relative = std::fabs(static_cast<double>(sum) / (0.1f * static_cast<double>(k)) - 1);
  EXPECT_GT(relative, 8 * std::sqrt(static_cast<double>(k)) * 0x1p-24);
  EXPECT_TRUE(accepts(x, sum));
  EXPECT_FALSE(accepts(x, sum * 1.1f));
}

TEST(Output, NarrowFloatsSaturateWideOnesOverflow) {
  const struct {
    DType d;
    float sum;
    float right, wrong;
  } rows[] = {
      {DType::kE4m3, 1000.0f, 448.0f, kNan},      {DType::kE4m3, -1000.0f, -448.0f, 448.0f},
      {DType::kE5m2, 1e6f, 57344.0f, 49152.0f},   {DType::kF16, 70000.0f, kInf, 65504.0f},
      {DType::kF16, -70000.0f, -kInf, -65504.0f}, {DType::kBf16, 1e30f, 1e30f, 1.01e30f},
      {DType::kF16, 65503.0f, 65504.0f, kInf},
  };
  for (const auto& row : rows) {
    const Instance x = vectors({row.sum}, {1.0f}, row.d);
    EXPECT_TRUE(accepts(x, row.right)) << num::name(row.d) << " " << row.sum;
    if (row.d == DType::kE5m2 || !std::isinf(row.wrong)) {
      EXPECT_FALSE(accepts(x, row.wrong)) << num::name(row.d) << " " << row.sum;
    }
  }
  // e5m2 saturates: its infinity is wrong.
  std::vector<std::byte> d(1, std::byte{0x7C});
  EXPECT_FALSE(judge_output(vectors({1e6f}, {1.0f}, DType::kE5m2), d).ok());
  // At f16's overflow threshold either side of it is right, NaN is not.
  const Instance edge = vectors({65520.0f, -0.001f}, {1.0f, 1.0f}, DType::kF16);
  EXPECT_TRUE(accepts(edge, 65504.0f));
  EXPECT_TRUE(accepts(edge, kInf));
  EXPECT_FALSE(accepts(edge, kNan));
  EXPECT_FALSE(accepts(edge, 65472.0f));
}

TEST(Output, SubnormalOutputsAreRoundedToTheirSpacing) {
  const Instance x = vectors({0x1.8p-25f}, {1.0f}, DType::kF16);  // 3/4 of the smallest f16
  EXPECT_TRUE(accepts(x, 0x1p-24f));
  EXPECT_FALSE(accepts(x, 0.0f));
  EXPECT_FALSE(accepts(x, 0x1p-23f));
}

TEST(Output, Int32IsExact) {
  Instance x = make_instance(operand(DType::kInt8), operand(DType::kInt8), DType::kInt32, {3, 4, 1001}, 9);
  std::vector<std::byte> d(48);
  for (int64_t m = 0; m < 3; ++m) {
    for (int64_t n = 0; n < 4; ++n) {
      int32_t sum = 0;
      for (int64_t k = 0; k < 1001; ++k) {
        sum += static_cast<int32_t>(parts(x.problem.a, x.a, 3, 1001, m, k).code) *
               static_cast<int32_t>(parts(x.problem.b, x.b, 4, 1001, n, k).code);
      }
      num::store_code(DType::kInt32, d.data(), m * 4 + n, static_cast<uint32_t>(sum));
    }
  }
  EXPECT_TRUE(judge_output(x, d).ok());
  EXPECT_EQ(judge_output(x, d).worst_ratio, 0.0);
  num::store_code(DType::kInt32, d.data(), 6, num::load_code(DType::kInt32, d.data(), 6) + 1);
  const Comparison c = judge_output(x, d);
  EXPECT_EQ(c.wrong, 1);
  EXPECT_EQ(c.first->m, 1);
  EXPECT_EQ(c.first->n, 2);
  EXPECT_EQ(c.first->got, c.first->expected + 1);
  EXPECT_EQ(c.first->bound, 0.0);
}

TEST(Special, NanAndInfinityPropagate) {
  for (DType d : {DType::kF32, DType::kBf16, DType::kF16, DType::kE4m3, DType::kE5m2}) {
    for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGeluTanh,
                                  Activation::kGeluErf, Activation::kSilu}) {
      SCOPED_TRACE(std::string(num::name(d)) + " " + std::to_string(static_cast<int>(activation)));
      const auto with = [&](float a, float b) {
        Instance x = vectors({a, 1.0f}, {b, 1.0f}, d);
        x.problem.epilogue.activation = activation;
        x.problem.epilogue.clamp_max = 1e30f;
        return x;
      };
      const Instance nan = with(kNan, 0.0f);
      EXPECT_TRUE(accepts(nan, kNan));
      EXPECT_FALSE(accepts(nan, 0.0f));
      EXPECT_FALSE(accepts(nan, 1e30f));
      EXPECT_TRUE(accepts(with(kInf, 0.0f), kNan));
      EXPECT_FALSE(accepts(with(kInf, 0.0f), 1.0f));
      const Instance inf = with(kInf, 2.0f);
      EXPECT_TRUE(accepts(inf, 1e30f));  // clamped, then rounded as the type wants
      EXPECT_FALSE(accepts(inf, kNan));
      EXPECT_FALSE(accepts(inf, 1.0f));
    }
  }
  Instance relu = vectors({-kInf}, {1.0f}, DType::kF32);
  EXPECT_TRUE(accepts(relu, -kInf));
  EXPECT_FALSE(accepts(relu, kNan));
  relu.problem.epilogue.activation = Activation::kRelu;
  EXPECT_TRUE(accepts(relu, 0.0f));
  EXPECT_FALSE(accepts(relu, -1.0f));
  relu.problem.epilogue.activation = Activation::kSilu;
  EXPECT_EQ(only_element(relu).rule, Rule::kAny);
}

TEST(Special, OneNanStaysInItsRow) {
  Instance x = make_instance(operand(DType::kE4m3, blocks(DType::kE8m0, 1, 32)),
                             operand(DType::kE4m3, blocks(DType::kE8m0, 1, 32)), DType::kF32, {4, 4, 64}, 10);
  x.a.scales[2 * 2 + 1] = std::byte{255};
  const std::vector<std::byte> d = f32_gemm(x, Order::kBlocks);
  EXPECT_TRUE(judge_output(x, d).ok());
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(std::isnan(number(DType::kF32, d, i)), i / 4 == 2);
  }
  Instance healthy = x;
  healthy.a.scales[2 * 2 + 1] = std::byte{127};
  EXPECT_EQ(judge_output(x, f32_gemm(healthy, Order::kBlocks)).wrong, 4);
}

TEST(Special, OverflowOnTheWayIsNotJudged) {
  const Instance x =
      vectors({3e38f, 3e38f, -3e38f}, {1.0f, 1.0f, 1.0f}, DType::kF32);  // inf or 3e38, by the order
  EXPECT_EQ(only_element(x).rule, Rule::kAny);
  std::vector<std::byte> d(4);
  put(DType::kF32, d, 0, kInf);
  EXPECT_EQ(judge_output(x, d).unjudged, 1);
  EXPECT_EQ(judge_output(x, d).compared, 1);
  // Scales whose product overflows although codes are small; and the reverse: far apart, but in range.
  for (const auto& [sa, sb, rule] :
       {std::tuple(254, 254, Rule::kAny), {200, 60, Rule::kInterval}, {10, 10, Rule::kInterval}}) {
    Instance y =
        make_instance(operand(DType::kE2m1, blocks(DType::kE8m0, 1, 32)),
                      operand(DType::kE2m1, blocks(DType::kE8m0, 1, 32)), DType::kF32, {1, 1, 32}, 11);
    y.a.scales[0] = static_cast<std::byte>(sa);
    y.b.scales[0] = static_cast<std::byte>(sb);
    EXPECT_EQ(only_element(y).rule, rule) << sa << " " << sb;
    if (rule == Rule::kInterval) {
      for (Order order : kOrders) {
        EXPECT_TRUE(judge_output(y, f32_gemm(y, order)).ok());
      }
    }
  }
}

// A sum of codes times an infinite scale is infinite; a single code of 0 times it is NaN: both are honest.
TEST(Special, InfiniteScalesAreNotJudged) {
  Instance x = make_instance(operand(DType::kE4m3, blocks(DType::kF32, 1, 32)), operand(DType::kE4m3),
                             DType::kF32, {1, 1, 32}, 15);
  EXPECT_EQ(only_element(x).rule, Rule::kInterval);
  num::store_code(DType::kF32, x.a.scales.data(), 0, 0x7F800000u);
  EXPECT_EQ(only_element(x).rule, Rule::kAny);
}

TEST(Special, CIsNotReadWhenBetaIsZero) {
  Instance x = vectors({2.0f}, {3.0f}, DType::kF32);
  x.problem.epilogue.c = DType::kF32;
  x.c[0] = kNan;
  EXPECT_TRUE(accepts(x, 6.0f));
  x.beta = 1;
  EXPECT_TRUE(accepts(x, kNan));
  EXPECT_FALSE(accepts(x, 6.0f));
}

TEST(Compare, ExactDemandsBits) {
  Instance x = vectors({1.0f, 3.0f}, {1.0f, 0x1p-20f}, DType::kF32);
  std::vector<std::byte> d(4);
  put(DType::kF32, d, 0, 1.0f + 0x3p-20f);
  EXPECT_TRUE(judge_output(x, d, Demand::kExact).ok());
  put(DType::kF32, d, 0, std::nextafter(1.0f + 0x3p-20f, 2.0f));
  EXPECT_TRUE(judge_output(x, d, Demand::kBound).ok());
  const Comparison c = judge_output(x, d, Demand::kExact);
  EXPECT_EQ(c.wrong, 1);
  EXPECT_EQ(c.first->bound, 0.0);
  EXPECT_EQ(c.first->expected, static_cast<double>(1.0f + 0x3p-20f));
}

TEST(Compare, StridesOfEveryOperand) {
  // Everything transposed or spread out: 4-bit bytes of B are N x K/2 with n contiguous, D is column-major.
  const OperandSpec a = operand(DType::kBf16), b = operand(DType::kInt4, blocks(DType::kF16, 1, 16));
  const Instance x = make_instance(a, b, DType::kBf16, {5, 7, 32}, 12);
  std::vector<std::byte> at(x.a.codes.size()), bt(x.b.codes.size()), st(x.b.scales.size());
  for (int64_t m = 0; m < 5; ++m) {
    for (int64_t k = 0; k < 32; ++k) {
      num::store_code(DType::kBf16, at.data(), k * 5 + m,
                      num::load_code(DType::kBf16, x.a.codes.data(), m * 32 + k));
    }
  }
  for (int64_t n = 0; n < 7; ++n) {
    for (int64_t i = 0; i < 16; ++i) {
      bt[static_cast<size_t>(i * 7 + n)] = x.b.codes[static_cast<size_t>(n * 16 + i)];
    }
    for (int64_t j = 0; j < 2; ++j) {
      num::store_code(DType::kF16, st.data(), j * 7 + n,
                      num::load_code(DType::kF16, x.b.scales.data(), n * 2 + j));
    }
  }
  GemmData data = x.data();
  data.a = {.codes = at.data(), .stride_r = 1, .stride_k = 5};
  data.b = {.codes = bt.data(), .stride_r = 1, .stride_k = 7, .scales = {st.data(), 1, 7}};
  const Result<Reference> plain = reference(x.problem, x.data(), whole(5, 7));
  const Result<Reference> strided = reference(x.problem, data, whole(5, 7));
  ASSERT_TRUE(plain.ok() && strided.ok());
  for (size_t i = 0; i < 35; ++i) {
    EXPECT_EQ(plain->elements[i].exact, strided->elements[i].exact);
  }
  const std::vector<std::byte> d = f32_gemm(x, Order::kForward);
  std::vector<std::byte> dt(d.size());
  for (int64_t i = 0; i < 35; ++i) {
    num::store_code(DType::kBf16, dt.data(), i % 7 * 5 + i / 7, num::load_code(DType::kBf16, d.data(), i));
  }
  EXPECT_TRUE(compare(*strided, {dt.data(), 1, 5}, Demand::kBound).ok());
  EXPECT_FALSE(compare(*strided, {d.data(), 1, 5}, Demand::kBound).ok());
}

TEST(Sampling, ASampleGivesTheElementsOfTheWhole) {
  const Instance x =
      make_instance(operand(DType::kE4m3, blocks(DType::kF32, 128, 128)),
                    operand(DType::kE4m3, blocks(DType::kF32, 128, 128)), DType::kF32, {150, 140, 130}, 13);
  const Result<Reference> all = reference(x.problem, x.data(), whole(150, 140));
  const Sample sample = choose_sample(150, 140, {.rows = 9, .cols = 7}, 42);
  const Result<Reference> some = reference(x.problem, x.data(), sample);
  ASSERT_TRUE(all.ok() && some.ok());
  ASSERT_EQ(sample.rows.size(), 9u);
  ASSERT_EQ(sample.cols.size(), 7u);
  EXPECT_EQ(sample.rows.front(), 0);
  EXPECT_EQ(sample.rows.back(), 149);
  EXPECT_EQ(sample.cols[1], 1);
  EXPECT_EQ(sample.cols[5], 138);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_TRUE(i == 0 || sample.rows[i - 1] < sample.rows[i]);
    for (size_t j = 0; j < 7; ++j) {
      const Element& e = some->elements[i * 7 + j];
      const Element& f = all->elements[static_cast<size_t>(sample.rows[i] * 140 + sample.cols[j])];
      EXPECT_EQ(e.exact, f.exact);
      EXPECT_EQ(e.low, f.low);
    }
  }
  EXPECT_EQ(choose_sample(150, 140, {.rows = 9, .cols = 7}, 42).rows, sample.rows);
  EXPECT_NE(choose_sample(150, 140, {.rows = 9, .cols = 7}, 43).rows, sample.rows);
  for (int64_t extent = 1; extent <= 8; ++extent) {
    for (int64_t most = 1; most <= 9; ++most) {
      const Sample s = choose_sample(extent, 1, {.rows = most, .cols = 1}, 1);
      EXPECT_EQ(static_cast<int64_t>(s.rows.size()), std::min(extent, most));
      EXPECT_EQ(std::adjacent_find(s.rows.begin(), s.rows.end(), std::greater_equal<>()), s.rows.end());
    }
  }
}

TEST(Errors, NameTheArgument) {
  const Instance x = make_instance(operand(DType::kBf16), operand(DType::kInt4, blocks(DType::kF16, 1, 16)),
                                   DType::kF32, {2, 2, 32}, 14);
  const auto message = [](const Problem& problem, const GemmData& data, const Sample& sample) {
    const Result<Reference> r = reference(problem, data, sample);
    EXPECT_FALSE(r.ok());
    return r.ok() ? std::string() : r.status().message();
  };
  EXPECT_NE(message(x.problem, x.data(), {{0, 2}, {0}}).find("sample rows: needed 0 to 1; given 2"),
            std::string::npos);
  EXPECT_NE(message(x.problem, x.data(), {{0}, {-1}}).find("sample columns"), std::string::npos);
  EXPECT_NE(message(x.problem, x.data(), {{}, {0}}).find("at least one"), std::string::npos);
  GemmData data = x.data();
  data.b.scales.data = nullptr;
  EXPECT_NE(message(x.problem, data, whole(2, 2)).find("B scales"), std::string::npos);
  data = x.data();
  data.a.codes = nullptr;
  EXPECT_NE(message(x.problem, data, whole(2, 2)).find("A codes"), std::string::npos);
  Problem problem = x.problem;
  problem.k = 31;
  EXPECT_NE(message(problem, x.data(), whole(2, 2)).find("even K"), std::string::npos);
  problem = x.problem;
  problem.epilogue.bias = DType::kF32;
  data = x.data();
  data.bias = nullptr;
  EXPECT_NE(message(problem, data, whole(2, 2)).find("bias"), std::string::npos);
}

}  // namespace
}  // namespace scalegemm::ref
