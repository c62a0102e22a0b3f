// Which settings count, and which kernels a manifest selects.
#include "bundle/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace scalegemm::bundle {
namespace {

Result<Plan> plan_of(const std::string& text, const Overrides& overrides = {}) {
  const auto manifest = read_manifest(text, "b.toml");
  return manifest.ok() ? make_plan(*manifest, overrides) : manifest.status();
}

const Setting* find(const Plan& plan, std::string_view scope, std::string_view key) {
  const auto found = std::find_if(plan.settings.begin(), plan.settings.end(), [&](const Setting& setting) {
    return setting.scope == scope && setting.key == key;
  });
  return found != plan.settings.end() ? &*found : nullptr;
}

Words names_of(const Plan& plan) {
  Words out;
  for (const Selected& kernel : plan.kernels) {
    out.push_back(kernel.name);
  }
  return out;
}

constexpr const char* kItem =
    "[[kernels]]\n"
    "schemes = ['none:a=bf16']\n"
    "shapes = [{m = 16, n = 4096, k = 4096}]\n";

class PlanTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("SCALEGEMM_BUNDLE_TARGETS"); }
  void TearDown() override { unsetenv("SCALEGEMM_BUNDLE_TARGETS"); }
};

TEST_F(PlanTest, CommandLineBeforeItemBeforeManifestBeforeEnvironmentBeforeDefault) {
  setenv("SCALEGEMM_BUNDLE_TARGETS", "sm_80,sm_89", 1);
  const std::string global = "namespace = 'acme'\ntargets = ['sm_90a']\n";
  const std::string item_says = std::string(kItem) + "targets = ['x86-64-v3']\n";
  const auto targets = [](const Result<Plan>& plan, std::string_view scope) {
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    const Setting* setting = plan.ok() ? find(*plan, scope, "targets") : nullptr;
    EXPECT_NE(setting, nullptr);
    return setting != nullptr ? *setting : Setting{};
  };
  Setting s = targets(plan_of(global + item_says, {{"targets", {"avx512"}}}), "b.toml:3");
  EXPECT_EQ(s.words, Words{"avx512"});
  EXPECT_EQ(s.from, "--target");
  s = targets(plan_of(global + item_says), "b.toml:3");
  EXPECT_EQ(s.words, Words{"x86-64-v3"});
  EXPECT_EQ(s.from, "b.toml:6");
  s = targets(plan_of(global + kItem), "b.toml:3");
  EXPECT_EQ(s.words, Words{"sm_90a"});
  EXPECT_EQ(s.from, "b.toml:2");
  s = targets(plan_of(std::string("namespace = 'acme'\n") + kItem), "b.toml:2");
  EXPECT_EQ(s.words, (Words{"sm_80", "sm_89"}));
  EXPECT_EQ(s.from, "$SCALEGEMM_BUNDLE_TARGETS");
  const auto plan = plan_of(global + kItem);
  EXPECT_EQ(find(*plan, "b.toml:3", "accuracy")->from, "default");
  EXPECT_EQ(find(*plan, "b.toml:3", "accuracy")->words, Words{"promoted"});
  EXPECT_EQ(find(*plan, "bundle", "namespace")->from, "b.toml:1");
  unsetenv("SCALEGEMM_BUNDLE_TARGETS");
  const auto none = plan_of(std::string("namespace = 'acme'\n") + kItem);
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
  EXPECT_NE(none.status().message().find("b.toml:2: targets: needs some"), std::string::npos)
      << none.status().message();
}

TEST_F(PlanTest, OnCpusEveryKernelOfTheTargetsThatTakesTheProblem) {
  const auto plan = plan_of(
      "namespace = 'acme'\ntargets = ['x86-64-v3', 'avx512']\n"
      "[[kernels]]\nschemes = ['int8']\nshapes = [{m = '1..9', n = 64, k = 64}]\n");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  Words names = names_of(*plan);
  ASSERT_EQ(names.size(), 4U) << "f32fma and i8dot of both";
  for (const Selected& kernel : plan->kernels) {
    EXPECT_EQ(kernel.spec.b, num::DType::kInt8);
    EXPECT_EQ(kernel.reasons.size(), 5U) << "m = 1, 2, 4, 8, 9";
    EXPECT_EQ(kernel.reasons.front(), "b.toml:3: int8 rcr bf16 promoted plain 1x64x64");
  }
  const auto one = plan_of(
      "namespace = 'acme'\ntargets = ['x86-64-v3', 'avx512']\npipelines = ['i8dot']\n"
      "[[kernels]]\nschemes = ['int8']\nshapes = [{m = 1, n = 64, k = 64}]\n");
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(one->kernels.size(), 2U);
}

TEST_F(PlanTest, OnGpusTheChoiceOfDispatchAndItsFallbacks) {
  const auto plan = plan_of(std::string("namespace = 'acme'\ntargets = ['sm_90a']\n") + kItem);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_GE(plan->kernels.size(), 2U);
  EXPECT_NE(plan->kernels.front().spec.pipeline, spec::Pipeline::kMma);
  EXPECT_EQ(plan->kernels.back().spec.pipeline, spec::Pipeline::kMma);
  EXPECT_TRUE(plan->kernels.back().reasons.front().ends_with(", where TMA cannot address it"));
  // Problems of every size share the fallback's reasons, not its code.
  const auto two = plan_of(
      "namespace = 'acme'\ntargets = ['sm_90a']\n[[kernels]]\nschemes = ['none:a=bf16']\n"
      "shapes = [{m = [16, 4096], n = 4096, k = 4096}]\n");
  ASSERT_TRUE(two.ok());
  EXPECT_GT(two->kernels.size(), plan->kernels.size());
}

TEST_F(PlanTest, NamesAreTakenAndOtherTargetsLeftOut) {
  const auto listed = plan_of(
      "namespace = 'acme'\ntargets = ['x86-64-v3', 'avx512']\npipelines = ['f32fma']\n"
      "[[kernels]]\nschemes = ['none:a=bf16']\nshapes = [{m = 1, n = 1, k = 1}]\n");
  ASSERT_TRUE(listed.ok()) << listed.status().message();
  const Words names = names_of(*listed);
  ASSERT_EQ(names.size(), 2U);
  const std::string text =
      "namespace = 'acme'\n[[kernels]]\nnames = ['" + names[0] + "', '" + names[1] + "']\n";
  const auto both = plan_of(text);
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(names_of(*both), names);
  EXPECT_EQ(both->kernels.front().reasons, Words{"b.toml:2: by name"});
  const auto one = plan_of(text, {{"targets", {"avx512"}}});
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(one->kernels.size(), 1U);
  EXPECT_EQ(one->left_out.size(), 1U);
}

struct Wrong {
  const char* text;
  Code code;
  const char* what;
};

TEST_F(PlanTest, WhatMeansNothingIsRefusedWithItsPlace) {
  const std::string head = "namespace = 'acme'\ntargets = ['avx512']\n";
  const Wrong rows[] = {
      {"targets = ['avx512']\n", Code::kInvalidArgument, "namespace: the manifest needs one"},
      {"namespace = 'Acme'\n", Code::kInvalidArgument, "b.toml:1: namespace: needs"},
      {"namespace = 'acme_'\n", Code::kInvalidArgument, "b.toml:1: namespace: needs"},
      {"namespace = '4me'\n", Code::kInvalidArgument, "b.toml:1: namespace: needs"},
      {"namespace = 'scalegemm'\n", Code::kInvalidArgument, "the ordinary library"},
      {"namespace = 'a'\ntargets = ['gfx950']\n", Code::kInvalidArgument,
       "b.toml:2: targets: needs some of x86-64-v3"},
      {"namespace = 'a'\ntargets = ['native']\n", Code::kInvalidArgument, "b.toml:2: targets: needs"},
      {"namespace = 'a'\ntargets = ['avx512']\naccuracy = ['best']\n", Code::kInvalidArgument,
       "b.toml:3: accuracy"},
      {"namespace = 'a'\ntargets = ['avx512']\noutputs = ['f33']\n", Code::kInvalidArgument,
       "b.toml:3: outputs"},
      {"namespace = 'a'\ntargets = ['avx512']\nlayouts = ['abc']\n", Code::kInvalidArgument,
       "b.toml:3: layouts"},
      {"namespace = 'a'\ntargets = ['avx512']\nepilogues = ['x']\n", Code::kInvalidArgument,
       "b.toml:3: epilogues"},
      {"namespace = 'a'\ntargets = ['avx512']\nlibraries = ['x']\n", Code::kInvalidArgument,
       "b.toml:3: libraries"},
      {"namespace = 'a'\ntargets = ['avx512']\nsize_budget = '1 TiB'\n", Code::kInvalidArgument,
       "b.toml:3: size_budget"},
      {"namespace = 'a'\ntargets = ['avx512']\npipelines = ['mma']\n", Code::kUnsupported,
       "no kernel of the CPU targets and these pipelines takes it"},
      {"namespace = 'a'\ntargets = ['sm_90a']\npipelines = ['f32fma']\n", Code::kUnsupported,
       "no kernel of sm_90a"},
  };
  for (const Wrong& row : rows) {
    const auto plan = plan_of(std::string(row.text) + kItem);
    EXPECT_EQ(plan.status().code(), row.code) << row.text << plan.status().message();
    EXPECT_NE(plan.status().message().find(row.what), std::string::npos) << plan.status().message();
  }
  const auto scheme = plan_of(head + "[[kernels]]\nschemes = ['mxfp5']\nshapes = [{m = 1, n = 1, k = 1}]\n");
  EXPECT_TRUE(scheme.status().message().starts_with("b.toml:3: schemes: ")) << scheme.status().message();
  const auto name = plan_of(head + "[[kernels]]\nnames = ['gemm_nonsense']\n");
  EXPECT_TRUE(name.status().message().starts_with("b.toml:3: ")) << name.status().message();
}

TEST_F(PlanTest, RangesAreSampledAtEndsAndPowersOfTwo) {
  EXPECT_EQ(samples({{5, 5}}), (std::vector<int64_t>{5}));
  EXPECT_EQ(samples({{1, 9}}), (std::vector<int64_t>{1, 2, 4, 8, 9}));
  EXPECT_EQ(samples({{3, 16}, {4, 4}}), (std::vector<int64_t>{3, 4, 8, 16}));
}

TEST_F(PlanTest, BytesHaveUnitsOfThousand) {
  EXPECT_EQ(*parse_bytes("12 MB"), 12'000'000);
  EXPECT_EQ(*parse_bytes("1500kB"), 1'500'000);
  EXPECT_EQ(*parse_bytes("7"), 7);
  for (const char* text : {"", "MB", "0", "-1", "1.5 MB", "1 MiB", "9223372036854775807 kB"}) {
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
  }
}

}  // namespace
}  // namespace scalegemm::bundle
