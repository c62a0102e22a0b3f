// The int8-dot kernels: every pair of types, scale grids, layouts, edges; both ISAs with the same bits.
#include <gtest/gtest.h>

#include "kernels/i8_kernels.h"
#include "kernels/i8_problem.h"

namespace scalegemm::kernels {
namespace {

const int kTypes[] = {SG_INT8, SG_INT4, SG_UINT4, SG_E2M1};

// Bound of |d - ref| when codes and scales are arbitrary: block sums are exact, then one rounding for the
// product of scales, one for the conversion and one for the fma of each segment, and four at the end, each at
// most 2^-24 of what it rounds; partial sums are at most sum |a*b|.
double bound_of(const Case& c, double magnitude) {
  const int64_t blocks =
      std::max(c.a.block_k ? c.k / c.a.block_k : 0, c.b.block_k ? c.k / c.b.block_k : 0) * 2 + 2;
  return static_cast<double>(blocks + 8) * std::ldexp(magnitude, -24);
}

void expect_right(Problem& p, const I8KernelEntry& entry) {
  const Case& c = p.spec();
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t m = 0; m < c.m; ++m) {
      for (int64_t n = 0; n < c.n; ++n) {
        double sum = 0, magnitude = 0;
        p.reference(b, m, n, &sum, &magnitude);
        const double got = p.result(b, m, n);
        // The smallest unit of an exact case is 2^-2 * 2^-4 and its sums stay below 2^24 of them.
        ASSERT_TRUE(!c.exact || magnitude < std::ldexp(1.0, 24 - 6)) << "the case is not exact";
        const double bound = c.exact ? 0.0 : bound_of(c, magnitude);
        ASSERT_TRUE(std::fabs(got - sum) <= bound)
            << entry.isa << " " << c.text() << "\n at " << b << ", " << m << ", " << n << ": got " << got
            << ", want " << sum << " +- " << bound;
      }
    }
  }
  ASSERT_TRUE(p.gaps_untouched()) << entry.isa << " " << c.text();
}

// Runs one case on every kernel of its type of B: right, the same bits for any split of units, for a second
// run, and on both ISAs.
void check(const Case& c) {
  Problem p(c);
  std::vector<uint8_t> first;
  for (const I8KernelEntry& entry : i8_kernels()) {
    if (entry.b_type != c.b_type) {
      continue;
    }
    const std::vector<uint8_t> whole = p.run(*entry.kernel, 1 << 20);
    expect_right(p, entry);
    ASSERT_EQ(p.run(*entry.kernel, 1), whole) << entry.isa << " " << c.text();
    if (first.empty()) {
      first = whole;
    }
    ASSERT_EQ(whole, first) << "ISAs differ: " << c.text();
  }
  ASSERT_FALSE(first.empty());
}

struct Grids {
  Grid a, b;
};

// The scale grids of the schemes, and what they make possible.
const Grids kGrids[] = {
    {{}, {}},
    {{SG_F32, 1, 0}, {SG_F32, 1, 0}},
    {{SG_F32, 0, 0}, {SG_F32, 0, 0}},
    {{SG_E8M0, 1, 32}, {SG_E8M0, 1, 32}},
    {{SG_E4M3, 1, 16}, {SG_E4M3, 1, 16}},
    {{SG_F32, 1, 0}, {SG_F16, 1, 32}},
    {{}, {SG_BF16, 1, 64}},
    {{SG_F32, 1, 128}, {SG_F32, 128, 128}},
    {{SG_F32, 1, 64}, {}},
    {{SG_F32, 1, 64}, {SG_BF16, 1, 0}},
    {{SG_BF16, 1, 48}, {SG_F16, 1, 32}},
    {{SG_F16, 3, 40}, {SG_E8M0, 5, 64}},
};

TEST(I8Dot, EveryTypePairGridAndLayoutExactly) {
  uint32_t seed = 1;
  const Order orders[] = {Order::kPacked, Order::kKContiguous, Order::kRowContiguous, Order::kStrided};
  for (const int a : kTypes) {
    for (const int b : kTypes) {
      for (const Grids& g : kGrids) {
        for (const int64_t m : {1, 3, 19}) {
          Case c{.m = m, .n = 41, .k = 150, .a_type = a, .b_type = b, .a = g.a, .b = g.b, .seed = seed++};
          c.a_order = orders[1 + seed % 3];
          c.b_order = orders[seed % 4];
          c.d_strided = seed % 5 == 0;
          c.globals = seed % 3 == 0;
          check(c);
        }
      }
    }
  }
}

TEST(I8Dot, RandomWithinTheBound) {
  uint32_t seed = 5000;
  for (const int a : kTypes) {
    for (const int b : kTypes) {
      for (const Grids& g : kGrids) {
        Case c{.m = 5,
               .n = 35,
               .k = 418,
               .a_type = a,
               .b_type = b,
               .a = g.a,
               .b = g.b,
               .exact = false,
               .seed = seed++};
        c.b_order = seed % 2 ? Order::kPacked : Order::kKContiguous;
        c.globals = seed % 3 == 0;
        check(c);
      }
    }
  }
}

TEST(I8Dot, ZeroPointsOfB) {
  uint32_t seed = 9000;
  for (const int b : {SG_INT8, SG_INT4, SG_UINT4}) {
    for (const int zero : {SG_INT8, SG_INT4, SG_UINT4}) {
      for (const int a : kTypes) {
        for (const Grid& g :
             {Grid{SG_F32, 1, 32, zero}, Grid{SG_F16, 1, 0, zero}, Grid{SG_BF16, 4, 64, zero}}) {
          for (const bool exact : {true, false}) {
            for (const int64_t m : {1, 4, 17}) {
              Case c{.m = m,
                     .n = 37,
                     .k = 168,
                     .a_type = a,
                     .b_type = b,
                     .a = {SG_F32, 1, 0},
                     .b = g,
                     .exact = exact};
              c.seed = seed++;
              c.b_order = seed % 2 ? Order::kPacked : Order::kStrided;
              c.a = seed % 3 == 0 ? Grid{SG_E8M0, 1, 32} : c.a;
              if (exact) {
                c.k = 88;
              }
              check(c);
            }
          }
        }
      }
    }
  }
}

TEST(I8Dot, ZeroPointsOfA) {
  uint32_t seed = 12000;
  for (const int a : {SG_INT4, SG_UINT4}) {
    for (const int zero : {SG_INT4, SG_UINT4}) {
      for (const int b : kTypes) {
        for (const int64_t block : {0, 32}) {
          check({.m = 9,
                 .n = 20,
                 .k = 102,
                 .a_type = a,
                 .b_type = b,
                 .a = {SG_F32, 1, block, zero},
                 .b = {SG_F32, 1, 64},
                 .exact = false,
                 .seed = seed++});
        }
      }
    }
  }
}

TEST(I8Dot, EveryEdge) {
  uint32_t seed = 20000;
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 17, 20, 27, 28, 29, 43, 57}) {
    for (const int64_t n : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 79}) {
      const int64_t ks[] = {2, 4, 6, 8, 10, 30, 32, 34, 62, 64, 66, 100};
      for (int i = 0; i < 4; ++i) {
        Case c{.m = m, .n = n, .k = ks[(seed * 7 + m + n) % 12], .seed = seed++};
        c.a_type = kTypes[seed % 4];
        c.b_type = kTypes[i];
        const Grids& g = kGrids[(seed / 3) % std::size(kGrids)];
        c.a = g.a;
        c.b = g.b;
        c.b_order = seed % 3 ? Order::kPacked : seed % 2 ? Order::kKContiguous : Order::kRowContiguous;
        check(c);
      }
    }
  }
}

TEST(I8Dot, OddKOfInt8) {
  uint32_t seed = 30000;
  for (const int64_t k : {1, 3, 5, 7, 9, 31, 33, 65, 127, 257, 511}) {
    for (const Order order : {Order::kPacked, Order::kKContiguous, Order::kRowContiguous}) {
      for (const int64_t m : {1, 6}) {
        check({.m = m,
               .n = 18,
               .k = k,
               .a = {SG_F32, 1, 0},
               .b = {SG_F32, 1, 32},
               .b_order = order,
               .exact = k < 300,
               .seed = seed++});
      }
    }
  }
}

TEST(I8Dot, LargerProblemsWithManyUnits) {
  check({.m = 300,
         .n = 40,
         .k = 64,
         .a_type = SG_E2M1,
         .b_type = SG_E2M1,
         .a = {SG_E8M0, 1, 32},
         .b = {SG_E8M0, 1, 32},
         .seed = 1});
  check({.m = 30,
         .n = 530,
         .k = 64,
         .a_type = SG_INT8,
         .b_type = SG_INT4,
         .a = {SG_F32, 1, 0},
         .b = {SG_F32, 1, 32},
         .seed = 2});
  check({.m = 2,
         .n = 600,
         .k = 96,
         .a_type = SG_INT8,
         .b_type = SG_UINT4,
         .a = {SG_F32, 1, 0},
         .b = {SG_F16, 1, 32},
         .seed = 3});
  check({.m = 21,
         .n = 70,
         .k = 64,
         .batch = 3,
         .a_type = SG_E2M1,
         .b_type = SG_INT8,
         .a = {SG_E4M3, 1, 16},
         .b = {SG_F32, 1, 32, SG_INT8},
         .seed = 5});
  check({.m = 3,
         .n = 70,
         .k = 64,
         .batch = 3,
         .a_type = SG_INT4,
         .b_type = SG_INT4,
         .a = {SG_E4M3, 1, 16},
         .b = {SG_BF16, 1, 32},
         .seed = 6});
}

// Extreme codes: what would saturate a 16-bit or wrap a 32-bit sum.
TEST(I8Dot, ExtremeCodesDoNotSaturate) {
  for (const I8KernelEntry& entry : i8_kernels()) {
    for (const int64_t k : {32, 512, 131071, 131070}) {
      if (entry.b_type != SG_INT8 && (k % 2 != 0)) {
        continue;
      }
      std::vector<int8_t> a(static_cast<size_t>(k), -128);
      const uint8_t code = entry.b_type == SG_INT8 ? 0x80 : entry.b_type == SG_INT4 ? 0x88 : 0xFF;
      const int64_t value = entry.b_type == SG_INT8    ? -128
                            : entry.b_type == SG_INT4  ? -8
                            : entry.b_type == SG_UINT4 ? 15
                                                       : -6;
      std::vector<uint8_t> b(static_cast<size_t>(k), code);
      float d = 0;
      SgGemm g = {};
      g.m = g.n = g.batch = 1;
      g.k = k;
      g.a.data = a.data();
      g.a.stride_k = g.b.stride_k = 1;
      g.a.dtype = SG_INT8;
      g.b.data = b.data();
      g.b.dtype = entry.b_type;
      g.d = &d;
      g.d_stride_m = g.d_stride_n = 1;
      g.d_dtype = entry.b_type == SG_INT8 ? SG_INT32 : SG_F32;
      g.alpha = 1;
      g.clamp_min = -INFINITY;
      g.clamp_max = INFINITY;
      Guarded workspace((entry.kernel->workspace_bytes(&g) + 63) / 64 * 64);
      Guarded scratch((entry.kernel->scratch_bytes(&g) + 63) / 64 * 64);
      g.workspace = workspace.data();
      entry.kernel->prepare(&g, 0, 1, scratch.data());
      entry.kernel->compute(&g, 0, 1, scratch.data());
      const int64_t want = -128 * value * k;
      if (g.d_dtype == SG_INT32) {
        int32_t got;
        std::memcpy(&got, &d, 4);
        EXPECT_EQ(got, want) << entry.isa << " k " << k;
      } else {
        EXPECT_EQ(d, static_cast<float>(want)) << entry.isa << " " << entry.name << " k " << k;
      }
    }
  }
}

TEST(I8Dot, RawIntegersAreExact) {
  uint32_t seed = 40000;
  for (const int64_t m : {1, 4, 15, 40}) {
    for (const Order order : {Order::kPacked, Order::kKContiguous, Order::kStrided}) {
      for (const bool strided : {false, true}) {
        Case c{.m = m,
               .n = 45,
               .k = 777,
               .b_order = order,
               .d_type = SG_INT32,
               .d_strided = strided,
               .seed = seed++};
        Problem p(c);
        c.exact = false;
        Problem q(c);
        for (const I8KernelEntry& entry : i8_kernels()) {
          if (entry.b_type != SG_INT8) {
            continue;
          }
          q.run(*entry.kernel, 3);
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < c.n; ++j) {
              double sum = 0, magnitude = 0;
              q.reference(0, i, j, &sum, &magnitude);
              ASSERT_EQ(q.result(0, i, j), sum) << entry.isa << " " << c.text();
            }
          }
          ASSERT_TRUE(q.gaps_untouched());
        }
      }
    }
  }
}

// A K longer than one integer sum is cut into segments.
TEST(I8Dot, VeryLongK) {
  check({.m = 1, .n = 1, .k = 140001, .a = {SG_F32, 1, 0}, .b = {SG_F32, 1, 0}, .exact = false, .seed = 1});
  check({.m = 5,
         .n = 2,
         .k = 70000,
         .b_type = SG_UINT4,
         .a = {SG_F32, 1, 0},
         .b = {SG_F32, 1, 0, SG_UINT4},
         .exact = false,
         .seed = 2});
}

TEST(I8Dot, OutputTypesAndEpilogue) {
  for (const int d : {SG_BF16, SG_F16}) {
    Case c{.m = 7,
           .n = 34,
           .k = 64,
           .a_type = SG_E2M1,
           .b_type = SG_E2M1,
           .a = {SG_E8M0, 1, 32},
           .b = {SG_E8M0, 1, 32},
           .d_type = d,
           .seed = 77};
    Problem p(c);
    std::vector<float> bias(34);
    for (size_t i = 0; i < bias.size(); ++i) {
      bias[i] = static_cast<float>(i) - 16;
    }
    p.gemm().bias = bias.data();
    p.gemm().bias_dtype = SG_F32;
    p.gemm().alpha = 0.5f;
    p.gemm().activation = SG_ACT_RELU;
    for (const I8KernelEntry& entry : i8_kernels()) {
      if (entry.b_type != SG_E2M1) {
        continue;
      }
      p.run(*entry.kernel, 1);
      for (int64_t m = 0; m < c.m; ++m) {
        for (int64_t n = 0; n < c.n; ++n) {
          double sum = 0, magnitude = 0;
          p.reference(0, m, n, &sum, &magnitude);
          const float want = static_cast<float>(std::max(0.0, 0.5 * sum + bias[static_cast<size_t>(n)]));
          const num::DType type = static_cast<num::DType>(d);
          ASSERT_EQ(p.result(0, m, n), num::decode(type, num::encode(type, want, num::Overflow::kIeee)));
        }
      }
    }
  }
}

// A row has the same bits whatever M is (batch invariance).
TEST(I8Dot, RowsDoNotDependOnM) {
  for (const int b : kTypes) {
    Case c{.m = 31,
           .n = 50,
           .k = 420,
           .a_type = SG_INT8,
           .b_type = b,
           .a = {SG_F32, 1, 64},
           .b = {SG_F32, 1, 32},
           .exact = false,
           .seed = 3};
    Problem p(c);
    for (const I8KernelEntry& entry : i8_kernels()) {
      if (entry.b_type != b) {
        continue;
      }
      const std::vector<uint8_t> all = p.run(*entry.kernel, 1);
      for (int64_t m = 1; m <= 31; ++m) {
        p.gemm().m = m;
        const std::vector<uint8_t> some = p.run(*entry.kernel, 1);
        ASSERT_EQ(0, std::memcmp(all.data(), some.data(), static_cast<size_t>(m * 50 * 4)))
            << entry.isa << " m " << m;
      }
      p.gemm().m = 31;
    }
  }
}

}  // namespace
}  // namespace scalegemm::kernels
