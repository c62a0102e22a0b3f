#include "gen/cuda_units.h"

#include <gtest/gtest.h>

namespace scalegemm::gen {
namespace {

using num::DType;

TEST(QuantizerUnit, NamesItsEntryPoints) {
  const QuantizerConfig blocks = {DType::kBf16, DType::kE2m1, DType::kE8m0, 32};
  const auto unit = quantizer_unit(blocks, spec::Target::kSm90a);
  ASSERT_TRUE(unit.ok()) << unit.status().message();
  EXPECT_EQ(unit->name, "quantize_bf16_e2m1_e8m0_1x32_sm_90a");
  EXPECT_EQ(unit->text,
            "#include \"cuda/quantize.cuh\"\n"
            "namespace scalegemm::cuda {\n"
            "constexpr QuantizeConfig kConfig1 = {\n"
            "    .source = SG_BF16, .codes = SG_E2M1, .group = 32, .e8m0 = true, .warps_per_row = 1};\n"
            "}\n"
            "SCALEGEMM_KERNEL_QUANTIZE(scalegemm_quantize_bf16_e2m1_e8m0_1x32_sm_90a, "
            "scalegemm::cuda::kConfig1)\n");
  EXPECT_EQ(quantizer_entries(blocks, *unit), std::vector<std::string>{unit->symbol});

  const QuantizerConfig rows = {DType::kF32, DType::kInt8, DType::kF32, 0};
  const auto of_rows = quantizer_unit(rows, spec::Target::kSm90a);
  ASSERT_TRUE(of_rows.ok()) << of_rows.status().message();
  const auto entries = quantizer_entries(rows, *of_rows);
  EXPECT_EQ(entries.size(), 3u);
  for (const std::string& entry : entries) {
    EXPECT_NE(of_rows->text.find("SCALEGEMM_KERNEL_QUANTIZE(" + entry + ","), std::string::npos) << entry;
  }
}

TEST(QuantizerUnit, SaysWhatThereIs) {
  const auto message = [](const QuantizerConfig& config) {
    const auto unit = quantizer_unit(config, spec::Target::kSm90a);
    EXPECT_EQ(unit.status().code(), Code::kUnsupported);
    return unit.status().message();
  };
  EXPECT_EQ(message({DType::kE4m3, DType::kE4m3, DType::kF32, 0}),
            "source type: the CUDA quantisers take f32, f16, bf16; got e4m3");
  EXPECT_EQ(message({DType::kF32, DType::kInt4, DType::kF32, 0}),
            "type: the CUDA quantisers take e4m3, e5m2, e2m1, int8; got int4");
  EXPECT_EQ(message({DType::kF32, DType::kE4m3, DType::kBf16, 0}),
            "scale type: the CUDA quantisers take f32, e8m0; got bf16");
  EXPECT_EQ(message({DType::kF32, DType::kE4m3, DType::kF32, 48}),
            "scale block_k: the CUDA quantisers take 16, 32, 64, 128, 256 or 0 (all of K); got 48");
}

}  // namespace
}  // namespace scalegemm::gen
