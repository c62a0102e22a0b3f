// Quantizers on the CPU give the bits of scalegemm_quantize, whatever the strides, and touch nothing else.
// tests/gpu/quantizer_test.cc asks the same of GPUs.
#include <gtest/gtest.h>

#include "harness/quantize_case.h"

namespace scalegemm::harness {
namespace {

TEST(Quantizer, BitEqualToQuantize) {
  const Runtime runtime;
  int cases = 0;
  for_each_quantize_case(runtime, "cpu", 7, [&](const Quantizer& quantizer, const QuantizeCase& c) {
    QuantizeInstance instance(quantizer, c, "cpu");
    instance.run();
    ASSERT_EQ(instance.check(), "") << to_string(c);
    ++cases;
  });
  EXPECT_GT(cases, 200);
}

// What only the CPU does.
TEST(Quantizer, TakesOtherTypesAndBlocksOnTheCpu) {
  const Runtime runtime;
  for (const auto& operand : {quantizer_operand(SCALEGEMM_INT4, SCALEGEMM_F16, 48),
                              quantizer_operand(SCALEGEMM_E4M3_FNUZ, SCALEGEMM_BF16, 1000),
                              quantizer_operand(SCALEGEMM_F16, SCALEGEMM_F32, 0)}) {
    QuantizeCase c;
    c.operand = operand;
    c.rows = 5;
    c.k = 198;
    c.code_room = 3;
    const Quantizer quantizer =
        make_quantizer(runtime, c.operand, c.source_dtype, SCALEGEMM_SCALE_FLOOR, "cpu");
    QuantizeInstance instance(quantizer, c, "cpu");
    instance.run();
    EXPECT_EQ(instance.check(), "") << to_string(c);
  }
}

}  // namespace
}  // namespace scalegemm::harness
