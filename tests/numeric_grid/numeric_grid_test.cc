// Every scheme x layout x output type stays inside its derived bound, leaves memory alone, and repeats bit by
// bit, also with other thread counts.
#include <gtest/gtest.h>

#include "harness/grid.h"
#include "harness/proofs.h"

namespace scalegemm::harness {
namespace {

constexpr int kCasesEach = 4;  // of a scheme, layout and output type

const Runtime& runtime() {
  static const Runtime instance;
  return instance;
}

class NumericGrid : public testing::TestWithParam<std::string> {};

TEST_P(NumericGrid, BoundPoisonRepeat) {
  double worst = 0;
  for (const Case& c : grid_of(GetParam(), kCasesEach)) {
    for (const auto& proof : {prove_random, prove_poison, prove_repeat}) {
      const ProofResult result = proof(runtime(), c, {});
      ASSERT_TRUE(result.passed) << to_string(result.proof) << ": " << result.detail
                                 << "\n  scalegemm verify " << to_string(c);
      worst = std::max(worst, result.worst_ratio);
    }
  }
  RecordProperty("worst_error_over_bound", std::to_string(worst));
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schemes, NumericGrid, testing::ValuesIn(every_scheme()), test_name);

// Sizes that cross every blocking of the kernels, once a scheme: sampled by the oracle.
TEST(NumericLarge, CrossesCacheBlocks) {
  for (const std::string& scheme : known_schemes()) {
    Case c;
    c.scheme = scheme;
    c.m = 67;
    c.n = 1031;
    c.k = 2570;
    c.packing = SCALEGEMM_PACKED;
    ProofOptions options;
    options.most_products = int64_t{1} << 24;
    for (const auto& proof : {prove_exact, prove_random}) {
      const ProofResult result = proof(runtime(), c, options);
      ASSERT_TRUE(result.passed) << result.detail << "\n  scalegemm verify " << to_string(c);
    }
  }
}

}  // namespace
}  // namespace scalegemm::harness
