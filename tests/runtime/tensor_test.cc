#include "runtime/tensor.h"

#include <gtest/gtest.h>

#include <vector>

namespace scalegemm::runtime {
namespace {

class TensorCheck : public ::testing::Test {
 protected:
  Tensor f32(int64_t rows, int64_t cols) {
    memory_.resize(static_cast<size_t>(rows * cols));
    return {.data = memory_.data(),
            .bytes = memory_.size() * sizeof(float),
            .type = DType::kF32,
            .shape = {1, rows, cols},
            .stride = {rows * cols, cols, 1}};
  }
  static Expected want(int64_t rows, int64_t cols) {
    return {.name = "x", .type = DType::kF32, .rows = rows, .cols = cols};
  }
  static std::string why(const Status& status) { return status.message(); }

  std::vector<float> memory_;
};

TEST_F(TensorCheck, TakesExactExtent) {
  EXPECT_TRUE(check_tensor(f32(3, 5), want(3, 5)).ok());
  EXPECT_TRUE(check_output(f32(3, 5), want(3, 5)).ok());
}

TEST_F(TensorCheck, OneByteTooFewIsRefused) {
  Tensor t = f32(3, 5);
  t.bytes -= 1;
  EXPECT_EQ(why(check_tensor(t, want(3, 5))), "x: shape and strides span 60 bytes, but bytes is 59");
}

TEST_F(TensorCheck, NamesNeededAndGiven) {
  EXPECT_NE(why(check_tensor({}, want(3, 5))).find("x: data must not be null"), std::string::npos);
  Tensor t = f32(3, 5);
  t.type = DType::kF16;
  EXPECT_EQ(why(check_tensor(t, want(3, 5))), "x: dtype must be f32, got f16");
  t.type.reset();
  EXPECT_EQ(why(check_tensor(t, want(3, 5))), "x: dtype must be f32, got none");
  EXPECT_EQ(why(check_tensor(f32(3, 5), want(5, 3))),
            "x: shape must be 1 x 5 x 3 (batch x rows x columns), got 1 x 3 x 5");
}

TEST_F(TensorCheck, MisalignedBeyondElementIsRefused) {
  Tensor t = f32(3, 5);
  t.data = static_cast<char*>(t.data) + 2;
  t.shape = {1, 2, 5};
  EXPECT_NE(why(check_tensor(t, want(2, 5))).find("aligned to its 4-byte elements"), std::string::npos);
}

TEST_F(TensorCheck, HugeStridesDoNotOverflow) {
  Tensor t = f32(3, 5);
  t.stride = {0, INT64_MAX, INT64_MAX};
  EXPECT_NE(why(check_tensor(t, want(3, 5))).find("over 2^63"), std::string::npos);
  t.stride = {0, -5, 1};
  EXPECT_NE(why(check_tensor(t, want(3, 5))).find("stride[1] must not be negative"), std::string::npos);
}

TEST_F(TensorCheck, FourBitColumnsTakeHalfTheBytes) {
  std::vector<uint8_t> codes(3 * 4);
  Tensor t{.data = codes.data(), .bytes = 12, .type = DType::kInt4, .shape = {1, 3, 8}, .stride = {12, 4, 1}};
  const Expected w{.name = "b", .type = DType::kInt4, .rows = 3, .cols = 8};
  EXPECT_TRUE(check_tensor(t, w).ok());
  EXPECT_TRUE(check_output(t, w).ok());
  t.bytes = 11;
  EXPECT_FALSE(check_tensor(t, w).ok());
  // Zero points are one a byte.
  Expected zeros = w;
  zeros.one_code_a_byte = true;
  t.bytes = 12;
  EXPECT_FALSE(check_tensor(t, zeros).ok());
}

TEST_F(TensorCheck, LayoutAsksForUnitStride) {
  Tensor t = f32(4, 4);
  t.stride = {16, 1, 4};
  Expected w = want(4, 4);
  w.unit_dim = 1;
  EXPECT_TRUE(check_tensor(t, w).ok());
  w.unit_dim = 2;
  EXPECT_NE(why(check_tensor(t, w)).find("stride[2] must be 1, got 4"), std::string::npos);
}

TEST_F(TensorCheck, OverlappingOutputIsRefused) {
  Tensor t = f32(4, 4);
  t.stride = {16, 3, 1};
  EXPECT_TRUE(check_tensor(t, want(4, 4)).ok());
  EXPECT_NE(why(check_output(t, want(4, 4))).find("elements overlap: stride[1] is 3, needs at least 4"),
            std::string::npos);
  t.stride = {0, 0, 1};
  EXPECT_FALSE(check_output(t, want(4, 4)).ok());
}

TEST_F(TensorCheck, OneBatchServesAll) {
  Expected w = want(2, 2);
  w.batch = 7;
  EXPECT_TRUE(check_tensor(f32(2, 2), w).ok());
  EXPECT_FALSE(check_output(f32(2, 2), w).ok());
}

}  // namespace
}  // namespace scalegemm::runtime
