// The harness is a judge, so it is judged first: it must find what is wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include "harness/bench.h"
#include "harness/buffer.h"
#include "harness/ceiling.h"
#include "harness/grid.h"
#include "harness/proofs.h"
#include "harness/timing.h"

namespace scalegemm::harness {
namespace {

TEST(Buffer, FindsWritesOnBothSides) {
  for (Place place : {Place::kAligned, Place::kMisaligned, Place::kFlushEnd}) {
    Buffer before("x", 100, 4, place, 0xAB);
    EXPECT_EQ(before.check(), "");
    before.data()[-1] = 0;
    EXPECT_NE(before.check().find("before the start"), std::string::npos);
    if (place != Place::kFlushEnd) {
      Buffer after("x", 100, 4, place, 0xAB);
      after.data()[102] = 0;
      EXPECT_EQ(after.check(), "x: byte 2 past the end was written");
    }
  }
}

TEST(Buffer, PlacesAsAsked) {
  const Buffer aligned("x", 60, 4, Place::kAligned, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned.data()) % 64, 0u);
  const Buffer misaligned("x", 60, 4, Place::kMisaligned, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(misaligned.data()) % 64, 4u);
  const Buffer flush("x", 60, 4, Place::kFlushEnd, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(flush.data() + 60) % 4096, 0u);
}

TEST(BufferDeathTest, ReadPastTheEndIsNamed) {
  EXPECT_EXIT(
      {
        const FaultReporter reporter;
        const Buffer flush("the weights", 60, 4, Place::kFlushEnd, 0);
        volatile const uint8_t* data = flush.data();
        std::exit(data[60] == 0 ? 3 : 4);
      },
      testing::ExitedWithCode(1),
      "FAIL poison: memory outside the buffer of the weights was touched, past its end");
}

CaseData small_case(Fill fill) {
  Case c;
  c.scheme = "bquant:a=f32,b=int4,g=32,zero=int8";
  c.m = 3;
  c.n = 17;
  c.k = 66;
  c.fill = fill;
  c.epilogue.bias_dtype = SCALEGEMM_F32;
  return make_case_data(c);
}

std::vector<uint8_t> run_once(const CaseData& data) {
  const Runtime runtime;
  Instance instance(runtime, std::make_shared<CaseData>(data), {}, 0xFF);
  instance.run();
  return instance.output();
}

TEST(Judge, AcceptsTheRightResultAndFindsTheFirstWrongElement) {
  for (Fill fill : {Fill::kExact, Fill::kRandom, Fill::kAdversary}) {
    const CaseData data = small_case(fill);
    const Probe all = choose_probe(data.problem, 1 << 20, 0);
    std::vector<uint8_t> output = run_once(data);
    const Verdict right = judge(data, output, all);
    EXPECT_FALSE(right.wrong.has_value());
    EXPECT_EQ(right.compared, 3 * 17);
    EXPECT_EQ(right.unjudged, 0);
    for (float wrong : {std::nanf(""), 1e30f}) {
      std::memcpy(output.data() + (1 * 17 + 5) * sizeof(float), &wrong, sizeof(float));
      const Verdict verdict = judge(data, output, all);
      ASSERT_TRUE(verdict.wrong.has_value());
      EXPECT_EQ(verdict.wrong->row, 1);
      EXPECT_EQ(verdict.wrong->col, 5);
    }
  }
}

// Weights of 1 with scales up to the ends of e8m0, against activations of 2^-9: every sum is one power of
// two.
TEST(Kernels, ScalesAtTheEndsOfTheirType) {
  struct Activation {
    const char* scheme;
    uint16_t code;  // of 2^-9
    size_t bytes;
  };
  constexpr Activation kCases[] = {
      {"mxfp8", 0x01, 1}, {"mx-weight:b=e4m3", 0x3B00, 2}, {"mx-weight:a=f16,b=e4m3", 0x1800, 2}};
  constexpr uint8_t kScales[] = {0, 1, 2, 127, 247, 248, 249, 250, 251, 252, 253, 254};
  for (const auto& [scheme, code, bytes] : kCases) {
    for (const int64_t m : {1, 4, 5}) {
      Case c;
      c.scheme = scheme;
      c.m = m;
      c.n = std::size(kScales);
      c.k = 32;
      CaseData data = make_case_data(c);
      for (size_t i = 0; i < data.a.codes.size(); i += bytes) {
        std::memcpy(data.a.codes.data() + i, &code, bytes);
      }
      std::fill(data.a.scales.begin(), data.a.scales.end(), uint8_t{127});
      std::fill(data.b.codes.begin(), data.b.codes.end(), uint8_t{0x38});
      std::copy(std::begin(kScales), std::end(kScales), data.b.scales.begin());
      const std::vector<uint8_t> output = run_once(data);
      for (size_t i = 0; i < output.size() / sizeof(float); ++i) {
        float got = 0;
        std::memcpy(&got, output.data() + i * sizeof(float), sizeof(float));
        EXPECT_EQ(got, std::ldexp(1.0f, kScales[i % std::size(kScales)] - 127 + 5 - 9))
            << scheme << ", M = " << m << ", scale code " << int{kScales[i % std::size(kScales)]};
      }
    }
  }
}

TEST(Judge, ExactDemandsTheLastBit) {
  const CaseData data = small_case(Fill::kExact);
  std::vector<uint8_t> output = run_once(data);
  output[0] ^= 1;
  EXPECT_TRUE(judge(data, output, choose_probe(data.problem, 1 << 20, 0)).wrong.has_value());
}

TEST(Probe, KeepsToItsBudgetAndCoversSmallProblems) {
  scalegemm_problem p = make_problem("none", "rcr", 4096, 4096, 4096);
  const Probe probe = choose_probe(p, 1 << 26, 0);
  EXPECT_LE(probe.rows * probe.cols * p.k, 1 << 27);
  EXPECT_GE(probe.rows, 4);
  p = make_problem("none", "rcr", 7, 9, 11);
  EXPECT_EQ(choose_probe(p, 1 << 26, 0).cols, 9);
}

// Ones are 448 x 448 over K, scaled back: exact. An output that is off by 1 % has that error.
TEST(Accuracy, ErrorsAreOfTheSumOfMagnitudes) {
  Case c;
  c.scheme = "rowcol";
  c.m = 3;
  c.n = 5;
  c.k = 128;
  c.fill = Fill::kOnes;
  const CaseData data = make_case_data(c);
  std::vector<float> d(15, 128.0f);
  d[7] *= 1.01f;
  std::vector<uint8_t> bytes(sizeof(float) * d.size());
  std::memcpy(bytes.data(), d.data(), bytes.size());
  const Errors errors = errors_of(data, bytes, {.rows = 3, .cols = 5, .seed = 0});
  EXPECT_EQ(errors.elements, 15);
  EXPECT_NEAR(errors.max, 0.01, 1e-6);
  EXPECT_NEAR(errors.rms, 0.01 / std::sqrt(15.0), 1e-6);
  EXPECT_EQ(errors.histogram.at(-7), 1);  // 2^-7 is 0.0078
}

TEST(Timing, MedianAndMad) {
  const Timing t = summarize({5, 1, 9, 3, 7});
  EXPECT_EQ(t.median_us, 5);
  EXPECT_EQ(t.mad_us, 2);
  EXPECT_EQ(t.best_us, 1);
  EXPECT_EQ(t.repeats, 5);
}

TEST(Timing, CountsShrinkToTheBudget) {
  int calls = 0;
  const std::vector<Candidate> candidates = {[&calls] { ++calls; }};
  const auto full = time_interleaved(candidates, {.warmup = 10, .repeat = 40, .budget_s = 1});
  EXPECT_EQ(full.front().repeats, 40);
  EXPECT_GE(calls, 52);
  const auto few = time_interleaved(candidates, {.warmup = 10, .repeat = 40, .budget_s = 0});
  EXPECT_EQ(few.front().repeats, 5);
}

TEST(Ceiling, TheTighterOneCounts) {
  const Ceilings ceilings = {{"read", "GB/s", 10}};
  const Work work{.kernel = "no kernel of that name", .operations = 2e6, .bytes = 1e5, .microseconds = 20};
  EXPECT_DOUBLE_EQ(work.gops(), 100);
  EXPECT_DOUBLE_EQ(work.gbps(), 5);
  EXPECT_DOUBLE_EQ(share_of_ceiling(work, ceilings), 0.5);
}

// 2 MB in 4 us, 4 MB in 6 us, an empty launch in 3.
TEST(Ceiling, ColdReadsAreInterpolated) {
  const Ceilings ceilings = {
      {"launch", "us", 3}, {"read", "GB/s", 500, 2'000'000}, {"read", "GB/s", 4000 / 6.0, 4'000'000}};
  EXPECT_DOUBLE_EQ(read_time_us(0, ceilings), 3);
  EXPECT_DOUBLE_EQ(read_time_us(1e6, ceilings), 3.5);
  EXPECT_DOUBLE_EQ(read_time_us(2e6, ceilings), 4);
  EXPECT_DOUBLE_EQ(read_time_us(3e6, ceilings), 5);
  EXPECT_DOUBLE_EQ(read_time_us(8e6, ceilings), 12);
  EXPECT_EQ(read_time_us(8e6, {}), 0);
}

// The hardware's rate for the operand types on normal data, also for kernels that promote or widen.
TEST(Ceiling, OfACudaKernelIsTheMatrixRateOfItsTypes) {
  const Ceilings ceilings = {
      {"e4m3_n64_zeros", "GFLOP/s", 1900},   {"e4m3_n64_normal", "GFLOP/s", 1700},
      {"e4m3_n128_normal", "GFLOP/s", 1800}, {"e4m3_promoted_n64_normal", "GFLOP/s", 1850},
      {"bf16_n128_normal", "GFLOP/s", 850},  {"int8_n128_normal", "GOP/s", 1600}};
  const auto ceiling_of = [&](const char* scheme) {
    auto options = make<scalegemm_plan_options>();
    options.device = "sm_90a";
    const std::string why = Runtime().explain(make_problem(scheme, "rcr", 512, 512, 512), &options, 1);
    const size_t at = why.find("gemm_");  // the chosen kernel
    return compute_ceiling(why.substr(at, why.find('"', at) - at), ceilings);
  };
  EXPECT_EQ(ceiling_of("rowcol"), 1800);
  EXPECT_EQ(ceiling_of("abquant:bn=128"), 1800);
  EXPECT_EQ(ceiling_of("mxfp4"), 1800);
  EXPECT_EQ(ceiling_of("none"), 850);
  EXPECT_EQ(ceiling_of("int8"), 1600);
  EXPECT_EQ(ceiling_of("bquant:a=bf16,b=int4,g=32"), 850);
  EXPECT_EQ(ceiling_of("none:a=f32"), 0);
}

// A share of a ceiling that moved says nothing, and is not given.
TEST(Harness, AShareNeedsSteadyProbes) {
  CeilingPair pair;
  pair.before = pair.after = {{"read", "GB/s", 10}};
  const Work work{.kernel = "", .operations = 1, .bytes = 1e5, .microseconds = 20};
  EXPECT_DOUBLE_EQ(pair.share(work).value_or(0), 0.5);
  EXPECT_TRUE(pair.moved().empty());
  pair.after[0].value = 10.4;
  EXPECT_NEAR(pair.share(work).value_or(0), 0.5 / 1.04, 1e-9);
  pair.after[0].value = 9;
  EXPECT_FALSE(pair.share(work).has_value());
  EXPECT_EQ(pair.moved(), std::vector<std::string>{"read 10 -> 9 GB/s"});
}

std::string message_of_suite(const std::string& text) {
  const std::string path = testing::TempDir() + "/suite.csv";
  std::ofstream(path) << text;
  try {
    read_suite(path);
  } catch (const Error& error) {
    return std::string(error.what()).substr(path.size());
  }
  return "";
}

TEST(Suite, ReadsAndRefuses) {
  EXPECT_EQ(read_suite(SCALEGEMM_SOURCE_DIR "/bench/suites/cpu12.csv").size(), 12u);
  EXPECT_EQ(message_of_suite("name,m,n,k\nx,1,2,3\n"), "");
  EXPECT_EQ(message_of_suite("name,m,n\nx,1,2\n"),
            ": line 1: needed the columns name,m,n,k; given \"name,m,n\"");
  EXPECT_EQ(message_of_suite("name,m,n,k\nx,1,2\n"), ": line 2: needed 4 columns; given 3");
  EXPECT_EQ(message_of_suite("name,m,n,k\nx,1,0,3\n"),
            ": line 2: column n: needed a positive integer; given \"0\"");
  EXPECT_EQ(message_of_suite(""), ": needed a header name,m,n,k and rows; given no row");
}

TEST(Schemes, ListsSplitWhereASchemeBegins) {
  EXPECT_EQ(split_schemes("mxfp4,bquant:a=bf16,g=32,int8,none:a=f32"),
            (std::vector<std::string>{"mxfp4", "bquant:a=bf16,g=32", "int8", "none:a=f32"}));
  EXPECT_EQ(resolve_schemes({"all"}), known_schemes());
  EXPECT_EQ(resolve_schemes({"int8,mxfp4", "int8"}), (std::vector<std::string>{"int8", "mxfp4"}));
  EXPECT_THROW(resolve_schemes({""}), Error);
  EXPECT_THROW(resolve_schemes({"mxfp4,a=b"}), Error);
}

TEST(Grid, MeetsEveryDimension) {
  std::set<int64_t> sizes;
  std::set<int32_t> packings;
  std::set<int> places;
  for (const Case& c : grid_of("mxfp4", 3)) {
    sizes.insert(c.m * 1000 + c.n);
    packings.insert(c.packing);
    places.insert(static_cast<int>(c.place));
  }
  EXPECT_EQ(sizes.size(), edge_sizes().size());
  EXPECT_EQ(packings.size(), 2u);
  EXPECT_EQ(places.size(), 3u);
  EXPECT_EQ(grid_of("mxfp4", 3).size(), 4u * 5 * 3);
  EXPECT_EQ(output_types("none:a=int8").size(), 6u);
}

TEST(Bench, ReportsAProblemThatCannotRun) {
  const Runtime runtime;
  Case odd;
  odd.scheme = "mxfp4";
  odd.m = odd.n = 2;
  odd.k = 3;
  Case fine = odd;
  fine.k = 64;
  BenchOptions options;
  options.timing.budget_s = 0.01;
  const auto results = bench_shape(runtime, {odd, fine}, options);
  EXPECT_FALSE(results[0].verified);
  EXPECT_NE(results[0].problem.find("even K"), std::string::npos);
  EXPECT_TRUE(results[1].verified) << results[1].problem;
  EXPECT_GT(results[1].timing.median_us, 0);
}

}  // namespace
}  // namespace scalegemm::harness
