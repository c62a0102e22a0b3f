#include "spec/kernel_spec.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "common/panels.h"
#include "spec/random_spec.h"

namespace scalegemm::spec {
namespace {

KernelSpec cpu_e2m1() {
  KernelSpec s;
  s.target = Target::kAvx512;
  s.b = DType::kE2m1;
  s.scheduler = Scheduler::kDynamic;
  s.tile = {14, 32, 512};
  s.instruction = {1, 16, 1};
  return s;
}

TEST(KernelName, CpuExample) {
  const char* text = "gemm_any_any-e2m1-any_any_f32fma_default_dynamic_14x32x512_1x1x1_1x16x1_avx512";
  EXPECT_EQ(name(cpu_e2m1()), text);
  const Result<KernelSpec> parsed = parse(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(*parsed, cpu_e2m1());
}

TEST(KernelName, GpuExample) {
  KernelSpec s;
  s.target = Target::kSm90a;
  s.a = s.b = DType::kE4m3;
  s.d = DType::kBf16;
  s.scales = Scales::kFixed;
  s.a_scale = ScaleSpec{DType::kF32, 1, 128, std::nullopt, false};
  s.b_scale = ScaleSpec{DType::kF16, 128, 128, DType::kInt8, true};
  s.layouts = Layouts{};
  s.pipeline = Pipeline::kTmaPingPong;
  s.epilogue = EpilogueKind::kTma;
  s.tile = {128, 256, 128};
  s.warps = {2, 1, 1};
  s.instruction = {64, 256, 32};
  s.via = DType::kE5m2;
  s.packed = Packing::kRaw;
  s.stages = 4;
  s.cluster_m = 2;
  s.split_k = SplitK::kCluster;
  s.k_slices = 4;
  s.accuracy = Accuracy::kFast;
  s.swap_ab = s.persistent = s.fused = s.strided_scales = true;
  s.pads = {true, true, false};
  EXPECT_EQ(name(s),
            "gemm_abquant_e4m3-e4m3-bf16_rcr_tmapingpong_tma_default_128x256x128_2x1x1_64x256x32_aqg1x1x128_"
            "bqg1x128x128-f16-zint8-global_via-e5m2_st4_cl2x1_splitk-cluster_ks4_fast_swapab_persistent_"
            "fused_strided_pad-mn_sm90a");
  const Result<KernelSpec> parsed = parse(name(s));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(*parsed, s);
}

TEST(KernelName, RoundTripsOverRandomSpecs) {
  testing::RandomSpec random(20261130);
  std::set<std::string> words;
  size_t longest = 0;
  for (int i = 0; i < 200000; ++i) {
    const KernelSpec s = random.spec();
    ASSERT_TRUE(check(s).ok()) << check(s).message();
    const std::string text = name(s);
    const Result<KernelSpec> parsed = parse(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
    ASSERT_EQ(*parsed, s) << text;
    ASSERT_EQ(name(*parsed), text);
    longest = std::max(longest, text.size());
    words.insert(std::string(quant_word(s)));
  }
  EXPECT_EQ(words.size(), 9u) << "every quant word must have been seen";
  EXPECT_LE(longest, kMaxKernelName);
  EXPECT_GE(longest, 150u);
}

TEST(KernelName, DistinctSpecsHaveDistinctNamesAndSymbols) {
  testing::RandomSpec random(7);
  std::vector<KernelSpec> specs;
  std::set<std::string> names;
  std::set<std::string> symbols;
  for (int i = 0; i < 2000; ++i) {
    const KernelSpec s = random.spec();
    if (std::find(specs.begin(), specs.end(), s) == specs.end()) {
      specs.push_back(s);
      names.insert(name(s));
      symbols.insert(symbol_name(s));
    }
  }
  EXPECT_EQ(names.size(), specs.size());
  EXPECT_EQ(symbols.size(), specs.size());
  for (const std::string& symbol : symbols) {
    ASSERT_EQ(symbol.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), symbol.npos) << symbol;
  }
}

// Every field must show in the name: a change of one is a change of the other.
TEST(KernelName, EveryFieldChangesTheName) {
  KernelSpec base = cpu_e2m1();
  base.scales = Scales::kFixed;
  base.a_scale = base.b_scale = ScaleSpec{DType::kF32, 1, 64, std::nullopt, false};
  std::vector<KernelSpec> changed;
  const auto with = [&](auto change) {
    KernelSpec s = base;
    change(s);
    changed.push_back(s);
  };
  with([](KernelSpec& s) { s.target = Target::kAvx512Bf16; });
  with([](KernelSpec& s) { s.a = DType::kF32; });
  with([](KernelSpec& s) { s.b = DType::kInt4; });
  with([](KernelSpec& s) { s.d = DType::kF32; });
  with([](KernelSpec& s) { s.scales = Scales::kRunTime, s.a_scale = s.b_scale = std::nullopt; });
  with([](KernelSpec& s) { s.a_scale->type = DType::kE8m0; });
  with([](KernelSpec& s) { s.a_scale->block_rows = 2; });
  with([](KernelSpec& s) { s.b_scale->block_k = 32; });
  with([](KernelSpec& s) { s.b_scale->zero_type = DType::kInt8; });
  with([](KernelSpec& s) { s.b_scale->global = true; });
  with([](KernelSpec& s) { s.b_scale = std::nullopt; });
  with([](KernelSpec& s) { s.layouts = Layouts{}; });
  with([](KernelSpec& s) { s.pipeline = Pipeline::kI8Dot; });
  with([](KernelSpec& s) { s.epilogue = EpilogueKind::kTma; });
  with([](KernelSpec& s) { s.scheduler = Scheduler::kDefault; });
  with([](KernelSpec& s) { s.tile.k = 256; });
  with([](KernelSpec& s) { s.warps.n = 2; });
  with([](KernelSpec& s) { s.instruction.m = 2; });
  with([](KernelSpec& s) { s.packed = Packing::kRaw; });
  with([](KernelSpec& s) { s.via = DType::kBf16; });
  with([](KernelSpec& s) { s.stages = 3; });
  with([](KernelSpec& s) { s.cluster_m = 2; });
  with([](KernelSpec& s) { s.cluster_n = 2; });
  with([](KernelSpec& s) { s.split_k = SplitK::kWorkspace; });
  with([](KernelSpec& s) { s.accuracy = Accuracy::kExact; });
  with([](KernelSpec& s) { s.swap_ab = true; });
  with([](KernelSpec& s) { s.persistent = true; });
  with([](KernelSpec& s) { s.fused = true; });
  with([](KernelSpec& s) { s.strided_scales = true; });
  with([](KernelSpec& s) { s.k_slices = 3; });
  with([](KernelSpec& s) { s.pads.n = false; });
  std::set<std::string> names = {name(base)};
  for (const KernelSpec& s : changed) {
    names.insert(name(s));
  }
  EXPECT_EQ(names.size(), changed.size() + 1);
}

TEST(KernelName, ErrorsSayWhereWhatAndWhat) {
  const std::string good = name(cpu_e2m1());
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } cases[] = {
      {"gemm_", "gem_", "column 1: needed \"gemm\"; given \"gem\""},
      {"_any_any-", "_some_any-", "column 6: needed a quant word (any, none, tensorquant"},
      {"any-e2m1-any", "any-e2m2-any", "column 10: needed operand types as A-B-D"},
      {"any-e2m1-any", "e2m1", "column 10: needed operand types as A-B-D"},
      {"any_f32fma", "rcc_f32fma", "column 23: needed a layout (any, rcr, rrr, crr, ccr); given \"rcc\""},
      {"f32fma", "f32fm", "column 27: needed a pipeline (f32fma, i8dot"},
      {"default", "defaults", "needed an epilogue (default, cshuffle, tma); given \"defaults\""},
      {"dynamic", "dyn", "needed a scheduler (default, dynamic, intrawave, interwave); given \"dyn\""},
      {"14x32x512", "14x32", "needed a tile as MxNxK, each 1 to 65535; given \"14x32\""},
      {"14x32x512", "14x0x512", "needed a tile as MxNxK"},
      {"14x32x512", "014x32x512", "needed a tile as MxNxK"},
      {"14x32x512", "14x32x99999999999999999999", "needed a tile as MxNxK"},
      {"1x1x1_", "1x1x-1_", "needed warps as MxNxK"},
      {"1x16x1", "1x16x1x1", "needed an instruction as MxNxK"},
      {"_avx512", "_swapab_fast_avx512", "needed an option in the order"},
      {"_avx512", "_promoted_avx512", "needed an option in the order"},
      {"_avx512", "_pack-k1x32_avx512", "needed a packed layout that is not the default"},
      {"_avx512", "_via-any_avx512", "needed the widened type as via-{type}"},
      {"_avx512", "_via-e9m9_avx512", "needed the widened type as via-{type}; given \"via-e9m9\""},
      {"_avx512", "_st0_avx512", "needed stages as st{number}"},
      {"_avx512", "_cl1x1_avx512", "needed a cluster larger than 1x1"},
      {"_avx512", "_pad-mnk_avx512", "needed pads as pad-none"},
      {"_avx512", "_avx2048", "needed a target at the end (x86v3, avx512,"},
      {"_avx512", "", "needed a target at the end"},
      {"_avx512", "__avx512", "needed an option in the order"},
      {"_any_any-", "_bquant_any-", "needed the scale of B as bqg1x{columns}x{k}"},
  };
  for (const auto& c : cases) {
    std::string bad = good;
    bad.replace(bad.find(c.from), std::string(c.from).size(), c.to);
    const Result<KernelSpec> parsed = parse(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << bad;
    EXPECT_NE(parsed.status().message().find(c.message), std::string::npos) << bad << "\n"
                                                                            << parsed.status().message();
  }
  EXPECT_FALSE(parse("").ok());
  EXPECT_FALSE(parse("_").ok());
  EXPECT_FALSE(parse(std::string(1 << 20, '_')).ok());
}

// Damages `text` in one to three places.
std::string mutate(std::string text, testing::RandomSpec& random) {
  static constexpr char kAlphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789_-xx__--TF \x7f";
  for (int64_t edits = random.number(1, 3); edits > 0; --edits) {
    const size_t at = static_cast<size_t>(random.number(0, static_cast<int64_t>(text.size())));
    const char c = kAlphabet[random.number(0, sizeof kAlphabet - 2)];
    switch (random.number(0, 4)) {
      case 0:
        text.insert(at, 1, c);
        break;
      case 1:
        text.erase(at, static_cast<size_t>(random.number(0, 8)));
        break;
      case 2:
        if (at < text.size()) {
          text[at] = random.coin() ? c : static_cast<char>(random.number(-128, 127));
        }
        break;
      case 3:
        text.insert(at,
                    text.substr(static_cast<size_t>(random.number(0, static_cast<int64_t>(text.size())))));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

// Whatever comes in: a spec whose name parses to itself, or a message. SCALEGEMM_FUZZ_SECONDS lengthens it.
TEST(KernelName, MutatedNamesNeverBreakTheParser) {
  const char* seconds = std::getenv("SCALEGEMM_FUZZ_SECONDS");
  const auto budget = std::chrono::milliseconds(seconds != nullptr ? 1000 * std::atoi(seconds) : 1000);
  const auto end = std::chrono::steady_clock::now() + budget;
  testing::RandomSpec random(99);
  const std::string amd[] = {
      "gemm_rowcolquant_fp8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x128_gfx950",
      "gemm_fp16_rcr_mem_default_intrawave_False_False_False_True_64x64x64_4x1x1_16x16x16_gfx942",
      "grouped_gemm_bquant_fp8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x32_qg1x1x128_gfx942",
      "gemm_fp16_rcr_compv3_cshuffle_intrawave_False_False_False_False_128x128x64_2x2x1_32x32x16_streamk_"
      "tree_"
      "gfx950"};
  int64_t parsed_count = 0;
  int64_t refused_count = 0;
  while (std::chrono::steady_clock::now() < end) {
    const std::string seed = random.coin() ? name(random.spec()) : amd[random.number(0, 3)];
    const std::string text = mutate(seed, random);
    const Result<KernelSpec> parsed = parse(text);
    if (!parsed.ok()) {
      ASSERT_FALSE(parsed.status().message().empty());
      ++refused_count;
      continue;
    }
    ++parsed_count;
    ASSERT_TRUE(check(*parsed).ok()) << text;
    const Result<KernelSpec> again = parse(name(*parsed));
    ASSERT_TRUE(again.ok()) << text << " -> " << name(*parsed) << ": " << again.status().message();
    ASSERT_EQ(*again, *parsed) << text;
  }
  EXPECT_GT(parsed_count, 100);
  EXPECT_GT(refused_count, 100);
}

TEST(KernelSpec, CheckRefusesWhatANameCannotSay) {
  const auto refused = [](auto change, const char* message) {
    KernelSpec s = cpu_e2m1();
    change(s);
    EXPECT_NE(check(s).message().find(message), std::string::npos) << check(s).message();
  };
  refused([](KernelSpec& s) { s.a_scale = ScaleSpec{}; }, "needed no a_scale and b_scale");
  refused([](KernelSpec& s) { s.tile.m = 0; }, "tile: needed 1 to 65535; given 0");
  refused([](KernelSpec& s) { s.warps.k = -1; }, "warps: needed 1 to 65535; given -1");
  refused([](KernelSpec& s) { s.instruction.n = 65536; }, "instruction: needed 1 to 65535; given 65536");
  refused([](KernelSpec& s) { s.stages = -1; }, "stages: needed 0 to 65535; given -1");
  refused([](KernelSpec& s) { s.cluster_n = 0; }, "cluster_n: needed 1");
  refused([](KernelSpec& s) { s.packed = Packing::kChosen; }, "needed a layout; given chosen");
  refused(
      [](KernelSpec& s) {
        s.scales = Scales::kFixed;
        s.b_scale = ScaleSpec{};
        s.b_scale->block_k = -2;
      },
      "b_scale block: needed 0 to 65535; given -2");
}

TEST(KernelSpec, PackingsAreThoseOfTheKernels) {
  EXPECT_EQ(static_cast<int>(Packing::kRaw), SG_RAW);
  EXPECT_EQ(static_cast<int>(Packing::kPanelK1x32), SG_PANEL_K1X32);
  EXPECT_EQ(static_cast<int>(Packing::kPanelK4x16), SG_PANEL_K4X16);
}

// The grammar that people read must hold every word that the parser takes.
TEST(KernelName, TheDocumentHoldsEveryWord) {
  std::ifstream file(SCALEGEMM_SOURCE_DIR "/docs/kernel-names.md");
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_NE(text.str().find(name(cpu_e2m1()).substr(0, 23)), std::string::npos) << "an example of a CPU name";
  std::set<std::string> words = {"swapab", "persistent", "fused", "strided", "ks",
                                 "pad-",   "via-",       "pack-", "aqg",     "bqg1x"};
  testing::RandomSpec random(1);
  for (int i = 0; i < 2000; ++i) {
    const KernelSpec s = random.spec();
    words.emplace(quant_word(s));
    for (std::string_view word : {to_string(s.pipeline), to_string(s.epilogue), to_string(s.scheduler),
                                  to_string(s.split_k), to_string(s.packed), to_string(s.accuracy)}) {
      words.emplace(word);
    }
  }
  for (const TargetName& row : kTargets) {
    words.emplace(row.token);
  }
  for (const std::string& word : words) {
    EXPECT_NE(text.str().find(word), std::string::npos) << word;
  }
}

TEST(Target, NamesAndTokens) {
  std::set<std::string_view> texts;
  for (const TargetName& row : kTargets) {
    EXPECT_EQ(target_row(row.target).name, row.name);
    EXPECT_EQ(*parse_target(row.name), row.target);
    EXPECT_EQ(*parse_target(row.token), row.target);
    EXPECT_EQ(row.token.find('_'), row.token.npos) << "tokens end a name at its last '_'";
    texts.insert(row.token);
  }
  EXPECT_EQ(texts.size(), kTargets.size());
  const Result<Target> unknown = parse_target("sm_75");
  EXPECT_EQ(unknown.status().code(), Code::kUnsupported);
  EXPECT_EQ(unknown.status().message(),
            "target: needed one of x86-64-v3, avx512, avx512bf16, sm_80, sm_89, sm_90a, gfx942, "
            "gfx950; given "
            "\"sm_75\"");
}

}  // namespace
}  // namespace scalegemm::spec
