// The error model: constants, growth, intervals at the ends of types.
#include "ref/bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "num/convert.h"
#include "ref/support.h"

namespace scalegemm::ref {
namespace {

constexpr Activation kAll5[] = {Activation::kNone, Activation::kRelu, Activation::kGeluTanh,
                                Activation::kGeluErf, Activation::kSilu};

Problem problem_of(int64_t k, DType d = DType::kF32) {
  Problem p;
  p.m = p.n = 1;
  p.k = k;
  p.a = operand(DType::kE4m3, blocks(DType::kF32, 1, 32));
  p.b = operand(DType::kE4m3, blocks(DType::kF32, 1, 32));
  p.d = d;
  return p;
}

// One bf16 subnormal against 1: lost in accuracy fast, kept in the others and beside codes.
TEST(ErrorModel, OnlyFastBf16MayTakeSubnormalsAsZero) {
  Problem p = problem_of(1);
  p.a = operand(DType::kBf16, std::nullopt);
  p.b = operand(DType::kBf16, std::nullopt);
  const Sum sum{.value = 0x1p-130, .magnitude = 0x1p-130, .peak = 1};
  for (const auto accuracy : {spec::Accuracy::kFast, spec::Accuracy::kPromoted, spec::Accuracy::kExact}) {
    p.accuracy = accuracy;
    const bool fast = accuracy == spec::Accuracy::kFast;
    EXPECT_EQ(judge(p, error_model(p, {}), sum).low <= 0, fast);
    const Sum infinite{.value = std::numeric_limits<double>::infinity(), .magnitude = 1, .peak = 1};
    EXPECT_EQ(judge(p, error_model(p, {}), infinite).rule == Rule::kAny, fast);
  }
  p.accuracy = spec::Accuracy::kFast;
  p.b = operand(DType::kE4m3, std::nullopt);
  EXPECT_GT(judge(p, error_model(p, {}), sum).low, 0);
}

TEST(Activation, KnownValues) {
  EXPECT_EQ(activate(Activation::kRelu, -2.0), 0.0);
  EXPECT_EQ(activate(Activation::kRelu, 2.5), 2.5);
  EXPECT_NEAR(activate(Activation::kGeluErf, 1.0), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(activate(Activation::kGeluErf, -3.0), -0.00404969409489029, 1e-15);
  EXPECT_NEAR(activate(Activation::kGeluTanh, 1.0), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(activate(Activation::kGeluTanh, -1.0), -0.15880800939172324, 1e-15);
  EXPECT_NEAR(activate(Activation::kSilu, 1.0), 0.7310585786300049, 1e-15);
  EXPECT_NEAR(activate(Activation::kSilu, -4.0), -0.07194483984836622, 1e-15);
  for (Activation activation : kAll5) {
    EXPECT_EQ(activate(activation, 0.0), 0.0);
    EXPECT_EQ(activate(activation, 1e30), 1e30);
    EXPECT_TRUE(std::isnan(activate(activation, std::numeric_limits<double>::quiet_NaN())));
    EXPECT_EQ(activate(activation, -1e30), activation == Activation::kNone ? -1e30 : 0.0);
  }
}

// The largest slopes, found by walking: no more than the constants in the table of the bound (1.13 and 1.1).
TEST(Activation, LipschitzConstants) {
  for (Activation activation : kAll5) {
    double steepest = 0;
    for (double x = -8; x < 8; x += 1e-4) {
      steepest =
          std::max(steepest, std::fabs(activate(activation, x + 1e-4) - activate(activation, x)) / 1e-4);
    }
    const double limit = activation == Activation::kSilu ? 1.1
                         : activation == Activation::kGeluErf || activation == Activation::kGeluTanh
                             ? 1.13
                             : 1 + 1e-9;
    EXPECT_LE(steepest, limit);
    EXPECT_GE(steepest, limit - 0.01);
  }
}

TEST(ErrorModel, GrowsWithKAndFactors) {
  const double short_chain = error_model(problem_of(100), {}).relative;
  EXPECT_NEAR(short_chain, 110 * 0x1p-24, 1e-3 * short_chain);
  EXPECT_NEAR(error_model(problem_of(10'000), {}).relative, 10'010 * 0x1p-24, 1e-3 * 10'000 * 0x1p-24);
  Problem plain = problem_of(100);
  plain.a.scale = plain.b.scale = std::nullopt;
  EXPECT_LT(error_model(plain, {}).relative, short_chain);
  EXPECT_TRUE(std::isinf(error_model(problem_of(int64_t{1} << 24), {}).relative));
}

TEST(ErrorModel, AccuracyMattersForShortAccumulators) {
  const Accumulator tensor_core{.unit_roundoff = 0x1p-13};
  Problem p = problem_of(4096);
  const double f32 = error_model(p, {}).relative;
  p.accuracy = spec::Accuracy::kExact;
  EXPECT_EQ(error_model(p, tensor_core).relative, f32);
  p.accuracy = spec::Accuracy::kPromoted;
  EXPECT_NEAR(error_model(p, tensor_core).relative, f32 + 128 * 0x1p-13, 1e-6);
  p.accuracy = spec::Accuracy::kFast;
  EXPECT_NEAR(error_model(p, tensor_core).relative, f32 + 4096 * 0x1p-13, 1e-5);
  EXPECT_EQ(error_model(p, {}).relative, f32);
}

TEST(Judge, IntervalIsHalfAUnitPlusTheError) {
  const Problem p = problem_of(64, DType::kBf16);
  const ErrorModel model = error_model(p, {});
  // 1.0 + 2^-9 lies in the middle of the lower half of the bf16 step above 1: only 1 is right.
  Element e = judge(p, model, {.value = 1 + 0x1p-9, .magnitude = 1, .peak = 1});
  EXPECT_EQ(e.low, 1.0);
  EXPECT_EQ(e.high, 1.0);
  // Near the boundary 1 + 2^-8 both neighbours are.
  e = judge(p, model, {.value = 1 + 0x1p-8, .magnitude = 1, .peak = 1});
  EXPECT_EQ(e.low, 1.0);
  EXPECT_EQ(e.high, 1.0 + 0x1p-7);
  // Large cancelled terms widen it.
  e = judge(p, model, {.value = 1 + 0x1p-9, .magnitude = 10'000, .peak = 1});
  EXPECT_LT(e.low, 1.0);
  EXPECT_GT(e.high, 1.0);
}

TEST(Judge, ReluAndClampEndTheInterval) {
  Problem p = problem_of(64);
  p.epilogue.activation = Activation::kRelu;
  p.epilogue.clamp_max = 6;
  const ErrorModel model = error_model(p, {});
  const Element zero = judge(p, model, {.value = 1e-9, .magnitude = 1, .peak = 1});
  EXPECT_EQ(zero.low, 0.0);
  EXPECT_GT(zero.high, 0.0);
  const Element negative = judge(p, model, {.value = -1, .magnitude = 1, .peak = 1});
  EXPECT_EQ(negative.low, 0.0);
  EXPECT_EQ(negative.high, 0.0);
  const Element top = judge(p, model, {.value = 6, .magnitude = 6, .peak = 6});
  EXPECT_LT(top.low, 6.0);
  EXPECT_EQ(top.high, 6.0);
}

TEST(Judge, UnderflowHasAnAbsoluteTerm) {
  const Problem p = problem_of(32);
  const Element e = judge(p, error_model(p, {}), {.value = 0x1p-149, .magnitude = 0x1p-149, .peak = 1});
  EXPECT_LE(e.low, 0.0);
  EXPECT_GE(e.high, 0x1p-148);
  EXPECT_LT(e.high, 0x1p-140);
}

TEST(RoundOutput, FollowsTheType) {
  EXPECT_EQ(round_output(DType::kE4m3, 1e9), 448.0);
  EXPECT_EQ(round_output(DType::kE5m2, -std::numeric_limits<double>::infinity()), -57344.0);
  EXPECT_TRUE(std::isinf(round_output(DType::kF16, 65520.0)));
  EXPECT_TRUE(std::isinf(round_output(DType::kF32, 1e39)));
  EXPECT_TRUE(std::isnan(round_output(DType::kE4m3, std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(round_output(DType::kInt32, 7.0), 7.0);
}

}  // namespace
}  // namespace scalegemm::ref
