// Callers of other versions of the header, and descriptors full of garbage.
#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "scalegemm/scalegemm.h"

namespace {

class OldCaller : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(scalegemm_runtime_create(nullptr, &runtime_), SCALEGEMM_OK); }
  void TearDown() override { scalegemm_runtime_destroy(runtime_); }

  scalegemm_runtime* runtime_ = nullptr;
};

// A caller whose problem ended before has_clamp: the rest is taken as 0.
TEST_F(OldCaller, ShorterStructIsTakenAsZeroes) {
  scalegemm_problem problem{};
  problem.struct_size = sizeof problem;
  ASSERT_EQ(scalegemm_problem_init(&problem, "none:a=f32,b=f32", "rcr", 2, 3, 4), SCALEGEMM_OK);
  problem.struct_size = offsetof(scalegemm_problem, has_clamp);
  problem.has_clamp = 77;  // beyond what this caller declares: must not be read
  scalegemm_support support;
  support.struct_size = offsetof(scalegemm_support, kernel);
  std::memset(support.kernel, 'x', sizeof support.kernel);
  ASSERT_EQ(scalegemm_query(runtime_, &problem, nullptr, &support), SCALEGEMM_OK) << scalegemm_last_error();
  EXPECT_EQ(support.supported, 1);
  EXPECT_EQ(support.struct_size, offsetof(scalegemm_support, kernel));
  EXPECT_EQ(support.kernel[0], 'x') << "written beyond what the caller has";
}

TEST_F(OldCaller, NewerStructIsTakenWhenItsExtraFieldsAreZero) {
  struct Newer {
    scalegemm_problem problem;
    int64_t extra;
  } newer{};
  newer.problem.struct_size = sizeof newer.problem;
  ASSERT_EQ(scalegemm_problem_init(&newer.problem, "none:a=f32,b=f32", "rcr", 2, 3, 4), SCALEGEMM_OK);
  newer.problem.struct_size = sizeof newer;
  scalegemm_support support{};
  support.struct_size = sizeof support;
  EXPECT_EQ(scalegemm_query(runtime_, &newer.problem, nullptr, &support), SCALEGEMM_OK);
  newer.extra = 1;
  EXPECT_EQ(scalegemm_query(runtime_, &newer.problem, nullptr, &support), SCALEGEMM_UNSUPPORTED);
  EXPECT_NE(std::string(scalegemm_last_error()).find("problem: byte 160"), std::string::npos)
      << scalegemm_last_error();
}

// _init functions write what the caller has room for and nothing behind it.
TEST_F(OldCaller, InitWritesOnlyWhatTheCallerHas) {
  struct Older {
    char problem[offsetof(scalegemm_problem, has_clamp)];
    char guard[64];
  } older{};
  std::memset(&older, 'x', sizeof older);
  auto* problem = reinterpret_cast<scalegemm_problem*>(&older);
  problem->struct_size = sizeof older.problem;
  ASSERT_EQ(scalegemm_problem_init(problem, "mxfp4", "rcr", 2, 4, 64), SCALEGEMM_OK)
      << scalegemm_last_error();
  EXPECT_EQ(problem->k, 64);
  EXPECT_EQ(std::string(older.guard, sizeof older.guard), std::string(sizeof older.guard, 'x'));
  scalegemm_run_args args{};
  args.struct_size = offsetof(scalegemm_run_args, stream);
  args.stream = &args;
  ASSERT_EQ(scalegemm_run_args_init(&args), SCALEGEMM_OK);
  EXPECT_EQ(args.alpha, 1.0f);
  EXPECT_EQ(args.stream, &args);
  args.struct_size = 0;
  EXPECT_EQ(scalegemm_run_args_init(&args), SCALEGEMM_INVALID_ARGUMENT);
}

TEST_F(OldCaller, StructSizeIsRequired) {
  scalegemm_problem problem{};
  scalegemm_support support{};
  EXPECT_EQ(scalegemm_query(runtime_, &problem, nullptr, &support), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(scalegemm_last_error()).find("problem: struct_size"), std::string::npos);
  problem.struct_size = uint64_t{1} << 40;
  EXPECT_EQ(scalegemm_query(runtime_, &problem, nullptr, &support), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_problem_init(&problem, "mxfp4", "rcr", 2, 4, 64), SCALEGEMM_INVALID_ARGUMENT);
}

// A host that flushes subnormals or rounds up gets the same codes and numbers.
TEST_F(OldCaller, CallersFloatModeDoesNotMatter) {
  scalegemm_operand_desc operand{};
  operand.dtype = SCALEGEMM_E4M3;
  operand.scale.dtype = SCALEGEMM_F32;
  operand.scale.block_rows = 1;
  operand.scale.block_k = 4;
  float values[8] = {1e-39f, -2e-39f, 3e-40f, 5e-39f, 0.3f, 0.7f, -0.11f, 0.9f};
  uint8_t codes[2][8];
  float scales[2][2], back[2][8];
  const unsigned saved = _mm_getcsr();
  for (int i = 0; i < 2; ++i) {
    _mm_setcsr(i == 0 ? 0x1f80 : 0x1f80 | 0x8040 | 0x4000);  // flush to zero, denormals are zero, round up
    const scalegemm_tensor src = scalegemm_matrix(values, SCALEGEMM_F32, 1, 8);
    const scalegemm_tensor code = scalegemm_matrix(codes[i], SCALEGEMM_E4M3, 1, 8);
    const scalegemm_tensor scale = scalegemm_matrix(scales[i], SCALEGEMM_F32, 1, 2);
    const scalegemm_tensor dst = scalegemm_matrix(back[i], SCALEGEMM_F32, 1, 8);
    const auto status = scalegemm_quantize(&operand, &src, nullptr, &code, &scale, nullptr, nullptr);
    const auto inverse = scalegemm_dequantize(&operand, &code, &scale, nullptr, nullptr, &dst);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(saved);
    ASSERT_EQ(status, SCALEGEMM_OK) << scalegemm_last_error();
    ASSERT_EQ(inverse, SCALEGEMM_OK) << scalegemm_last_error();
    EXPECT_EQ(after & ~0x3fu, i == 0 ? 0x1f80u : 0x1f80u | 0x8040u | 0x4000u);
  }
  EXPECT_EQ(std::memcmp(codes[0], codes[1], sizeof codes[0]), 0);
  EXPECT_EQ(std::memcmp(scales[0], scales[1], sizeof scales[0]), 0);
  EXPECT_EQ(std::memcmp(back[0], back[1], sizeof back[0]), 0);
  EXPECT_NE(back[0][3], 0.0f);
}

TEST_F(OldCaller, NullArgumentsAreNamed) {
  EXPECT_EQ(scalegemm_query(runtime_, nullptr, nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_query(nullptr, nullptr, nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(scalegemm_last_error()).find("runtime"), std::string::npos);
  EXPECT_EQ(scalegemm_run(nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_runtime_create(nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_plan_create(runtime_, nullptr, nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_pack(runtime_, nullptr, nullptr, nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_unpack(nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_packed_load(nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_file_open(nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  EXPECT_EQ(scalegemm_explain(runtime_, nullptr, nullptr, 0, nullptr, nullptr), SCALEGEMM_INVALID_ARGUMENT);
  scalegemm_plan_destroy(nullptr);
  scalegemm_packed_destroy(nullptr);
  scalegemm_runtime_destroy(nullptr);
  scalegemm_file_close(nullptr);
}

// Descriptors with random fields never crash, and a refusal always says why.
TEST_F(OldCaller, RandomProblemsNeverCrash) {
  std::mt19937_64 random(20261130);
  const int64_t sizes[] = {0, 1, 2, 3, 7, 16, 33, -1, INT64_MIN, INT64_MAX, int64_t{1} << 40};
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    scalegemm_problem p{};
    p.struct_size = sizeof p;
    ASSERT_EQ(scalegemm_problem_init(&p, "none:a=f32,b=f32", "rcr", 2, 4, 8), SCALEGEMM_OK);
    auto* words = reinterpret_cast<int32_t*>(reinterpret_cast<char*>(&p) + offsetof(scalegemm_problem, a));
    const size_t count = (sizeof p - offsetof(scalegemm_problem, a)) / 4;
    for (uint64_t j = 0; j < random() % 6; ++j) {
      words[random() % count] =
          random() % 4 == 0 ? static_cast<int32_t>(random()) : static_cast<int32_t>(random() % 16);
    }
    p.m = sizes[random() % 11];
    p.n = sizes[random() % 11];
    p.k = sizes[random() % 11];
    if (random() % 4 == 0) {
      p.batch = sizes[random() % 11];
    }
    scalegemm_support support{};
    support.struct_size = sizeof support;
    const scalegemm_status status = scalegemm_query(runtime_, &p, nullptr, &support);
    if (status == SCALEGEMM_OK) {
      taken += support.supported;
      ASSERT_TRUE(support.supported == 1 || support.reason[0] != '\0');
    } else {
      ASSERT_NE(scalegemm_last_error()[0], '\0');
    }
  }
  EXPECT_GT(taken, 100) << "the generator no longer makes legal problems";
}

}  // namespace
