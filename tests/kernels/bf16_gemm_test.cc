// The bf16 dot family against the double reference of f32_case.h.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "common/panels.h"
#include "kernels/f32_case.h"

#define SG_FOR_TYPES(X)   \
  X(BF16, bf16)           \
  X(E4M3, e4m3)           \
  X(E4M3_FNUZ, e4m3_fnuz) \
  X(E5M2, e5m2) X(E5M2_FNUZ, e5m2_fnuz) X(E2M1, e2m1) X(INT8, int8) X(INT4, int4) X(UINT4, uint4)
#define SG_DECLARE(TYPE, NAME) extern "C" const SgCpuKernel* sg_bf16_##NAME(void);
SG_FOR_TYPES(SG_DECLARE)

namespace scalegemm::kernels {
namespace {

struct Entry {
  const char* name;
  int b_type;
  const SgCpuKernel* kernel;
};

std::vector<Entry> entries() {
  std::vector<Entry> all;
  if (__builtin_cpu_supports("avx512bf16")) {
#define SG_ENTRY(TYPE, NAME) all.push_back({#NAME, SG_##TYPE, sg_bf16_##NAME()});
    SG_FOR_TYPES(SG_ENTRY)
  }
  return all;
}

constexpr int kOperandTypes[] = {SG_E4M3, SG_E4M3_FNUZ, SG_E5M2,  SG_E5M2_FNUZ, SG_E2M1,
                                 SG_INT8, SG_INT4,      SG_UINT4, SG_BF16};
constexpr int kOutputs[] = {SG_F32, SG_F16, SG_BF16, SG_E4M3, SG_E5M2};
constexpr int kScaleTypes[] = {0, SG_F32, SG_F16, SG_BF16, SG_E8M0, SG_E4M3};
constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 13, 14, 15, 16, 29, 31, 32, 33, 64, 67, 129};
constexpr int64_t kBlocks[] = {8, 24, 16, 32, 128, int64_t{1} << 30};

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
  constexpr int kZeroTypes[] = {0, SG_INT8, SG_INT4, SG_UINT4};
  const bool integer = type == SG_INT8 || type == SG_INT4 || type == SG_UINT4;
  o.zero_type = integer ? pick(random, kZeroTypes) : 0;
  o.global = random() % 3 == 0 ? 0.25f : 0.0f;
  return o;
}

Case random_case(uint64_t seed, int b_type, bool exact) {
  std::mt19937_64 random(seed * 6007 + static_cast<uint64_t>(b_type));
  Case c;
  c.seed = seed;
  c.exact = exact;
  c.m = pick(random, kSizes), c.n = pick(random, kSizes), c.k = pick(random, kSizes);
  if (random() % 8 == 0) {
    c.k = 257 + static_cast<int64_t>(random() % 400);  // several chunks of K
  }
  c.batch = random() % 6 == 0 ? 2 : 1;
  c.a = random_operand(random, pick(random, kOperandTypes));
  c.b = random_operand(random, b_type);
  if (bits_of(c.a.type) == 4 || bits_of(b_type) == 4) {
    c.k += c.k % 2;
  }
  c.b.packed = random() % 2 ? static_cast<int>(b_type == SG_BF16 ? SG_PANEL_K1X32 : SG_PANEL_K4X16) : 0;
  c.d_type = pick(random, kOutputs);
  c.d_order = static_cast<Order>(random() % 3);
  constexpr int kExtras[] = {0, SG_F32, SG_F16, SG_BF16};
  c.c_type = pick(random, kExtras), c.bias_type = pick(random, kExtras);
  c.beta = random() % 2 ? 0.5f : 0.0f;
  c.activation = exact ? static_cast<int>(random() % 2) : static_cast<int>(random() % 5);
  return c;
}

class Bf16Gemm : public testing::TestWithParam<Entry> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Bf16Gemm);

TEST_P(Bf16Gemm, RandomProblemsAreWithinTheirBound) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Problem p(random_case(seed, GetParam().b_type, false));
    p.run(*GetParam().kernel);
    ASSERT_NO_FATAL_FAILURE(check_all(p));
  }
}

TEST_P(Bf16Gemm, ExactProblemsAreBitEqual) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Problem p(random_case(seed + 1000, GetParam().b_type, true));
    p.run(*GetParam().kernel);
    ASSERT_NO_FATAL_FAILURE(check_all(p));
  }
}

TEST_P(Bf16Gemm, EdgeSizesOfEveryDimension) {
  constexpr int64_t kEdges[] = {1, 2, 13, 14, 15, 31, 32, 33, 67};
  for (const int64_t m : kEdges) {
    for (const int64_t n : kEdges) {
      for (const int64_t k : {1, 2, 3, 255, 256, 257}) {
        Case c = random_case(static_cast<uint64_t>(m * 100000 + n * 1000 + k), GetParam().b_type, true);
        c.m = m, c.n = n, c.k = k, c.batch = 1;
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

// More rows than one block of a unit, more columns than one unit, several chunks of K.
TEST_P(Bf16Gemm, CrossesEveryBlock) {
  Case c = random_case(5000, GetParam().b_type, true);
  c.m = 521, c.n = 157, c.k = 522, c.batch = 1;
  Problem p(c);
  p.run(*GetParam().kernel);
  ASSERT_NO_FATAL_FAILURE(check_all(p));
}

TEST_P(Bf16Gemm, BitsDoNotDependOnTheSplitOrOnRepetition) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Case c = random_case(seed + 2000, GetParam().b_type, false);
    c.n += 128;
    Problem p(c);
    p.run(*GetParam().kernel);
    const std::vector<uint8_t> once = p.d_bytes();
    for (const bool reversed : {true, false, false}) {
      p.run(*GetParam().kernel, reversed);
      ASSERT_EQ(once, p.d_bytes()) << c.describe();
    }
  }
}

// Every code of B against 1; of bf16 itself subnormals count as zero (Accuracy::kFast).
TEST_P(Bf16Gemm, EveryCodeOfBIsExact) {
  const int type = GetParam().b_type;
  const int64_t codes = int64_t{1} << bits_of(type);
  Case c;
  c.m = 15, c.n = codes, c.k = 2;
  c.a.type = SG_INT8;
  c.b.type = type;
  Problem p(
      c, [](int64_t, int64_t, int64_t k) { return k == 1 ? 1u : 0u; },
      [](int64_t, int64_t n, int64_t k) { return k == 1 ? static_cast<uint32_t>(n) : 0u; });
  p.run(*GetParam().kernel);
  for (int64_t n = 0; n < codes; ++n) {
    double want = decode_code(type, static_cast<uint32_t>(n));
    if (type == SG_BF16 && std::fabs(want) < 0x1p-126) {
      want = 0;
    }
    const double got = p.d(0, 14, n);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
        << "code " << n << ": " << got << ", not " << want;
  }
}

// bf16 activations from the smallest subnormal on, beside ordinary ones and in every place of a step. One
// element of A is not 0 at a time, so that each result is one exact product.
TEST_P(Bf16Gemm, KeepsSmallActivations) {
  const int type = GetParam().b_type;
  if (type == SG_BF16 || type == SG_E5M2) {
    return;  // src/arch does not offer them
  }
  const uint32_t one = type == SG_E4M3        ? 0x38u
                       : type == SG_E4M3_FNUZ ? 0x40u
                       : type == SG_E5M2_FNUZ ? 0x40u
                       : type == SG_E2M1      ? 2u
                                              : 1u;
  constexpr uint32_t kActivations[] = {1, 0x8001, 0x7f, 0x80, 0x0d00, 0x0d7f, 0x0d80, 0x3f80, 0xff7f, 0x8000};
  const auto last = static_cast<int64_t>(std::size(kActivations)) - 1;
  for (const int64_t m : {1, 2, 3, 4, 5, 15, 67}) {
    for (const int64_t k : {2, 16, 34, 300, 1030}) {
      Case c;
      c.m = m, c.n = 49, c.k = k;
      c.a.type = SG_BF16;
      c.b.type = type;
      c.b.packed = m % 2 ? static_cast<int>(SG_PANEL_K4X16) : 0;
      const auto code_of = [&](int64_t row) { return kActivations[(row + k) % (last + 1)]; };
      const auto place = [&](int64_t row) { return (row * 37 + k - 1) % k; };
      Problem p(
          c, [&](int64_t, int64_t row, int64_t i) { return i == place(row) ? code_of(row) : 0u; },
          [&](int64_t, int64_t, int64_t) { return one; });
      p.run(*GetParam().kernel);
      for (int64_t row = 0; row < m; ++row) {
        for (int64_t n = 0; n < c.n; ++n) {
          ASSERT_EQ(p.d(0, row, n), decode_code(SG_BF16, code_of(row)))
              << "row " << row << ", column " << n << "; " << c.describe();
        }
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<Entry>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Kernels, Bf16Gemm, testing::ValuesIn(entries()), name_of);

}  // namespace
}  // namespace scalegemm::kernels
