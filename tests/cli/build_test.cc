// build: what it lists, where settings come from, what it refuses, and one bundle that is built.
#include "cli/run_cli.h"

namespace scalegemm::cli_test {
namespace {

constexpr const char* kManifest =
    "namespace = 'acme'\n"
    "targets = ['x86-64-v3']\n"
    "outputs = ['f32']\n"
    "[[kernels]]\n"
    "schemes = ['none:a=bf16']\n"
    "shapes = [{m = '1..64', n = 4096, k = 4096}]\n"
    "targets = ['avx512']\n";

class BuildTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    write_file(path("m.toml"), kManifest);
  }
};

TEST_F(BuildTest, DryRunListsKernelsWithReasonsAndWritesNothing) {
  const Json json = run_json("build m.toml --dry-run -o out");
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"namespace", "settings", "kernels", "left_out"}));
  ASSERT_EQ(json["kernels"].size(), 1u);
  EXPECT_EQ(json["kernels"][0]["target"], "avx512");
  EXPECT_EQ(json["kernels"][0]["reasons"][0], "m.toml:4: none:a=bf16 rcr f32 promoted plain 1x4096x4096");
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  const Output text = run("build m.toml --dry-run");
  EXPECT_NE(text.out.find("1 kernels; nothing was built"), std::string::npos) << text.out << text.err;
}

TEST_F(BuildTest, ExplainConfigSaysWhereEachSettingComesFrom) {
  const Output output = run("build m.toml --explain-config --namespace zeta --target x86-64-v3,avx512 ",
                            "env SCALEGEMM_BUNDLE_JOBS=3");
  ASSERT_EQ(output.exit_code, 0) << output.err;
  const auto line_with = [&](const std::string& setting) {
    std::istringstream lines(output.out);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(" " + setting + " ") != std::string::npos) {
        return line;
      }
    }
    return std::string();
  };
  EXPECT_NE(line_with("namespace").find("zeta"), std::string::npos) << output.out;
  EXPECT_NE(line_with("namespace").find("--namespace"), std::string::npos);
  EXPECT_NE(line_with("targets").find("x86-64-v3 avx512"), std::string::npos);
  EXPECT_NE(line_with("targets").find("--target"), std::string::npos);
  EXPECT_NE(line_with("outputs").find("m.toml:3"), std::string::npos);
  EXPECT_NE(line_with("jobs").find("$SCALEGEMM_BUNDLE_JOBS"), std::string::npos);
  EXPECT_NE(line_with("accuracy").find("default"), std::string::npos);
}

TEST_F(BuildTest, WrongCommandLinesAndManifestsNameTheFix) {
  expect_error("build m.toml", 2, {"-o: needed"});
  expect_error("build missing.toml -o out", 1, {"missing.toml"});
  expect_error("build m.toml -o out --target native", 2,
               {"--target: targets: needs some of x86-64-v3", "native"});
  write_file(path("bad.toml"), std::string(kManifest) + "shape = 3\n");
  expect_error("build bad.toml -o out", 2, {"bad.toml:8: unknown key shape"});
  expect_error("build m.toml -o out --pipeline mma", 1, {"no kernel of the CPU targets"});
}

TEST_F(BuildTest, BuildsOnceAndThenTakesKernelsFromTheCache) {
  Json json = run_json("build m.toml -o out --library static --target x86-64-v3");
  EXPECT_EQ(json["compiled"], 1);
  EXPECT_TRUE(std::filesystem::exists(path("out/lib/libacme_scalegemm.a")));
  EXPECT_TRUE(std::filesystem::exists(path("out/include/acme/scalegemm.h")));
  json = run_json("build m.toml -o out --library static --target x86-64-v3");
  EXPECT_EQ(json["compiled"], 0);
}

}  // namespace
}  // namespace scalegemm::cli_test
