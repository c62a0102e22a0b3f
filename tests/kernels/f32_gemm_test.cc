// The f32 family against a double reference: every type of B, both ISAs, layouts, scale grids, outputs.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "common/panels.h"
#include "kernels/f32_case.h"
#include "kernels/f32_kernels.h"

namespace scalegemm::kernels {
namespace {

constexpr int kOperandTypes[] = {SG_F32,       SG_F16,  SG_BF16, SG_E4M3, SG_E4M3_FNUZ, SG_E5M2,
                                 SG_E5M2_FNUZ, SG_E2M1, SG_INT8, SG_INT4, SG_UINT4};
constexpr int kOutputs[] = {SG_F32, SG_F16, SG_BF16, SG_E4M3, SG_E4M3_FNUZ, SG_E5M2, SG_E5M2_FNUZ};
constexpr int kScaleTypes[] = {0, SG_F32, SG_F16, SG_BF16, SG_E8M0, SG_E4M3};
constexpr int64_t kSizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  13, 14, 15,
                              16, 27, 29, 31, 32, 33, 61, 64, 67, 97, 129};
constexpr int64_t kBlocks[] = {1, 3, 16, 32, 128, int64_t{1} << 30};

// Draws from a list.
template <class T, size_t kCount>
T pick(std::mt19937_64& random, const T (&list)[kCount]) {
  return list[random() % kCount];
}

OperandCase random_operand(std::mt19937_64& random, int type) {
  OperandCase o;
  o.type = type;
  o.order = static_cast<Order>(random() % 3);
  o.scale_type = pick(random, kScaleTypes);
  o.block_r = pick(random, kBlocks);
  o.block_k = pick(random, kBlocks);
  const bool integer = type == SG_INT8 || type == SG_INT4 || type == SG_UINT4;
  constexpr int kZeroTypes[] = {0, SG_INT8, SG_INT4, SG_UINT4};
  o.zero_type = integer ? pick(random, kZeroTypes) : random() % 8 == 0 ? static_cast<int>(SG_INT8) : 0;
  o.global = random() % 3 == 0 ? 0.25f : 0.0f;
  return o;
}

Case random_case(uint64_t seed, int b_type, bool exact) {
  std::mt19937_64 random(seed * 7919 + static_cast<uint64_t>(b_type));
  Case c;
  c.seed = seed;
  c.exact = exact;
  c.m = pick(random, kSizes), c.n = pick(random, kSizes), c.k = pick(random, kSizes);
  if (random() % 8 == 0) {
    c.k = 513 + static_cast<int64_t>(random() % 100);  // several chunks of K
  }
  c.batch = random() % 6 == 0 ? 2 : 1;
  c.batch_invariant = random() % 4 == 0;
  c.a = random_operand(random, pick(random, kOperandTypes));
  c.b = random_operand(random, b_type);
  if (bits_of(c.a.type) == 4 || bits_of(b_type) == 4) {
    c.k += c.k % 2;
  }
  c.b.packed = random() % 2 ? static_cast<int>(SG_PANEL_K1X32) : 0;
  c.d_type = pick(random, kOutputs);
  c.d_order = static_cast<Order>(random() % 3);
  constexpr int kExtras[] = {0, 0, SG_F32, SG_F16, SG_BF16};
  c.c_type = pick(random, kExtras), c.bias_type = pick(random, kExtras);
  c.beta = random() % 2 ? 0.5f : 0.0f;
  c.alpha = random() % 2 ? 0.5f : 1.0f;
  c.activation = exact ? static_cast<int>(random() % 2) : static_cast<int>(random() % 5);
  if (random() % 4 == 0) {
    c.clamp_min = -2, c.clamp_max = 3;
  }
  return c;
}

class F32Gemm : public testing::TestWithParam<F32KernelEntry> {};

TEST_P(F32Gemm, RandomProblemsAreWithinTheirBound) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Problem p(random_case(seed, GetParam().b_type, false));
    p.run(*GetParam().kernel);
    ASSERT_NO_FATAL_FAILURE(check_all(p));
  }
}

TEST_P(F32Gemm, ExactProblemsAreBitEqual) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Problem p(random_case(seed + 1000, GetParam().b_type, true));
    p.run(*GetParam().kernel);
    ASSERT_NO_FATAL_FAILURE(check_all(p));
  }
}

TEST_P(F32Gemm, EdgeSizesOfEveryDimension) {
  constexpr int64_t kEdges[] = {1, 2, 4, 5, 13, 14, 15, 31, 32, 33, 67};
  for (const int64_t m : kEdges) {
    for (const int64_t n : kEdges) {
      for (const int64_t k : {int64_t{1}, int64_t{2}, int64_t{33}}) {
        Case c = random_case(static_cast<uint64_t>(m * 10000 + n * 100 + k), GetParam().b_type, true);
        c.m = m, c.n = n, c.k = k;
        if (bits_of(c.a.type) == 4 || bits_of(c.b.type) == 4) {
          c.k += c.k % 2;
        }
        Problem p(c);
        p.run(*GetParam().kernel);
        ASSERT_NO_FATAL_FAILURE(check_all(p));
      }
    }
  }
}

TEST_P(F32Gemm, BitsDoNotDependOnTheSplitOrOnRepetition) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Case c = random_case(seed + 2000, GetParam().b_type, false);
    c.n += 128;
    Problem p(c);
    p.run(*GetParam().kernel);
    const std::vector<uint8_t> once = p.d_bytes();
    p.run(*GetParam().kernel, true);
    ASSERT_EQ(once, p.d_bytes()) << c.describe();
    for (int i = 0; i < 3; ++i) {
      p.run(*GetParam().kernel);
      ASSERT_EQ(once, p.d_bytes()) << c.describe();
    }
  }
}

// The first rows of a problem with more rows, and the same weights packed or raw: the same bits.
TEST_P(F32Gemm, BitsOfARowDoNotDependOnTheNumberOfRowsOrOnPacking) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Case c = random_case(seed + 3000, GetParam().b_type, false);
    c.a.scale_type = 0, c.a.zero_type = 0, c.batch = 1, c.d_type = SG_F32, c.bias_type = 0, c.c_type = 0;
    c.d_order = Order::kKContiguous;
    c.batch_invariant = true;
    std::map<std::string, std::vector<double>> rows;
    for (const int64_t m : {1, 2, 3, 4, 5, 17, 31}) {
      for (const int packed : {0, static_cast<int>(SG_PANEL_K1X32)}) {
        c.m = m, c.b.packed = packed;
        const auto code = [&](int64_t, int64_t r, int64_t k) {
          return static_cast<uint32_t>((r * 31 + k * 17 + static_cast<int64_t>(seed)) * 2654435761 >> 7) &
                 (bits_of(c.a.type) == 4   ? 0xfu
                  : bits_of(c.a.type) == 8 ? 0x3fu
                                           : 0x3fff3fffu);
        };
        const auto b_code = [&](int64_t, int64_t r, int64_t k) {
          return static_cast<uint32_t>((r * 13 + k * 7) * 2654435761 >> 9) &
                 (bits_of(c.b.type) == 4   ? 0xfu
                  : bits_of(c.b.type) == 8 ? 0x3fu
                                           : 0x3fff3fffu);
        };
        Problem p(c, code, b_code);
        p.run(*GetParam().kernel);
        for (int64_t n = 0; n < c.n; ++n) {
          auto& first = rows[std::to_string(n)];
          const double got = p.d(0, 0, n);
          if (first.empty()) {
            first.push_back(got);
          }
          ASSERT_EQ(first[0], got) << "m " << m << "; " << c.describe();
        }
      }
    }
  }
}

// More rows than one block of a unit, more columns than one unit, several chunks of K.
TEST_P(F32Gemm, CrossesEveryBlock) {
  Case c = random_case(5000, GetParam().b_type, true);
  c.m = 521, c.n = 157, c.k = 522, c.batch = 1;
  Problem p(c);
  p.run(*GetParam().kernel);
  ASSERT_NO_FATAL_FAILURE(check_all(p));
}

std::string name_of(const testing::TestParamInfo<F32KernelEntry>& info) {
  return std::string(info.param.name) + "_" + info.param.isa;
}

INSTANTIATE_TEST_SUITE_P(Kernels, F32Gemm, testing::ValuesIn(f32_kernels()), name_of);

TEST(F32GemmIsa, BothIsasGiveTheSameBits) {
  std::map<int, std::vector<const SgCpuKernel*>> kernels;
  for (const F32KernelEntry& e : f32_kernels()) {
    kernels[e.b_type].push_back(e.kernel);
  }
  for (const auto& [type, pair] : kernels) {
    for (uint64_t seed = 1; pair.size() == 2 && seed <= 40; ++seed) {
      Problem p(random_case(seed + 4000, type, false));
      p.run(*pair[0]);
      const std::vector<uint8_t> first = p.d_bytes();
      p.run(*pair[1]);
      ASSERT_EQ(first, p.d_bytes()) << p.definition().describe();
    }
  }
}

}  // namespace
}  // namespace scalegemm::kernels
