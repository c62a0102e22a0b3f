#include "spec/scheme.h"

#include <gtest/gtest.h>

#include <set>

namespace scalegemm::spec {
namespace {

Scheme scheme(std::string_view text) {
  const Result<Scheme> s = parse_scheme(text);
  EXPECT_TRUE(s.ok()) << text << ": " << s.status().message();
  return s.ok() ? *s : Scheme();
}

TEST(Scheme, PresetsAreTheRowsOfTheTable) {
  const struct {
    const char* text;
    const char* a;
    const char* b;
  } cases[] = {
      {"none", "bf16", "bf16"},
      {"none:a=f32", "f32", "f32"},
      {"none:b=f16", "bf16", "f16"},
      {"tensor", "e4m3*f32[allxall]", "e4m3*f32[allxall]"},
      {"rowcol", "e4m3*f32[1xall]", "e4m3*f32[1xall]"},
      {"rowcol:a=e4m3,b=e5m2", "e4m3*f32[1xall]", "e5m2*f32[1xall]"},
      {"aquant", "e4m3*f32[1x128]", "e4m3"},
      {"aquant:a=int4,g=32", "int4*f32[1x32]", "e4m3"},
      {"bquant", "bf16", "int4*f32[1x128]"},
      {"bquant:a=bf16,b=int4,g=32,zero=uint4,scale=f16", "bf16", "int4*f16[1x32]-zuint4"},
      {"bquant:a=int8,b=int4,g=32", "int8*f32[1xall]", "int4*f32[1x32]"},
      {"bquant:a=e4m3", "e4m3*f32[1xall]", "int4*f32[1x128]"},
      {"bquant:a=e4m3,ascale=none", "e4m3", "int4*f32[1x128]"},
      {"bquant:ascale=row,g=all,bn=all", "bf16*f32[1xall]", "int4*f32[allxall]"},
      {"abquant:g=128,bn=128", "e4m3*f32[1x128]", "e4m3*f32[128x128]"},
      {"mxfp8", "e4m3*e8m0[1x32]", "e4m3*e8m0[1x32]"},
      {"mxfp8:a=e5m2,b=e2m1", "e5m2*e8m0[1x32]", "e2m1*e8m0[1x32]"},
      {"mxfp4", "e2m1*e8m0[1x32]", "e2m1*e8m0[1x32]"},
      {"a4w4", "e2m1*e8m0[1x32]", "e2m1*e8m0[1x32]"},
      {"mxfp4:a=e4m3", "e4m3*e8m0[1x32]", "e2m1*e8m0[1x32]"},
      {"mx-weight:a=bf16,b=e2m1", "bf16", "e2m1*e8m0[1x32]"},
      {"mx-weight:a=e4m3,g=128", "e4m3*f32[1xall]", "e2m1*e8m0[1x128]"},
      {"nvfp4", "e2m1*e4m3[1x16]*f32", "e2m1*e4m3[1x16]*f32"},
      {"nvfp4:a=bf16", "bf16", "e2m1*e4m3[1x16]*f32"},
      {"nvfp4:a=e4m3", "e4m3*f32[1xall]", "e2m1*e4m3[1x16]*f32"},
      {"int8", "int8*f32[1xall]", "int8*f32[1xall]"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(describe(scheme(c.text).a), c.a) << c.text;
    EXPECT_EQ(describe(scheme(c.text).b), c.b) << c.text;
  }
}

TEST(Scheme, CanonicalTextLeavesOutDefaults) {
  const struct {
    const char* text;
    const char* canonical;
  } cases[] = {
      {"mxfp4", "mxfp4"},
      {"a4w4", "mxfp4"},
      {"mxfp4:a=e2m1", "mxfp4"},
      {"bquant:zero=none,scale=f32,g=128,bn=1,b=int4,a=bf16,ascale=none", "bquant"},
      {"bquant:scale=f16,g=32,b=uint4,zero=uint4", "bquant:b=uint4,g=32,scale=f16,zero=uint4"},
      {"bquant:a=int8,ascale=row", "bquant:a=int8"},
      {"bquant:a=int8,ascale=none", "bquant:a=int8,ascale=none"},
      {"abquant:g=all,bn=all", "abquant:g=all,bn=all"},
      {"none:a=f16,b=f16", "none:a=f16"},
      {"none:a=f16,b=bf16", "none:a=f16,b=bf16"},
      {"none:a=bf16", "none"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(scheme(c.text).text, c.canonical);
    EXPECT_EQ(scheme(c.canonical), scheme(c.text));
  }
}

// Over every preset and the values each key may have: canonical text is a fixed point.
TEST(Scheme, CanonicalTextRoundTrips) {
  const char* presets[] = {"tensor", "rowcol",    "aquant", "bquant", "abquant", "mxfp8",
                           "mxfp4",  "mx-weight", "nvfp4",  "int8",   "none"};
  const char* types[] = {"",          "bf16",      "f16",  "f32",  "e4m3", "e5m2",
                         "e4m3_fnuz", "e5m2_fnuz", "e2m1", "int8", "int4", "uint4"};
  const char* rest[] = {"",          "g=16",       "g=all,bn=all", "g=256,bn=128,scale=bf16",
                        "zero=int8", "ascale=row", "ascale=none",  "g=64,scale=f16,zero=uint4,ascale=row"};
  int accepted = 0;
  std::set<std::string> texts;
  for (const char* preset : presets) {
    for (const char* a : types) {
      for (const char* b : types) {
        for (const char* more : rest) {
          std::string text;
          for (const std::string& part : {*a != 0 ? "a=" + std::string(a) : "",
                                          *b != 0 ? "b=" + std::string(b) : "", std::string(more)}) {
            text += part.empty() ? "" : (text.empty() ? ":" : ",") + part;
          }
          const Result<Scheme> first = parse_scheme(preset + text);
          if (!first.ok()) {
            continue;
          }
          ++accepted;
          const Result<Scheme> second = parse_scheme(first->text);
          ASSERT_TRUE(second.ok()) << first->text << ": " << second.status().message();
          ASSERT_EQ(*second, *first) << preset << text;
          texts.insert(first->text);
        }
      }
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(texts.size(), 500u);
}

TEST(Scheme, RefusalsListWhatIsKnown) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"mxfp6",
       "scheme: needed one of tensor, rowcol, aquant, bquant, abquant, mxfp8, mxfp4, mx-weight, nvfp4, "
       "int8, none; given \"mxfp6\""},
      {"", "scheme: needed one of tensor"},
      {"bquant:group=32",
       "scheme \"bquant\", key: needed one of a, b, g, bn, scale, zero, ascale; given \"group\""},
      {"mxfp4:g=64", "key: needed one of a; given \"g\""},
      {"int8:a=int8", "key: needed no keys; given \"a\""},
      {"bquant:", "given \"\""},
      {"bquant:g", "scheme key g: needed g=value; given \"g\""},
      {"bquant:g=32,g=32", "scheme key g: needed once; given again as \"g=32\""},
      {"bquant:g=0", "scheme key g: needed a positive number or all; given \"0\""},
      {"bquant:g=-8", "needed a positive number or all; given \"-8\""},
      {"bquant:g=32x", "needed a positive number or all; given \"32x\""},
      {"bquant:g=99999999999999999999", "needed a positive number or all"},
      {"bquant:g=33", "B scale block_k: needed an even block"},
      {"bquant:b=e2m1",
       "scheme key b: needed one of int4, uint4, int8, e4m3, e5m2, e4m3_fnuz, e5m2_fnuz; given "
       "\"e2m1\""},
      {"bquant:b=e4m3,zero=int8", "B zero-point type: needed none, as e4m3 is a float type; given int8"},
      {"bquant:zero=f32", "scheme key zero: needed one of uint4, int4, int8; given \"f32\""},
      {"bquant:ascale=col", "scheme key ascale: needed row or none; given \"col\""},
      {"nvfp4:ascale=row", "scheme key ascale: needed a type of A without block scales; given a=e2m1"},
      {"bquant:g=32,", "given \"\""},
      {"bquant :g=32", "given \"bquant \""},
  };
  for (const auto& c : cases) {
    const Result<Scheme> s = parse_scheme(c.text);
    ASSERT_FALSE(s.ok()) << c.text;
    EXPECT_EQ(s.status().code(), Code::kInvalidArgument);
    EXPECT_NE(s.status().message().find(c.message), std::string::npos) << c.text << "\n"
                                                                       << s.status().message();
  }
}

TEST(Scheme, KnownOnesAreCanonicalAndCoverEveryPreset) {
  std::set<std::string> presets;
  std::set<std::string_view> texts;
  for (const SchemeInfo& row : known_schemes()) {
    const Scheme s = scheme(row.text);
    EXPECT_EQ(s.text, row.text);
    EXPECT_EQ(s.text == s.preset, row.is_preset) << row.text;
    EXPECT_FALSE(row.description.empty());
    EXPECT_TRUE(texts.insert(row.text).second) << row.text;
    if (row.is_preset) {
      presets.insert(s.preset);
    }
  }
  EXPECT_EQ(presets.size(), 11u);
}

TEST(Scheme, BitsPerWeight) {
  const auto bits = [](const char* text, int64_t n, int64_t k) {
    return bits_per_weight(scheme(text).b, n, k);
  };
  EXPECT_EQ(bits("mxfp4", 4096, 4096), 4.25);
  EXPECT_EQ(bits("mxfp8", 4096, 4096), 8.25);
  EXPECT_EQ(bits("nvfp4", 1, 32), 4 + 2 * 8 / 32.0 + 32 / 32.0);
  EXPECT_EQ(bits("bquant:g=32", 4096, 4096), 5.0);
  EXPECT_EQ(bits("bquant:b=uint4,g=128,scale=f16,zero=uint4", 4096, 4096), 4 + 24 / 128.0);
  EXPECT_EQ(bits("abquant:bn=128", 128, 256), 8 + 2 * 32 / (128.0 * 256));
  EXPECT_EQ(bits("abquant:bn=128", 129, 129), 8 + 4 * 32 / (129.0 * 129))
      << "partial blocks have whole scales";
  EXPECT_EQ(bits("tensor", 4, 8), 9.0);
  EXPECT_EQ(bits("int8", 10, 32), 9.0);
  EXPECT_EQ(bits("none", 3, 3), 16.0);
}

TEST(Scheme, AppliesLayouts) {
  Problem p;
  ASSERT_TRUE(apply(scheme("mxfp4"), "crr", p).ok());
  EXPECT_EQ(p.a.layout, Layout::kCol);
  EXPECT_EQ(p.b.layout, Layout::kRow);
  EXPECT_EQ(p.b.type, DType::kE2m1);
  EXPECT_EQ(apply(scheme("mxfp4"), "rcc", p).message(), "layout: needed rcr, rrr, crr or ccr; given \"rcc\"");
  for (const char* word : {"rcr", "rrr", "crr", "ccr"}) {
    EXPECT_EQ(layout_word(*parse_layout_word(word)), word);
  }
}

TEST(Scheme, SignatureTellsProblemsApart) {
  Problem p;
  ASSERT_TRUE(apply(scheme("mxfp4"), "rcr", p).ok());
  p.d = DType::kBf16;
  EXPECT_EQ(signature(p), "e2m1*e8m0[1x32] x e2m1*e8m0[1x32] -> bf16 rcr");
  p.b_packing = Packing::kPanelK4x16;
  p.accuracy = Accuracy::kExact;
  p.batch_invariant = true;
  EXPECT_EQ(signature(p), "e2m1*e8m0[1x32] x e2m1*e8m0[1x32] -> bf16 rcr k4x16 exact batch-invariant");
  EXPECT_EQ(signature(p).find(','), std::string::npos) << "it is a CSV field";
}

}  // namespace
}  // namespace scalegemm::spec
