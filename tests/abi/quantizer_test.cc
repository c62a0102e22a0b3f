// What a quantizer of the CPU refuses, and the words it does that with; that it may outlive its runtime.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "scalegemm/scalegemm.h"

namespace {

class Quantizer : public testing::Test {
 protected:
  static constexpr int64_t kRows = 3, kK = 64;

  void SetUp() override {
    ASSERT_EQ(scalegemm_runtime_create(nullptr, &runtime_), SCALEGEMM_OK);
    desc_.struct_size = sizeof desc_;
    desc_.operand.dtype = SCALEGEMM_E4M3;
    desc_.operand.scale.dtype = SCALEGEMM_F32;
    desc_.operand.scale.block_rows = 1;
    desc_.operand.scale.block_k = 32;
    desc_.source_dtype = SCALEGEMM_F32;
    args_.struct_size = sizeof args_;
    args_.src = scalegemm_matrix(source_.data(), SCALEGEMM_F32, kRows, kK);
    args_.codes = scalegemm_matrix(codes_.data(), SCALEGEMM_E4M3, kRows, kK);
    args_.scales = scalegemm_matrix(scales_.data(), SCALEGEMM_F32, kRows, kK / 32);
  }
  void TearDown() override { scalegemm_runtime_destroy(runtime_); }

  scalegemm_status create(const scalegemm_plan_options* options = nullptr) {
    scalegemm_quantizer* quantizer = nullptr;
    const scalegemm_status status = scalegemm_quantizer_create(runtime_, &desc_, options, &quantizer);
    EXPECT_EQ(quantizer != nullptr, status == SCALEGEMM_OK);
    scalegemm_quantizer_destroy(quantizer);
    return status;
  }

  std::vector<float> source_ = std::vector<float>(kRows * kK, 1.0f), scales_ = std::vector<float>(kRows * kK);
  std::vector<unsigned char> codes_ = std::vector<unsigned char>(kRows * kK);
  scalegemm_runtime* runtime_ = nullptr;
  scalegemm_quantizer_desc desc_{};
  scalegemm_quantizer_args args_{};
};

void expect_message(scalegemm_status status, scalegemm_status wanted, const std::string& start) {
  EXPECT_EQ(status, wanted) << start;
  EXPECT_EQ(std::string(scalegemm_last_error()).rfind(start, 0), 0u) << scalegemm_last_error();
}

TEST_F(Quantizer, DescriptionsAreRefusedByName) {
  const auto expect = [&](const std::function<void(scalegemm_quantizer_desc&)>& change,
                          scalegemm_status status, const std::string& start) {
    const scalegemm_quantizer_desc kept = desc_;
    change(desc_);
    expect_message(create(), status, start);
    desc_ = kept;
  };
  using Desc = scalegemm_quantizer_desc;
  expect([](Desc& d) { d.struct_size = 0; }, SCALEGEMM_INVALID_ARGUMENT, "desc: struct_size");
  expect([](Desc& d) { d.source_dtype = 0; }, SCALEGEMM_INVALID_ARGUMENT, "desc.source_dtype:");
  expect([](Desc& d) { d.source_dtype = SCALEGEMM_INT8; }, SCALEGEMM_INVALID_ARGUMENT,
         "desc.source_dtype: must be f32, f16 or bf16, got int8");
  expect([](Desc& d) { d.scale_rounding = 3; }, SCALEGEMM_INVALID_ARGUMENT, "desc.scale_rounding:");
  expect([](Desc& d) { d.operand.dtype = 99; }, SCALEGEMM_INVALID_ARGUMENT, "desc.operand.dtype:");
  expect([](Desc& d) { d.operand.scale.reserved = 1; }, SCALEGEMM_INVALID_ARGUMENT,
         "desc.operand.scale.reserved:");
  expect([](Desc& d) { d.operand.scale.block_k = -1; }, SCALEGEMM_INVALID_ARGUMENT, "desc.operand:");
  expect([](Desc& d) { d.operand.scale = {}; }, SCALEGEMM_UNSUPPORTED, "desc.operand.scale.dtype:");
  expect([](Desc& d) { d.operand.scale.block_rows = 0; }, SCALEGEMM_UNSUPPORTED,
         "desc.operand.scale.block_rows: a quantizer needs 1");
  expect([](Desc& d) { d.operand.scale.has_global = 1; }, SCALEGEMM_UNSUPPORTED,
         "desc.operand.scale.has_global:");
  expect(
      [](Desc& d) {
        d.operand.dtype = SCALEGEMM_INT8;
        d.operand.scale.zero_dtype = SCALEGEMM_INT8;
      },
      SCALEGEMM_UNSUPPORTED, "desc.operand.scale.zero_dtype:");

  scalegemm_plan_options options{};
  options.struct_size = sizeof options;
  options.kernel = "x";
  expect_message(create(&options), SCALEGEMM_INVALID_ARGUMENT, "options.kernel:");
  options.kernel = nullptr;
  options.device = "tpu";
  expect_message(create(&options), SCALEGEMM_NO_DEVICE, "device:");
  expect_message(scalegemm_quantizer_create(runtime_, &desc_, nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT,
                 "quantizer:");
  scalegemm_quantizer* quantizer = nullptr;
  expect_message(scalegemm_quantizer_create(nullptr, &desc_, nullptr, &quantizer), SCALEGEMM_INVALID_ARGUMENT,
                 "runtime:");
  EXPECT_EQ(create(), SCALEGEMM_OK) << scalegemm_last_error();
}

TEST_F(Quantizer, ArgumentsAreRefusedByName) {
  scalegemm_quantizer* quantizer = nullptr;
  ASSERT_EQ(scalegemm_quantizer_create(runtime_, &desc_, nullptr, &quantizer), SCALEGEMM_OK);
  const auto expect = [&](const std::function<void(scalegemm_quantizer_args&)>& change,
                          const std::string& start) {
    scalegemm_quantizer_args args = args_;
    change(args);
    expect_message(scalegemm_quantizer_run(quantizer, &args), SCALEGEMM_INVALID_ARGUMENT, start);
  };
  using Args = scalegemm_quantizer_args;
  EXPECT_EQ(scalegemm_quantizer_run(quantizer, &args_), SCALEGEMM_OK) << scalegemm_last_error();
  expect([](Args& a) { a.src.data = nullptr; }, "src: data");
  expect([](Args& a) { a.src.reserved = 1; }, "src.reserved:");
  expect([](Args& a) { a.src.dtype = SCALEGEMM_BF16; }, "src: dtype must be f32, got bf16");
  expect([](Args& a) { a.src.shape[1] = 0; }, "src: rows and columns must be positive, got 0 x 64");
  expect([](Args& a) { a.src.shape[0] = 2; }, "src: shape must be 1 x 3 x 64");
  expect([](Args& a) { a.src.stride[1] = 1, a.src.stride[2] = kRows; }, "src: columns must be contiguous");
  expect([](Args& a) { a.src.bytes -= 1; }, "src: shape and strides span");
  expect([](Args& a) { a.src.data = static_cast<char*>(a.src.data) + 1; }, "src: data must be aligned");
  expect([](Args& a) { a.codes.shape[2] = kK - 1; }, "codes: shape must be 1 x 3 x 64");
  expect([](Args& a) { a.codes.stride[1] = kK - 1; }, "codes: elements overlap");
  expect([](Args& a) { a.codes.dtype = SCALEGEMM_E5M2; }, "codes: dtype must be e4m3");
  expect([](Args& a) { a.scales.dtype = SCALEGEMM_F16; }, "scales: dtype must be f32");
  expect([](Args& a) { a.scales.shape[2] = 1; }, "scales: shape must be 1 x 3 x 2");
  expect([](Args& a) { a.scales.stride[1] = 0; }, "scales: elements overlap");
  expect([](Args& a) { a.codes.data = a.src.data; }, "codes: must not overlap src");
  expect([](Args& a) { a.scales.data = a.src.data; }, "scales: must not overlap src");
  expect([](Args& a) { a.stream = &a; }, "args.stream: must be null");
  expect([](Args& a) { a.struct_size = 3; }, "args: struct_size");
  expect_message(scalegemm_quantizer_run(nullptr, &args_), SCALEGEMM_INVALID_ARGUMENT, "quantizer:");
  scalegemm_quantizer_destroy(quantizer);
  scalegemm_quantizer_destroy(nullptr);
}

TEST_F(Quantizer, FourBitCodesNeedAnEvenK) {
  desc_.operand.dtype = SCALEGEMM_E2M1;
  desc_.operand.scale.dtype = SCALEGEMM_E8M0;
  scalegemm_quantizer* quantizer = nullptr;
  ASSERT_EQ(scalegemm_quantizer_create(runtime_, &desc_, nullptr, &quantizer), SCALEGEMM_OK);
  args_.src = scalegemm_matrix(source_.data(), SCALEGEMM_F32, kRows, 31);
  args_.codes = scalegemm_matrix(codes_.data(), SCALEGEMM_E2M1, kRows, 31);
  args_.scales = scalegemm_matrix(scales_.data(), SCALEGEMM_E8M0, kRows, 1);
  expect_message(scalegemm_quantizer_run(quantizer, &args_), SCALEGEMM_INVALID_ARGUMENT,
                 "src: columns must be even, as two e2m1 codes share a byte, got 31");
  scalegemm_quantizer_destroy(quantizer);
}

// Codes and scales of a row side by side in one buffer, as caches of keys and values have them.
TEST_F(Quantizer, OutlivesItsRuntimeAndWritesInterleaved) {
  scalegemm_quantizer* quantizer = nullptr;
  ASSERT_EQ(scalegemm_quantizer_create(runtime_, &desc_, nullptr, &quantizer), SCALEGEMM_OK);
  scalegemm_runtime_destroy(runtime_);
  runtime_ = nullptr;
  constexpr int64_t kRow = kK + 2 * sizeof(float);
  std::vector<float> memory(kRows * kRow / sizeof(float));
  args_.codes.data = memory.data();
  args_.codes.stride[1] = kRow;
  args_.codes.bytes = kRows * kRow;
  args_.scales.data = memory.data() + kK / sizeof(float);
  args_.scales.stride[1] = kRow / static_cast<int64_t>(sizeof(float));
  args_.scales.bytes = (kRows - 1) * kRow + 2 * sizeof(float);
  ASSERT_EQ(scalegemm_quantizer_run(quantizer, &args_), SCALEGEMM_OK) << scalegemm_last_error();
  for (int64_t r = 0; r < kRows; ++r) {
    const auto* row = reinterpret_cast<const unsigned char*>(memory.data()) + r * kRow;
    for (int64_t k = 0; k < kK; ++k) {
      ASSERT_EQ(row[k], 0x7e) << r << ' ' << k;
    }
    float scales[2];
    std::memcpy(scales, row + kK, sizeof scales);
    EXPECT_EQ(scales[0], 1.0f / 448.0f);
    EXPECT_EQ(scales[1], 1.0f / 448.0f);
  }
  scalegemm_quantizer_destroy(quantizer);
}

}  // namespace
