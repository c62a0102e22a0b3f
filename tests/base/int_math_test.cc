#include "base/int_math.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace scalegemm::base {
namespace {

TEST(IntMath, CountsPartialPieces) {
  EXPECT_EQ(ceil_div(0, 32), 0);
  EXPECT_EQ(ceil_div(1, 32), 1);
  EXPECT_EQ(ceil_div(32, 32), 1);
  EXPECT_EQ(ceil_div(33, 32), 2);
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(65, 64), 128);
  EXPECT_EQ(round_up(uint64_t{128}, 64u), 128u);
}

TEST(IntMath, LargestSizesDoNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ceil_div(kMost, int64_t{2}), int64_t{1} << 62);
  EXPECT_EQ(ceil_div(kMost, kMost), 1);
  EXPECT_EQ(ceil_div(int64_t{5}, kMost), 1);
  EXPECT_EQ(ceil_div(std::numeric_limits<uint64_t>::max(), uint64_t{1} << 32), uint64_t{1} << 32);
  static_assert(std::is_same_v<decltype(ceil_div(int64_t{1}, 1)), int64_t>);
}

}  // namespace
}  // namespace scalegemm::base
