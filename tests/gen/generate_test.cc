#include "gen/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "arch/cpu_family.h"
#include "gen/kernel_files.h"

namespace scalegemm::gen {
namespace {

using base::SourceFile;
using spec::Target;

std::vector<spec::KernelSpec> all_cpu_specs() {
  std::vector<spec::KernelSpec> specs;
  for (const spec::TargetName& row : spec::kTargets) {
    const auto of_target = arch::cpu_specs(row.target);
    specs.insert(specs.end(), of_target.begin(), of_target.end());
  }
  return specs;
}

std::vector<std::string> paths(const std::vector<SourceFile>& files) {
  std::vector<std::string> result;
  for (const SourceFile& file : files) {
    result.emplace_back(file.path);
  }
  return result;
}

TEST(KernelFiles, AreTheSourceTreeByteForByte) {
  const auto files = kernel_files();
  ASSERT_GT(files.size(), 5U);
  for (const SourceFile& file : files) {
    std::ifstream in(std::string(SCALEGEMM_SOURCE_DIR) + "/kernels/" + std::string(file.path),
                     std::ios::binary);
    ASSERT_TRUE(in) << file.path;
    std::ostringstream content;
    content << in.rdbuf();
    EXPECT_EQ(content.str(), file.content) << file.path;
  }
  EXPECT_TRUE(std::is_sorted(files.begin(), files.end(),
                             [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; }));
}

TEST(Generate, EveryCpuSpecGivesASmallUnit) {
  const auto specs = all_cpu_specs();
  ASSERT_GE(specs.size(), 30U);
  std::set<std::string> symbols;
  std::set<base::Hash128> ids;
  for (const spec::KernelSpec& spec : specs) {
    const auto source = generate(spec);
    ASSERT_TRUE(source.ok()) << source.status().message();
    EXPECT_EQ(source->name, spec::name(spec));
    EXPECT_LE(std::count(source->text.begin(), source->text.end(), '\n'), 5);
    EXPECT_NE(source->text.find('"' + source->name + '"'), std::string::npos);
    EXPECT_NE(source->text.find("(" + source->symbol + ","), std::string::npos);
    const auto includes = paths(source->includes);
    for (const char* needed : {"cpu/abi.h", "cpu/kernel.h", "common/panels.h"}) {
      EXPECT_NE(std::find(includes.begin(), includes.end(), needed), includes.end()) << needed;
    }
    symbols.insert(source->symbol);
    ids.insert(source->source_id);
  }
  EXPECT_EQ(symbols.size(), specs.size());
  EXPECT_EQ(ids.size(), specs.size());
}

TEST(Generate, IsRepeatable) {
  for (const spec::KernelSpec& spec : all_cpu_specs()) {
    const auto a = generate(spec);
    const auto b = generate(spec);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->text, b->text);
    EXPECT_EQ(a->source_id, b->source_id);
  }
}

TEST(Generate, RefusesWhatIsNotLegal) {
  spec::KernelSpec spec = all_cpu_specs().front();
  spec.tile.m += 1;
  const auto source = generate(spec);
  EXPECT_EQ(source.status().code(), Code::kUnsupported);
  EXPECT_FALSE(source.status().message().empty());
  spec = all_cpu_specs().front();
  spec.target = Target::kGfx942;
  EXPECT_EQ(generate(spec).status().code(), Code::kUnsupported);
}

TEST(KernelId, DependsOnEveryPart) {
  const base::Hash128 source{1, 2};
  const std::vector<std::string> flags = {"-O3", "-fPIC"};
  const base::Hash128 id = kernel_id(source, "gcc 12", flags);
  EXPECT_EQ(kernel_id(source, "gcc 12", flags), id);
  EXPECT_NE(kernel_id({1, 3}, "gcc 12", flags), id);
  EXPECT_NE(kernel_id(source, "gcc 13", flags), id);
  EXPECT_NE(kernel_id(source, "gcc 12", std::vector<std::string>{"-O3"}), id);
  EXPECT_NE(kernel_id(source, "gcc 12", std::vector<std::string>{"-O3 -fPIC"}), id);
  EXPECT_NE(kernel_id(source, "gcc 12", std::vector<std::string>{"-fPIC", "-O3"}), id);
}

TEST(IncludedFiles, FollowsQuotedIncludesOnly) {
  const SourceFile files[] = {
      {"a/one.h", "#include \"two.h\"\n#include <stdint.h>\n// #include \"nowhere.h\"\n"},
      {"a/two.h", "  #  include \"b/three.h\" // why\n#include\"a/one.h\"\n"},
      {"b/three.h", "no newline at the end"},
      {"two.h", "the one beside the includer wins"},
      {"unused.h", "#include \"missing.h\"\n"},
  };
  const auto found = included_files("#include \"a/one.h\"\n", files);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(paths(*found), (std::vector<std::string>{"a/one.h", "a/two.h", "b/three.h"}));
  EXPECT_EQ(paths(*included_files("#include \"two.h\"", files)), std::vector<std::string>{"two.h"});
  EXPECT_TRUE(included_files("int x;\n", files)->empty());
  EXPECT_TRUE(included_files("#include \"unterminated\n", files)->empty());
  const auto missing = included_files("#include \"unused.h\"\n", files);
  EXPECT_EQ(missing.status().code(), Code::kInternal);
  EXPECT_NE(missing.status().message().find("missing.h"), std::string::npos);
}

}  // namespace
}  // namespace scalegemm::gen
