#include "spec/problem.h"

#include <gtest/gtest.h>

#include <cmath>

namespace scalegemm::spec {
namespace {

Problem good() {
  Problem p;
  p.m = 3;
  p.n = 5;
  p.k = 70;
  p.a = {DType::kE2m1, Layout::kRow, ScaleSpec{DType::kE8m0, 1, 32, std::nullopt, false}};
  p.b = p.a;
  return p;
}

TEST(Problem, EveryOperandScaleAndOutputTypeIsUsable) {
  for (int type = 1; type <= 13; ++type) {
    const DType t = static_cast<DType>(type);
    const bool operand = t != DType::kE8m0 && t != DType::kInt32;
    Problem p = good();
    p.a = {t, Layout::kRow, std::nullopt};
    EXPECT_EQ(validate(p).ok(), operand) << num::name(t);
    p = good();
    p.b.type = t;
    EXPECT_EQ(validate(p).ok(), operand) << num::name(t);
    p = good();
    p.a.scale->type = t;
    const bool scale =
        t == DType::kF32 || t == DType::kF16 || t == DType::kBf16 || t == DType::kE8m0 || t == DType::kE4m3;
    EXPECT_EQ(validate(p).ok(), scale) << num::name(t);
    p = good();
    p.d = t;
    const bool output =
        t == DType::kF32 || t == DType::kF16 || t == DType::kBf16 || t == DType::kE4m3 || t == DType::kE5m2;
    EXPECT_EQ(validate(p).ok(), output) << num::name(t);
  }
}

// Each case breaks one thing of a good problem and expects argument, needed and given.
TEST(Problem, RefusalsNameArgumentNeededAndGiven) {
  const auto refused = [](auto change, const std::string& message) {
    Problem p = good();
    ASSERT_TRUE(validate(p).ok()) << validate(p).message();
    change(p);
    const Status status = validate(p);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  };
  refused([](Problem& p) { p.m = 0; }, "M: needed a positive size; given 0");
  refused([](Problem& p) { p.n = -4; }, "N: needed a positive size; given -4");
  refused([](Problem& p) { p.k = 0; }, "K: needed a positive size; given 0");
  refused([](Problem& p) { p.batch = 0; }, "batch: needed a positive size; given 0");
  refused([](Problem& p) { p.k = 71; }, "K: needed an even K, as two e2m1 codes of A share a byte; given 71");
  refused([](Problem& p) { p.a.type = static_cast<DType>(77); }, "A type: needed one of f32, f16");
  refused([](Problem& p) { p.b.type = static_cast<DType>(0); }, "given type 0");
  refused([](Problem& p) { p.b.layout = static_cast<Layout>(9); }, "B layout: needed row or column; given 9");
  refused([](Problem& p) { p.a.scale->type = DType::kInt8; },
          "A scale type: needed one of f32, f16, bf16, e8m0, e4m3; given int8");
  refused([](Problem& p) { p.b.scale->block_rows = -1; }, "B scale block_rows: needed a positive block");
  refused([](Problem& p) { p.b.scale->block_k = -32; }, "B scale block_k: needed a positive block");
  refused([](Problem& p) { p.b.scale->block_k = 33; }, "B scale block_k: needed an even block");
  refused([](Problem& p) { p.b.scale->zero_type = DType::kInt8; },
          "B zero-point type: needed none, as e2m1 is a float type; given int8");
  refused([](Problem& p) { p.b.type = DType::kInt4, p.b.scale->zero_type = DType::kF32; },
          "B zero-point type: needed one of int8, int4, uint4; given f32");
  refused([](Problem& p) { p.d = DType::kInt8; }, "D type: needed one of f32, f16, bf16, e4m3, e5m2, int32");
  refused([](Problem& p) { p.d = DType::kInt32; },
          "D type: int32 needed int8 A and int8 B; given e2m1 and e2m1");
  refused([](Problem& p) { p.epilogue.bias = DType::kE4m3; }, "bias type: needed one of f32, f16, bf16");
  refused([](Problem& p) { p.epilogue.c = DType::kInt32; }, "C type: needed one of f32, f16, bf16");
  refused([](Problem& p) { p.epilogue.activation = static_cast<Activation>(5); },
          "activation: needed 0 to 4");
  refused([](Problem& p) { p.epilogue.clamp_min = 1, p.epilogue.clamp_max = -1; },
          "clamp: needed clamp_min <=");
  refused([](Problem& p) { p.epilogue.clamp_min = NAN; }, "clamp: needed clamp_min <=");
  refused([](Problem& p) { p.accuracy = static_cast<Accuracy>(3); }, "accuracy: needed 0 (promoted)");
  refused([](Problem& p) { p.b_packing = static_cast<Packing>(3); }, "B packing: needed -1 (chosen)");
}

TEST(Problem, OddKIsFineForBytes) {
  Problem p = good();
  p.a.type = p.b.type = DType::kE4m3;
  p.k = 71;
  EXPECT_TRUE(validate(p).ok()) << validate(p).message();
}

TEST(Problem, ExtentsMustBeCountable) {
  const int64_t big = int64_t{1} << 31;
  const struct {
    int64_t m, n, k, batch;
    bool ok;
  } cases[] = {
      {big, 1, big - 2, 1, false},  // A as f32: 2^67 bits
      {1, big, big - 2, 1, false},  // B as f32
      {big, big, 2, 1, false},      // D
      {1 << 20, 1 << 20, 1 << 16, 1, true},
      {1 << 20, 1 << 20, 1 << 16, 1 << 20, false},
      {INT64_MAX, 1, 2, 1, false},
      {1, INT64_MAX, 2, 1, false},
      {1, 1, INT64_MAX - 1, 1, false},
      {1, 1, 2, INT64_MAX, false},
      {1, 1, int64_t{1} << 57, 1, true},
      {1, 1, int64_t{1} << 58, 1, false},  // 2^63 bits
  };
  for (const auto& c : cases) {
    Problem p = good();
    p.m = c.m, p.n = c.n, p.k = c.k, p.batch = c.batch;
    const Status status = validate(p);
    EXPECT_EQ(status.ok(), c.ok) << c.m << " " << c.n << " " << c.k << " " << c.batch << ": "
                                 << status.message();
    if (!c.ok) {
      EXPECT_NE(status.message().find("needed fewer than 2^63 bits"), std::string::npos) << status.message();
    }
  }
}

TEST(Problem, Int32IsTheRawProduct) {
  Problem p;
  p.m = p.n = p.k = 7;
  p.a = {DType::kInt8, Layout::kRow, std::nullopt};
  p.b = {DType::kInt8, Layout::kCol, std::nullopt};
  p.d = DType::kInt32;
  EXPECT_TRUE(validate(p).ok()) << validate(p).message();
  const auto refused = [&p](auto change, const std::string& message) {
    Problem q = p;
    change(q);
    EXPECT_NE(validate(q).message().find(message), std::string::npos) << validate(q).message();
  };
  refused([](Problem& q) { q.a.scale = ScaleSpec{}; },
          "int32 needed operands without scales; given scales on A");
  refused([](Problem& q) { q.b.scale = ScaleSpec{}; }, "given scales on B");
  refused([](Problem& q) { q.a.scale = q.b.scale = ScaleSpec{}; }, "given scales on A and B");
  refused([](Problem& q) { q.epilogue.bias = DType::kF32; }, "given a bias");
  refused([](Problem& q) { q.epilogue.c = DType::kF32; }, "given C");
  refused([](Problem& q) { q.epilogue.clamp_max = 6; }, "given a clamp");
  refused([](Problem& q) { q.epilogue.activation = Activation::kRelu; }, "given an activation");
}

TEST(ScaleGrid, CountsPartialBlocks) {
  const struct {
    int64_t block_rows, block_k, rows, k, grid_rows, grid_cols;
  } cases[] = {
      {1, kAll, 7, 100, 7, 1},
      {kAll, kAll, 7, 100, 1, 1},
      {1, 32, 7, 96, 7, 3},
      {1, 32, 7, 97, 7, 4},
      {128, 128, 129, 127, 2, 1},
      {128, 128, 128, 128, 1, 1},
      {1, 256, 1, 1, 1, 1},
      {kAll, 16, 5, 17, 1, 2},
      {INT64_MAX, INT64_MAX, 9, 9, 1, 1},
      {3, 2, INT64_MAX, 2, INT64_MAX / 3 + 1, 1},
  };
  for (const auto& c : cases) {
    const ScaleSpec s{DType::kF32, c.block_rows, c.block_k, std::nullopt, false};
    const Grid grid = scale_grid(s, c.rows, c.k);
    EXPECT_EQ(grid.rows, c.grid_rows) << c.block_rows << " over " << c.rows;
    EXPECT_EQ(grid.cols, c.grid_cols) << c.block_k << " over " << c.k;
  }
}

}  // namespace
}  // namespace scalegemm::spec
