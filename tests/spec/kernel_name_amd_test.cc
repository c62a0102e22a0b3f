// Names as AMD's dispatcher writes them: parsed, or refused with the reason.
#include <gtest/gtest.h>

#include "spec/kernel_spec.h"

namespace scalegemm::spec {
namespace {

KernelSpec parsed(const std::string& text) {
  const Result<KernelSpec> spec = parse(text);
  EXPECT_TRUE(spec.ok()) << text << ": " << spec.status().message();
  return spec.ok() ? *spec : KernelSpec();
}

TEST(AmdName, RowcolquantSaysEverythingItMeans) {
  const KernelSpec s =
      parsed("gemm_rowcolquant_fp8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x128_gfx950");
  EXPECT_EQ(s.target, Target::kGfx950);
  EXPECT_EQ(s.a, DType::kE4m3);
  EXPECT_EQ(s.b, DType::kE4m3);
  EXPECT_EQ(s.d, DType::kF16);
  EXPECT_EQ(s.a_scale, (ScaleSpec{DType::kF32, 1, kAll, std::nullopt, false}));
  EXPECT_EQ(s.b_scale, s.a_scale);
  EXPECT_EQ(s.layouts, Layouts{});
  EXPECT_EQ(s.pipeline, Pipeline::kCompV3);
  EXPECT_EQ(s.epilogue, EpilogueKind::kCShuffle);
  EXPECT_EQ(s.scheduler, Scheduler::kIntrawave);
  EXPECT_EQ(s.tile, (Dims{16, 64, 256}));
  EXPECT_EQ(s.warps, (Dims{1, 4, 1}));
  EXPECT_EQ(s.instruction, (Dims{16, 16, 128}));
  EXPECT_EQ(s.packed, Packing::kRaw);
}

TEST(AmdName, FlavourOfFp8ComesFromTheTarget) {
  const std::string front = "gemm_rowcolquant_bf8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x32";
  EXPECT_EQ(parsed(front + "_gfx942").a, DType::kE5m2Fnuz);
  EXPECT_EQ(parsed(front + "_gfx950").a, DType::kE5m2);
}

// Left: AMD's name. Right: ours.
TEST(AmdName, ParsesIntoOurNames) {
  const struct {
    const char* amd;
    const char* ours;
  } cases[] = {
      {"gemm_fp16_rcr_compv4_cshuffle_intrawave_False_False_False_False_256x128x32_2x2x1_32x32x16_gfx950",
       "gemm_none_f16-f16-f16_rcr_compv4_cshuffle_intrawave_256x128x32_2x2x1_32x32x16_pad-none_gfx950"},
      {"gemm_fp16_rcr_mem_default_intrawave_False_False_False_True_64x64x64_4x1x1_16x16x16_gfx942",
       "gemm_none_f16-f16-f16_rcr_mem_default_intrawave_64x64x64_4x1x1_16x16x16_persistent_pad-none_gfx942"},
      {"gemm_tensor_quant_fp8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x128_gfx950",
       "gemm_tensorquant_e4m3-e4m3-f16_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x128_gfx950"},
      {"gemm_rowcolquant_fp8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x128_gfx950",
       "gemm_rowcolquant_e4m3-e4m3-f16_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x128_gfx950"},
      {"gemm_rowcolquant_bf8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x32_gfx942",
       "gemm_rowcolquant_e5m2fnuz-e5m2fnuz-f16_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x32_"
       "gfx942"},
      {"gemm_aquant_fp8_rcr_mem_cshuffle_interwave_16x64x256_1x4x1_16x16x32_qg1x1x128_gfx942",
       "gemm_aquant_e4m3fnuz-e4m3fnuz-f16_rcr_mem_cshuffle_interwave_16x64x256_1x4x1_16x16x32_aqg1x1x128_"
       "gfx942"},
      {"gemm_abquant_fp4_rcr_compv3_cshuffle_intrawave_128x128x128_1x4x1_16x16x32_aqg1x1x128_bqg1x128x128_"
       "gfx950",
       "gemm_abquant_e2m1-e2m1-f16_rcr_compv3_cshuffle_intrawave_128x128x128_1x4x1_16x16x32_aqg1x1x128_"
       "bqg1x128x128_gfx950"},
      {"gemm_bquant_mx_bf16fp4_rcr_microscale_cshuffle_intrawave_128x128x128_1x4x1_16x16x32_qg1x1x32_gfx950",
       "gemm_bquant_bf16-e2m1-bf16_rcr_microscale_cshuffle_intrawave_128x128x128_1x4x1_16x16x32_bqg1x1x32-"
       "e8m0_via-bf16_"
       "gfx950"},
      {"grouped_gemm_bquant_fp8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x32_qg1x1x128_gfx942",
       "gemm_bquant_e4m3fnuz-e4m3fnuz-f16_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x32_bqg1x1x128_"
       "gfx942"},
      {"grouped_gemm_rowcolquant_fp8_rcr_compv3_cshuffle_intrawave_True_False_True_False_128x128x64_2x2x1_"
       "32x32x16_gfx942",
       "gemm_rowcolquant_e4m3fnuz-e4m3fnuz-f16_rcr_compv3_cshuffle_intrawave_128x128x64_2x2x1_32x32x16_pad-"
       "mk_"
       "gfx942"},
      {"mx_gemm_fp8_rcr_comp_async_cshuffle_intrawave_False_False_False_128x128x128_2x2x1_16x16x128_gfx950",
       "gemm_mxquant_e4m3-e4m3-f16_rcr_compasync_cshuffle_intrawave_128x128x128_2x2x1_16x16x128_pad-none_"
       "gfx950"},
      {"mx_gemm_fp4_rcr_comp_async_cshuffle_intrawave_False_False_False_True_128x128x128_2x2x1_16x16x128_"
       "gfx950",
       "gemm_mxquant_e2m1-e2m1-f16_rcr_compasync_cshuffle_intrawave_128x128x128_2x2x1_16x16x128_persistent_"
       "pad-none_gfx950"},
      {"gemm_fp16_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x64_2x2x1_32x32x16_streamk_"
       "linear_"
       "gfx950",
       "gemm_none_f16-f16-f16_rcr_compv3_cshuffle_intrawave_128x128x64_2x2x1_32x32x16_streamk-linear_pad-"
       "none_"
       "gfx950"},
      {"gemm_int8_crr_compv3_cshuffle_intrawave_True_True_True_False_128x128x64_2x2x1_16x16x32_gfx942",
       "gemm_none_int8-int8-int32_crr_compv3_cshuffle_intrawave_128x128x64_2x2x1_16x16x32_gfx942"},
  };
  for (const auto& c : cases) {
    const KernelSpec s = parsed(c.amd);
    EXPECT_EQ(name(s), c.ours);
    EXPECT_EQ(parsed(c.ours), s);
  }
}

TEST(AmdName, RefusesWithTheReason) {
  const struct {
    const char* amd;
    const char* reason;
  } cases[] = {
      {"gemm_fp16_rcr_compv4_cshuffle_intrawave_False_False_False_True_256x128x32_2x2x1_32x32x16_preshuffle",
       "\"preshuffle\" has no KernelSpec: B in that order has no packed layout id"},
      {"gemm_fp16_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x64_2x2x1_32x32x16_streamk",
       "atomic sums of rounded partials depend on timing"},
      {"gemm_fp16_rcrr_compv4_cshuffle_intrawave_False_False_False_False_256x128x32_2x2x1_32x32x16_multid_"
       "MultiDAdd_d1",
       "\"rcrr\" has no KernelSpec: a fourth letter is a further D tensor"},
      {"gemm_fp16_rcr_compv4_cshuffle_intrawave_False_False_False_False_256x128x32_2x2x1_32x32x16_multid_"
       "Relu_d1",
       "\"multid\" has no KernelSpec: further D tensors are the run-time epilogue"},
      {"gemm_fp16_rcrr_compv3_cshuffle_intrawave_False_False_False_False_128x128x64_2x2x1_32x32x16_multiabd_"
       "a2_b2_"
       "d2_PassThrough_PassThrough_PassThrough",
       "a fourth letter is a further D tensor"},
      {"gemm_bf16_ccr_compv3_cshuffle_intrawave_False_False_False_False_128x128x64_2x2x1_32x32x16_grouped",
       "\"grouped\" has no KernelSpec: a list of problems is part of the Problem"},
      {"gemm_aquant_fp8i4_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x64_qg1x1x128_preshufflequant",
       "\"fp8i4\" has no KernelSpec: its 4-bit codes are offset by 8"},
      {"gemm_abquant_fp8_rcr_eightwaves_cshuffle_intrawave_192x256x128_4x2x1_16x16x128_aqg1x1x128_bqg1x1x128_"
       "preshuffleb_eightwaves",
       "\"eightwaves\" has no KernelSpec"},
      {"gemm_bquant_fp8_rcr_preshuffleb_permute_n_intrawave_128x128x128_1x4x1_16x16x64_qg1x1x128_preshuffleb",
       "\"preshuffleb\" has no KernelSpec: B in that order has no packed layout id"},
      {"gemm_aquant_fp8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x64_qg1x1x128_preshufflequant",
       "\"preshufflequant\" has no KernelSpec: scales in that order have no layout id"},
      {"gemm_bquant_fp8_rcr_compv3_permute_n_intrawave_128x128x128_1x4x1_16x16x64_qg1x1x128",
       "kernels here write logical D"},
  };
  for (const auto& c : cases) {
    const Result<KernelSpec> spec = parse(std::string(c.amd) + "_gfx950");
    ASSERT_FALSE(spec.ok()) << c.amd;
    EXPECT_EQ(spec.status().code(), Code::kUnsupported) << spec.status().message();
    EXPECT_NE(spec.status().message().find(c.reason), std::string::npos) << spec.status().message();
  }
}

TEST(AmdName, NeedsATargetOfItsFamily) {
  const std::string front = "gemm_rowcolquant_fp8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x128";
  EXPECT_NE(parse(front).status().message().find("append _gfx942 or _gfx950"), std::string::npos)
      << parse(front).status().message();
  EXPECT_EQ(parse(front + "_sm90a").status().code(), Code::kUnsupported);
}

TEST(AmdName, MalformedOnesSayWhere) {
  const struct {
    const char* amd;
    const char* message;
  } cases[] = {
      {"gemm_aquant_fp8_rcr_mem_cshuffle_interwave_16x64x256_1x4x1_16x16x32",
       "needed the quantisation group as aqg{m}x1x{k}; given the end"},
      {"gemm_aquant_fp8_rcr_mem_cshuffle_interwave_16x64x256_1x4x1_16x16x32_qg1x2x128",
       "needed the quantisation group as aqg{m}x1x{k}; given \"qg1x2x128\""},
      {"gemm_fp16_rcr_mem_default_intrawave_False_False_64x64x64_4x1x1_16x16x16",
       "needed True or False for the pads"},
      {"gemm_fp16_rcr_warp_default_intrawave_64x64x64_4x1x1_16x16x16", "needed a pipeline (mem, compv3"},
      {"gemm_fp16_rcr_mem_default_intrawave_64x64x64_4x1x1_16x16x16_fancy", "needed the target or an option"},
  };
  for (const auto& c : cases) {
    const Result<KernelSpec> spec = parse(std::string(c.amd) + "_gfx942");
    ASSERT_FALSE(spec.ok()) << c.amd;
    EXPECT_EQ(spec.status().code(), Code::kInvalidArgument);
    EXPECT_NE(spec.status().message().find(c.message), std::string::npos) << spec.status().message();
  }
}

}  // namespace
}  // namespace scalegemm::spec
