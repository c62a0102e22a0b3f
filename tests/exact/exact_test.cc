// Every scheme x layout x output type gives exactly the right bits where all sums are exact, whatever the
// size, packing, strides, alignment, batch and epilogue.
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "harness/grid.h"
#include "harness/proofs.h"

namespace scalegemm::harness {
namespace {

constexpr int kCasesEach = 16;  // of a scheme, layout and output type: every edge size

const Runtime& runtime() {
  static const Runtime instance;
  return instance;
}

class Exact : public testing::TestWithParam<std::string> {};

TEST_P(Exact, BitEqual) {
  for (const Case& c : grid_of(GetParam(), kCasesEach)) {
    const ProofResult result = prove_exact(runtime(), c, {});
    ASSERT_TRUE(result.passed) << result.detail << "\n  scalegemm verify " << to_string(c);
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schemes, Exact, testing::ValuesIn(every_scheme()), test_name);

// An exact proof is worth something only when a wrong scale shows: swapping the scales of two neighbouring
// blocks of B must change D.
TEST(ExactData, SwappedScalesShow) {
  Case c;
  c.scheme = "mxfp4";
  c.m = 5;
  c.n = 33;
  c.k = 256;
  c.fill = Fill::kExact;
  CaseData data = make_case_data(c);
  ASSERT_FALSE(data.b.scales.empty());
  std::set<uint8_t> distinct(data.b.scales.begin(), data.b.scales.end());
  EXPECT_GE(distinct.size(), 3u);
  Instance right(runtime(), std::make_shared<CaseData>(data), {}, 0xFF);
  right.run();
  CaseData swapped = data;
  ASSERT_NE(swapped.b.scales[0], swapped.b.scales[1]);
  std::swap(swapped.b.scales[0], swapped.b.scales[1]);
  Instance wrong(runtime(), std::make_shared<CaseData>(swapped), {}, 0xFF);
  wrong.run();
  EXPECT_NE(right.output(), wrong.output());
  // And the oracle, asked about the right data, refuses what came from the wrong.
  const Verdict verdict = judge(data, wrong.output(), choose_probe(data.problem, 1 << 20, 1));
  ASSERT_TRUE(verdict.wrong.has_value());
  EXPECT_EQ(verdict.wrong->col, 0);
}

// Every sum of an exact case must be exact in f32 in any order: no more than 24 bits between the unit and the
// sum of magnitudes.
TEST(ExactData, SumsFitInF32) {
  for (const std::string& scheme : every_scheme()) {
    for (int64_t k : {2, 130, 1030, 4096}) {
      Case c;
      c.scheme = scheme;
      c.m = 3;
      c.n = 5;
      c.k = k;
      c.fill = Fill::kExact;
      const CaseData data = make_case_data(c);
      const double unit = exact_units(c, data.problem).sum;
      const double largest = largest_magnitude_sum(data);
      EXPECT_LE(largest / unit, 0x1p24) << scheme << " k " << k;
      EXPECT_GT(largest, 0) << scheme << " k " << k;
    }
  }
}

}  // namespace
}  // namespace scalegemm::harness
