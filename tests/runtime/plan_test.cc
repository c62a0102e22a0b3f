// Plans: what run checks, that it allocates nothing, and that threads may share it.
#include "runtime/plan.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

#include "runtime/memory.h"
#include "runtime/runtime.h"
#include "spec/scheme.h"

namespace {

std::atomic<int64_t> g_allocations{0};

}  // namespace

// Every allocation of the program passes here, also those of libstdc++. A sanitizer has a malloc of its own,
// which cannot be replaced (its threads are not ready when the first allocation comes) but tells of each
// call.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
// Of sanitizer/allocator_interface.h, which GCC does not install.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, size_t),
                                                         void (*free_hook)(const volatile void*));
namespace {

void count_allocation(const volatile void*, size_t) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
}

const int g_hooked = __sanitizer_install_malloc_and_free_hooks(count_allocation, [](const volatile void*) {});

}  // namespace
#else
extern "C" void* __libc_malloc(size_t size);
extern "C" void* malloc(size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
#endif

namespace scalegemm::runtime {
namespace {

// An f32 problem with small integers, whose result is exact.
class PlanTest : public ::testing::Test {
 protected:
  static constexpr int64_t kM = 5, kN = 37, kK = 64;

  void SetUp() override {
    auto created = Runtime::create({.threads = 2});
    ASSERT_TRUE(created.ok()) << created.status().message();
    runtime_ = *std::move(created);
    for (size_t i = 0; i < a_.size(); ++i) {
      a_[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
    }
    for (size_t i = 0; i < b_.size(); ++i) {
      b_[i] = static_cast<float>(static_cast<int>(i % 5) - 2);
    }
  }

  static spec::Problem problem(const char* scheme = "none:a=f32,b=f32") {
    spec::Problem p;
    p.m = kM;
    p.n = kN;
    p.k = kK;
    const auto parsed = spec::parse_scheme(scheme);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_TRUE(spec::apply(*parsed, "rcr", p).ok());
    return p;
  }

  static Tensor matrix(std::vector<float>& memory, int64_t rows, int64_t cols) {
    return {.data = memory.data(),
            .bytes = memory.size() * sizeof(float),
            .type = DType::kF32,
            .shape = {1, rows, cols},
            .stride = {rows * cols, cols, 1}};
  }

  std::unique_ptr<Plan> plan(const spec::Problem& p, PlanOptions options = {}) {
    auto result = runtime_->plan(p, options);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *std::move(result) : nullptr;
  }

  RunArgs args(std::vector<float>& d, const AlignedBuffer& workspace) {
    RunArgs run;
    run.a = matrix(a_, kM, kK);
    run.weights.b = matrix(b_, kN, kK);
    run.d = matrix(d, kM, kN);
    run.workspace = workspace.data();
    run.workspace_bytes = workspace.size();
    return run;
  }

  float expected(int64_t m, int64_t n) const {
    float sum = 0;
    for (int64_t k = 0; k < kK; ++k) {
      sum += a_[static_cast<size_t>(m * kK + k)] * b_[static_cast<size_t>(n * kK + k)];
    }
    return sum;
  }

  void expect_right(const std::vector<float>& d) const {
    for (int64_t m = 0; m < kM; ++m) {
      for (int64_t n = 0; n < kN; ++n) {
        ASSERT_EQ(d[static_cast<size_t>(m * kN + n)], expected(m, n)) << m << "," << n;
      }
    }
  }

  std::unique_ptr<Runtime> runtime_;
  std::vector<float> a_ = std::vector<float>(kM * kK);
  std::vector<float> b_ = std::vector<float>(kN * kK);
};

AlignedBuffer workspace_of(const Plan& plan) {
  auto buffer = AlignedBuffer::allocate(std::max<uint64_t>(plan.workspace_bytes(), 1));
  EXPECT_TRUE(buffer.ok());
  return *std::move(buffer);
}

TEST_F(PlanTest, ComputesAndAllocatesNothing) {
  const auto p = plan(problem());
  ASSERT_NE(p, nullptr);
  const AlignedBuffer workspace = workspace_of(*p);
  std::vector<float> d(kM * kN, std::nanf(""));
  const RunArgs run = args(d, workspace);
  ASSERT_TRUE(p->run(run).ok());
  expect_right(d);
  const int64_t before = g_allocations.load();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(p->run(run).ok());
  }
  EXPECT_EQ(g_allocations.load(), before);
  std::vector<char>* probe = new std::vector<char>(100);
  delete probe;
  EXPECT_GT(g_allocations.load(), before) << "the counter does not count";
}

TEST_F(PlanTest, ThreadsShareAPlan) {
  const auto p = plan(problem());
  ASSERT_NE(p, nullptr);
  std::vector<std::thread> threads;
  std::array<std::vector<float>, 4> results;
  for (auto& d : results) {
    threads.emplace_back([&] {
      const AlignedBuffer workspace = workspace_of(*p);
      for (int i = 0; i < 50; ++i) {
        d.assign(kM * kN, std::nanf(""));
        const RunArgs run = args(d, workspace);
        ASSERT_TRUE(p->run(run).ok());
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& d : results) {
    expect_right(d);
  }
}

TEST_F(PlanTest, EveryWrongArgumentIsNamed) {
  spec::Problem with_c = problem();
  with_c.epilogue.c = DType::kF32;
  const auto p = plan(problem());
  const auto pc = plan(with_c);
  ASSERT_TRUE(p && pc);
  const AlignedBuffer workspace = workspace_of(*p);
  std::vector<float> d(kM * kN);
  const auto expect = [&](const Plan& which, auto change, const char* text) {
    RunArgs run = args(d, workspace);
    change(run);
    const Status status = which.run(run);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  expect(
      *p, [](RunArgs& r) { r.a.data = nullptr; }, "a: data must not be null");
  expect(
      *p, [](RunArgs& r) { r.weights.b = {}; }, "b: data must not be null");
  expect(
      *p, [](RunArgs& r) { r.d.shape[2] = 36; }, "d: shape must be");
  expect(
      *p, [](RunArgs& r) { r.scale_a = r.a; }, "scale_a: must be absent");
  expect(
      *p, [](RunArgs& r) { r.weights.zero = r.a; }, "zero_b: must be absent");
  expect(
      *p, [](RunArgs& r) { r.bias = r.a; }, "bias: must be absent");
  expect(
      *p, [](RunArgs& r) { r.c = r.d; }, "c: must be absent");
  expect(
      *p, [](RunArgs& r) { r.beta = 1; }, "beta: must be 0");
  expect(
      *p, [](RunArgs& r) { r.global_a = &r.alpha; }, "global_a: must be null");
  expect(
      *p, [](RunArgs& r) { r.weights.global = &r.alpha; }, "global_b: must be null");
  expect(
      *p, [](RunArgs& r) { r.workspace_bytes = 0; }, "workspace: must have");
  expect(
      *p, [](RunArgs& r) { r.workspace = static_cast<char*>(r.workspace) + 4; },
      "workspace: must be 64-byte aligned");
  expect(
      *p,
      [](RunArgs& r) {
        r.d.data = r.a.data;
        r.d.bytes = r.a.bytes;
      },
      "d: must not overlap a");
  expect(
      *pc, [](RunArgs& r) { r.c = {}; }, "c: data must not be null");
  expect(
      *pc,
      [](RunArgs& r) {
        r.c = r.d;
        r.c.stride[1] = 1;
        r.c.stride[2] = kM;
      },
      "d: must not overlap c");
}

TEST_F(PlanTest, Int32IsTheExactSum) {
  spec::Problem p = problem("none:a=int8");
  p.d = DType::kInt32;
  const auto exact = plan(p);
  ASSERT_NE(exact, nullptr);
  const AlignedBuffer workspace = workspace_of(*exact);
  std::vector<int8_t> a(kM * kK, 1), b(kN * kK, -2);
  std::vector<int32_t> d(kM * kN, 7);
  RunArgs run;
  run.a = {.data = a.data(),
           .bytes = a.size(),
           .type = DType::kInt8,
           .shape = {1, kM, kK},
           .stride = {kM * kK, kK, 1}};
  run.weights.b = {.data = b.data(),
                   .bytes = b.size(),
                   .type = DType::kInt8,
                   .shape = {1, kN, kK},
                   .stride = {kN * kK, kK, 1}};
  run.d = {.data = d.data(),
           .bytes = d.size() * 4,
           .type = DType::kInt32,
           .shape = {1, kM, kN},
           .stride = {kM * kN, kN, 1}};
  run.workspace = workspace.data();
  run.workspace_bytes = workspace.size();
  ASSERT_TRUE(exact->run(run).ok());
  for (const int32_t value : d) {
    ASSERT_EQ(value, -2 * kK);
  }
  run.alpha = 2;
  EXPECT_NE(exact->run(run).message().find("alpha: must be 1"), std::string::npos);
}

TEST_F(PlanTest, CMayBeD) {
  spec::Problem with_c = problem();
  with_c.epilogue.c = DType::kF32;
  const auto p = plan(with_c);
  ASSERT_NE(p, nullptr);
  const AlignedBuffer workspace = workspace_of(*p);
  std::vector<float> d(kM * kN, 2.0f);
  RunArgs run = args(d, workspace);
  run.c = run.d;
  run.beta = 0.5f;
  ASSERT_TRUE(p->run(run).ok());
  for (int64_t m = 0; m < kM; ++m) {
    for (int64_t n = 0; n < kN; ++n) {
      ASSERT_EQ(d[static_cast<size_t>(m * kN + n)], expected(m, n) + 1.0f);
    }
  }
}

// A C of batch 1 in D's place would be overwritten by batch 0 and read by the others.
TEST_F(PlanTest, OneCForAllBatchesIsNotD) {
  spec::Problem with_c = problem();
  with_c.epilogue.c = DType::kF32;
  with_c.batch = 2;
  const auto p = plan(with_c);
  ASSERT_NE(p, nullptr);
  const AlignedBuffer workspace = workspace_of(*p);
  std::vector<float> d(2 * kM * kN);
  RunArgs run = args(d, workspace);
  run.d.shape[0] = 2;
  run.c = run.d;
  run.beta = 1;
  EXPECT_TRUE(p->run(run).ok());
  run.c.shape[0] = 1;
  EXPECT_NE(p->run(run).message().find("d: must not overlap c"), std::string::npos) << p->run(run).message();
}

// A column-major D has no gaps either.
TEST_F(PlanTest, TransposedOutputMustNotOverlap) {
  const auto p = plan(problem());
  ASSERT_NE(p, nullptr);
  const AlignedBuffer workspace = workspace_of(*p);
  std::vector<float> d(kM * kN);
  RunArgs run = args(d, workspace);
  run.d.stride = {kM * kN, 1, kM};
  EXPECT_TRUE(p->run(run).ok());
  run.d.data = b_.data();
  run.d.bytes = b_.size() * sizeof(float);
  EXPECT_NE(p->run(run).message().find("d: must not overlap b"), std::string::npos);
}

TEST_F(PlanTest, PackedWeightsMustBeThePlansOwnKind) {
  spec::Problem p = problem();
  p.b_packing = spec::Packing::kChosen;
  const auto packed_plan = plan(p);
  const auto raw_plan = plan(problem());
  ASSERT_TRUE(packed_plan && raw_plan);
  const auto packed = runtime_->pack(p, {}, {.b = matrix(b_, kN, kK), .scale = {}, .zero = {}});
  ASSERT_TRUE(packed.ok()) << packed.status().message();
  const AlignedBuffer workspace = workspace_of(*packed_plan);
  const AlignedBuffer raw_workspace = workspace_of(*raw_plan);
  std::vector<float> d(kM * kN);
  RunArgs run = args(d, workspace);
  run.weights = {};
  run.packed_b = packed->get();
  ASSERT_TRUE(packed_plan->run(run).ok());
  expect_right(d);

  RunArgs both = args(d, workspace);
  both.packed_b = packed->get();
  EXPECT_NE(packed_plan->run(both).message().find("b: must be absent"), std::string::npos);
  RunArgs neither = args(d, workspace);
  neither.weights = {};
  EXPECT_NE(packed_plan->run(neither).message().find("packed_b: must not be null"), std::string::npos);
  RunArgs wrong = args(d, raw_workspace);
  wrong.packed_b = packed->get();
  EXPECT_NE(raw_plan->run(wrong).message().find("packed_b: must be null"), std::string::npos);

  spec::Problem other = p;
  other.n = kN - 1;
  const auto other_plan = plan(other);
  ASSERT_NE(other_plan, nullptr);
  std::vector<float> smaller(kM * (kN - 1));
  RunArgs mismatch = args(d, workspace);
  mismatch.weights = {};
  mismatch.packed_b = packed->get();
  mismatch.d = matrix(smaller, kM, kN - 1);
  EXPECT_NE(other_plan->run(mismatch).message().find("packed_b: must hold 36 x 64"), std::string::npos);
}

TEST_F(PlanTest, DevicesAndKernelsThatDoNotExist) {
  const auto code = [&](PlanOptions options) { return runtime_->plan(problem(), options).status().code(); };
  EXPECT_EQ(code({.device = "hip:0"}), Code::kNotBuilt);
  EXPECT_EQ(code({.device = "cuda:999"}), Code::kNoDevice);
  EXPECT_EQ(code({.device = "tpu"}), Code::kNoDevice);
  EXPECT_EQ(code({.device = "cpu", .kernel = "gemm_nonsense"}), Code::kInvalidArgument);
  // A kernel for another type of B exists and declines with its rule.
  const auto kernels = runtime_->kernels("e4m3");
  ASSERT_TRUE(kernels.ok()) << kernels.status().message();
  ASSERT_FALSE(kernels->empty());
  const auto declined = runtime_->plan(problem(), {.device = "cpu", .kernel = kernels->front().name});
  EXPECT_EQ(declined.status().code(), Code::kUnsupported);
  EXPECT_NE(declined.status().message().find("needed"), std::string::npos) << declined.status().message();
}

// The built-in set is complete: nothing that is legal on the CPU needs a compiler.
TEST_F(PlanTest, EveryKernelIsBuiltIn) {
  const auto kernels = runtime_->kernels("");
  ASSERT_TRUE(kernels.ok());
  ASSERT_GE(kernels->size(), 15u);
  for (const KernelInfo& kernel : *kernels) {
    EXPECT_TRUE(kernel.built_in) << kernel.name;
  }
}

TEST_F(PlanTest, ACapOnTheTargetHolds) {
  auto capped = Runtime::create({.threads = 1, .cpu_target = "x86-64-v3"});
  ASSERT_TRUE(capped.ok());
  const auto p = (*capped)->plan(problem(), {});
  ASSERT_TRUE(p.ok());
  EXPECT_NE((*p)->kernel_name().find("x86v3"), std::string::npos) << (*p)->kernel_name();
  EXPECT_EQ(Runtime::create({.cpu_target = "sm_90a"}).status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(Runtime::create({.cpu_target = "pentium"}).ok());
}

}  // namespace
}  // namespace scalegemm::runtime
