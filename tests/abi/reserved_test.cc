// Fields that must be 0 are refused by name where they are not: a later library may give them a meaning, and
// must not meet old garbage there.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scalegemm/scalegemm.h"

namespace {

void expect_refused(scalegemm_status status, const std::string& argument) {
  EXPECT_EQ(status, SCALEGEMM_INVALID_ARGUMENT) << argument;
  EXPECT_EQ(std::string(scalegemm_last_error()).rfind(argument + ":", 0), 0u) << scalegemm_last_error();
}

class Reserved : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(scalegemm_runtime_create(nullptr, &runtime_), SCALEGEMM_OK);
    problem_.struct_size = sizeof problem_;
    ASSERT_EQ(scalegemm_problem_init(&problem_, "rowcol", "rcr", 2, 3, 4), SCALEGEMM_OK);
    ASSERT_EQ(scalegemm_plan_create(runtime_, &problem_, nullptr, &plan_), SCALEGEMM_OK);
    workspace_.resize(scalegemm_plan_workspace_bytes(plan_) + 64);
    args_.struct_size = sizeof args_;
    ASSERT_EQ(scalegemm_run_args_init(&args_), SCALEGEMM_OK);
    args_.a = scalegemm_matrix(codes_, SCALEGEMM_E4M3, 2, 4);
    args_.b = scalegemm_matrix(codes_, SCALEGEMM_E4M3, 3, 4);
    args_.scale_a = scalegemm_matrix(scales_, SCALEGEMM_F32, 2, 1);
    args_.scale_b = scalegemm_matrix(scales_, SCALEGEMM_F32, 3, 1);
    args_.d = scalegemm_matrix(d_, SCALEGEMM_F32, 2, 3);
    const auto at = reinterpret_cast<uintptr_t>(workspace_.data());
    args_.workspace = workspace_.data() + (64 - at % 64) % 64;
    args_.workspace_bytes = scalegemm_plan_workspace_bytes(plan_);
    ASSERT_EQ(scalegemm_run(plan_, &args_), SCALEGEMM_OK) << scalegemm_last_error();
  }
  void TearDown() override {
    scalegemm_plan_destroy(plan_);
    scalegemm_runtime_destroy(runtime_);
  }

  unsigned char codes_[12] = {};
  float scales_[3] = {1, 1, 1};
  float d_[6] = {};
  std::vector<unsigned char> workspace_;
  scalegemm_runtime* runtime_ = nullptr;
  scalegemm_plan* plan_ = nullptr;
  scalegemm_problem problem_{};
  scalegemm_run_args args_{};
};

TEST_F(Reserved, OfTensors) {
  const struct {
    scalegemm_tensor scalegemm_run_args::*tensor;
    const char* name;
  } rows[] = {{&scalegemm_run_args::a, "a"},
              {&scalegemm_run_args::b, "b"},
              {&scalegemm_run_args::scale_a, "scale_a"},
              {&scalegemm_run_args::zero_a, "zero_a"},
              {&scalegemm_run_args::scale_b, "scale_b"},
              {&scalegemm_run_args::zero_b, "zero_b"},
              {&scalegemm_run_args::c, "c"},
              {&scalegemm_run_args::bias, "bias"},
              {&scalegemm_run_args::d, "d"}};
  for (const auto& row : rows) {
    scalegemm_run_args args = args_;
    (args.*row.tensor).reserved = 7;
    expect_refused(scalegemm_run(plan_, &args), std::string(row.name) + ".reserved");
  }
  scalegemm_operand_desc f32{};
  f32.dtype = SCALEGEMM_F32;
  scalegemm_tensor tensor = scalegemm_matrix(d_, SCALEGEMM_F32, 2, 3);
  scalegemm_tensor out = scalegemm_matrix(codes_, SCALEGEMM_F32, 1, 3);
  tensor.reserved = 1;
  expect_refused(scalegemm_quantize(&f32, &tensor, nullptr, &out, nullptr, nullptr, nullptr), "src.reserved");
}

TEST_F(Reserved, StreamOfACpuPlan) {
  args_.stream = &problem_;
  expect_refused(scalegemm_run(plan_, &args_), "args.stream");
}

TEST_F(Reserved, OfOptionsAndDescriptors) {
  scalegemm_runtime_options options{};
  options.struct_size = sizeof options;
  options.reserved = 1;
  scalegemm_runtime* runtime = nullptr;
  expect_refused(scalegemm_runtime_create(&options, &runtime), "options.reserved");
  options.reserved = 0;
  options.strict = 2;
  expect_refused(scalegemm_runtime_create(&options, &runtime), "options.strict");

  scalegemm_plan_options plan_options{};
  plan_options.struct_size = sizeof plan_options;
  plan_options.reserved = 1;
  scalegemm_plan* plan = nullptr;
  expect_refused(scalegemm_plan_create(runtime_, &problem_, &plan_options, &plan), "options.reserved");

  for (const bool of_a : {true, false}) {
    scalegemm_problem problem = problem_;
    (of_a ? problem.a : problem.b).scale.reserved = 1;
    expect_refused(scalegemm_plan_create(runtime_, &problem, nullptr, &plan),
                   of_a ? "problem.a.scale.reserved" : "problem.b.scale.reserved");
  }

  scalegemm_quantize_options rounding{};
  rounding.struct_size = sizeof rounding;
  rounding.reserved = 1;
  scalegemm_operand_desc f32{};
  f32.dtype = SCALEGEMM_F32;
  const scalegemm_tensor tensor = scalegemm_matrix(d_, SCALEGEMM_F32, 2, 3);
  expect_refused(scalegemm_quantize(&f32, &tensor, &rounding, &tensor, nullptr, nullptr, nullptr),
                 "options.reserved");

  scalegemm_file_tensor file{};
  file.name = "x";
  file.dtype = SCALEGEMM_F32;
  file.reserved = 1;
  expect_refused(scalegemm_file_write("/nowhere/x.npy", &file, 1), "tensors[0].reserved");
}

TEST_F(Reserved, WarningsAreThereForARuntimeWithoutAny) {
  char text[64] = "x";
  uint64_t size = sizeof text;
  EXPECT_EQ(scalegemm_runtime_warnings(runtime_, text, &size), SCALEGEMM_OK);
  EXPECT_STREQ(text, "");
  EXPECT_EQ(size, 1u);
  expect_refused(scalegemm_runtime_warnings(nullptr, text, &size), "runtime");
}

}  // namespace
