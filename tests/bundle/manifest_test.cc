#include "bundle/manifest.h"

#include <gtest/gtest.h>

#include <string>

namespace scalegemm::bundle {
namespace {

constexpr const char* kGood =
    "namespace = 'acme'\n"
    "targets = ['sm_90a', 'avx512']\n"
    "size_budget = '12 MB'\n"
    "[[kernels]]\n"
    "schemes = ['rowcol', 'mxfp4']\n"
    "shapes = [{m = '1..64', n = [4096, '7168..8192'], k = 512}]\n"
    "targets = ['sm_90a']\n"
    "[[kernels]]\n"
    "names = ['gemm_x']\n";

TEST(Manifest, KeepsValuesAndTheirLines) {
  const auto m = read_manifest(kGood, "b.toml");
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_EQ(m->settings.at("namespace").words, Words{"acme"});
  EXPECT_EQ(m->settings.at("targets").words, (Words{"sm_90a", "avx512"}));
  EXPECT_EQ(m->settings.at("targets").line, 2);
  ASSERT_EQ(m->items.size(), 2U);
  const Item& item = m->items.front();
  EXPECT_EQ(item.line, 4);
  EXPECT_EQ(item.schemes, (Words{"rowcol", "mxfp4"}));
  EXPECT_EQ(item.settings.at("targets").line, 7);
  ASSERT_EQ(item.shapes.size(), 1U);
  const Shape& shape = item.shapes.front();
  EXPECT_EQ(shape.m.front().first, 1);
  EXPECT_EQ(shape.m.front().last, 64);
  ASSERT_EQ(shape.n.size(), 2U);
  EXPECT_EQ(shape.n[0].last, 4096);
  EXPECT_EQ(shape.n[1].first, 7168);
  EXPECT_EQ(shape.k.front().last, 512);
  EXPECT_EQ(m->items.back().names, Words{"gemm_x"});
  EXPECT_EQ(m->text, kGood);
}

struct Wrong {
  const char* text;
  const char* where;
  const char* what;
};

TEST(Manifest, WhatIsWrongIsNamedWithItsLine) {
  const std::string item = "[[kernels]]\nschemes = ['rowcol']\nshapes = [{m = 1, n = 1, k = 1}]\n";
  const Wrong rows[] = {
      {"namespace = 'a'\nnames_space = 'b'\n", "b.toml:2", "unknown key names_space"},
      {"compiler = 'g++'\n", "b.toml:1", "unknown key compiler"},
      {"namespace = 1\n", "b.toml:1", "namespace: needs a string"},
      {"targets = 'sm_90a'\n", "b.toml:1", "targets: needs a list of strings"},
      {"targets = []\n", "b.toml:1", "targets: needs a list of strings"},
      {"targets = ['sm_90a',\n  7]\n", "b.toml:2", "targets: needs strings"},
      {"\nkernels = 3\n", "b.toml:2", "kernels: needs [[kernels]] tables"},
      {"namespace = 'a'\n", "b.toml:1", "needs at least one [[kernels]] item"},
      {"x = \n", "b.toml:1", ""},
      {"[[kernels]]\nschemes = ['a']\nshape = []\n", "b.toml:3", "unknown key shape of an item"},
      {"[[kernels]]\nnamespace = 'a'\n", "b.toml:2", "unknown key namespace of an item"},
      {"[[kernels]]\nschemes = ['a']\n", "b.toml:1", "needs shapes"},
      {"[[kernels]]\ntargets = ['avx512']\n", "b.toml:1", "either schemes and shapes, or names"},
      {"[[kernels]]\nschemes = ['a']\nnames = ['b']\n", "b.toml:1", "either schemes and shapes, or names"},
      {"[[kernels]]\nnames = ['b']\ntargets = ['avx512']\n", "b.toml:1", "targets: does not go together"},
      {"[[kernels]]\nschemes = ['a']\nshapes = [{m = 1, n = 2}]\n", "b.toml:3", "needs m, n and k"},
      {"[[kernels]]\nschemes = ['a']\nshapes = [{m = 1, n = 2, k = 3, b = 4}]\n", "b.toml:3",
       "unknown key b"},
      {"[[kernels]]\nschemes = ['a']\nshapes = [{m = 0, n = 2, k = 3}]\n", "b.toml:3",
       "m: needs a whole number"},
      {"[[kernels]]\nschemes = ['a']\nshapes = [{m = '8..4', n = 2, k = 3}]\n", "b.toml:3", "m: needs"},
      {"[[kernels]]\nschemes = ['a']\nshapes = [{m = '1..x', n = 2, k = 3}]\n", "b.toml:3", "m: needs"},
      {"[[kernels]]\nschemes = ['a']\nshapes = [{m = 1.5, n = 2, k = 3}]\n", "b.toml:3", "m: needs"},
      {"[[kernels]]\nschemes = ['a']\nshapes = [[1, 2, 3]]\n", "b.toml:3", "shapes: needs a list such as"},
  };
  for (const Wrong& row : rows) {
    const auto m = read_manifest(row.text, "b.toml");
    EXPECT_EQ(m.status().code(), Code::kInvalidArgument) << row.text;
    EXPECT_TRUE(m.status().message().starts_with(std::string(row.where) + ": ")) << m.status().message();
    EXPECT_NE(m.status().message().find(row.what), std::string::npos) << m.status().message();
  }
}

}  // namespace
}  // namespace scalegemm::bundle
