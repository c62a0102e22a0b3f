// Bundles as they are linked: the same bytes everywhere, no foreign symbol, and programs that run them.
#include "bundle/build.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/subprocess.h"
#include "bundle/elf_file.h"
#include "bundle/linker.h"
#include "toolchain/nvrtc.h"

namespace scalegemm::bundle {
namespace {

namespace fs = std::filesystem;
using build_builtin::BuiltKernel;
using Json = nlohmann::ordered_json;

constexpr uint64_t kLargest = uint64_t{1} << 30;

std::string manifest_of(const std::string& name_space, const std::string& type) {
  return "namespace = '" + name_space + "'\ntargets = ['x86-64-v3']\noutputs = ['f32']\n" +
         "[[kernels]]\nschemes = ['none:a=" + type + "']\nshapes = [{m = '1..64', n = 4096, k = 4096}]\n";
}

base::Finished run(const Words& command, const Words& environment = {}) {
  const auto program = base::find_program(command.front());
  EXPECT_TRUE(program) << command.front();
  Words argv = command;
  argv.front() = program.value_or(command.front());
  const auto done = base::run({.argv = argv, .environment = environment});
  EXPECT_TRUE(done.ok()) << done.status().message();
  return done.ok() ? *done : base::Finished{.exit_code = -1, .output = {}};
}

// By path, so that a missing file is seen too.
std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      out.emplace(fs::relative(entry.path(), folder).string(), *base::read_file(entry.path(), kLargest));
    }
  }
  return out;
}

// Global symbols that a library defines, as nm sees them.
std::set<std::string> symbols_of(const std::string& library, const char* option) {
  std::set<std::string> out;
  const base::Finished done = run({SCALEGEMM_NM, option, "--defined-only", "--format=posix", library});
  EXPECT_TRUE(done.succeeded()) << done.output;
  for (size_t at = 0; at < done.output.size();) {
    const size_t end = std::min(done.output.find('\n', at), done.output.size());
    const std::string line = done.output.substr(at, end - at);
    if (line.find(' ') != std::string::npos && line.find(' ') + 2 < line.size()) {
      out.insert(line.substr(0, line.find_first_of(" @")));
    }
    at = end + 1;
  }
  return out;
}

class BuildTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto dir = base::TempDir::make("bundle-test");
    ASSERT_TRUE(dir.ok());
    dir_ = new base::TempDir(*std::move(dir));
  }
  static void TearDownTestSuite() {
    delete dir_;
    dir_ = nullptr;
  }

  static std::string path(const std::string& name) { return dir_->path() + "/" + name; }

  static Result<Built> build_text(const std::string& text, const std::string& folder,
                                  const std::string& cache = "cache", const Overrides& more = {}) {
    SCALEGEMM_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(text, path(folder + "/b.toml")));
    Overrides overrides = {
        {"cache_dir", {path(cache)}}, {"jobs", {"2"}}, {"compiler", {SCALEGEMM_CXX_COMPILER}}};
    overrides.insert(more.begin(), more.end());
    SCALEGEMM_ASSIGN_OR_RETURN(const Plan plan, make_plan(manifest, overrides));
    return build(plan, {.folder = path(folder), .manifest = manifest.text});
  }

  static base::TempDir* dir_;
};

base::TempDir* BuildTest::dir_ = nullptr;

TEST_F(BuildTest, SameInputsGiveTheSameBytesInAnyFolder) {
  const std::string text = manifest_of("acme", "bf16");
  const auto first = build_text(text, "one/acme", "cache");
  ASSERT_TRUE(first.ok()) << first.status().message();
  const auto again = build_text(text, "another/place/of/acme", "other-cache");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_FALSE(again->kernels.front().from_cache) << "compiled twice, in two caches";
  const auto files = files_in(path("one/acme"));
  EXPECT_EQ(files.size(), 8U);
  for (const auto& [name, content] : files) {
    const auto other = files_in(path("another/place/of/acme"));
    ASSERT_TRUE(other.contains(name)) << name;
    EXPECT_TRUE(other.at(name) == content) << name << " differs";
    EXPECT_EQ(content.find(dir_->path()), std::string::npos) << name << " holds a path of this machine";
  }
  // Built again into the same folder: nothing is compiled and no file is touched.
  const auto before = fs::last_write_time(path("one/acme/lib/libacme_scalegemm.so"));
  const auto third = build_text(text, "one/acme", "cache");
  ASSERT_TRUE(third.ok());
  EXPECT_TRUE(third->kernels.front().from_cache);
  EXPECT_EQ(fs::last_write_time(path("one/acme/lib/libacme_scalegemm.so")), before);
}

TEST_F(BuildTest, ExportsTheCApiUnderThePrefixAndNothingElse) {
  const auto built = build_text(manifest_of("acme", "bf16"), "one/acme");
  ASSERT_TRUE(built.ok()) << built.status().message();
  const std::string header = *base::read_file(path("one/acme/include/acme/scalegemm.h"), kLargest);
  EXPECT_EQ(header.find("scalegemm_"), std::string::npos);
  std::set<std::string> shared = symbols_of(path("one/acme/lib/libacme_scalegemm.so"), "-D");
  EXPECT_EQ(shared.erase("ACME_0"), 1U) << "the version node";
  const std::set<std::string> archive = symbols_of(path("one/acme/lib/libacme_scalegemm.a"), "-g");
  EXPECT_EQ(shared, archive);
  EXPECT_EQ(shared, std::set<std::string>(built->exports.begin(), built->exports.end()));
  EXPECT_GT(shared.size(), 40U);
  for (const std::string& symbol : shared) {
    EXPECT_TRUE(symbol.starts_with("acme_")) << symbol;
    EXPECT_NE(header.find(symbol + "("), std::string::npos) << symbol << " is not declared";
  }
}

TEST_F(BuildTest, TwoBundlesLiveInOneProgram) {
  for (const auto& [name_space, type] : {std::pair("acme", "bf16"), std::pair("zeta", "f16")}) {
    const auto built = build_text(manifest_of(name_space, type), std::string("one/") + name_space);
    ASSERT_TRUE(built.ok()) << built.status().message();
  }
  const std::string source = std::string(SCALEGEMM_SOURCE_DIR) + "/tests/bundle/two_bundles.c";
  const Words includes = {"-I" + path("one/acme/include"), "-I" + path("one/zeta/include")};
  const std::string shared = path("shared_program");
  const base::Finished shared_link =
      run({SCALEGEMM_CC, "-O1", "-Wall", "-Werror", includes[0], includes[1], source, "-o", shared,
           path("one/acme/lib/libacme_scalegemm.so"), path("one/zeta/lib/libzeta_scalegemm.so")});
  ASSERT_TRUE(shared_link.succeeded()) << shared_link.output;
  const std::string object = path("two.o");
  ASSERT_TRUE(run({SCALEGEMM_CC, "-O1", "-c", includes[0], includes[1], source, "-o", object}).succeeded());
  const std::string archived = path("static_program");
  const base::Finished static_link =
      run({SCALEGEMM_CXX_COMPILER, object, "-o", archived, path("one/acme/lib/libacme_scalegemm.a"),
           path("one/zeta/lib/libzeta_scalegemm.a"), "-pthread", "-ldl"});
  ASSERT_TRUE(static_link.succeeded()) << static_link.output;
  for (const std::string& program : {shared, archived}) {
    // No compiler and no cache: what runs is in the libraries.
    const base::Finished done =
        run({program}, {"LD_LIBRARY_PATH=" + path("one/acme/lib") + ":" + path("one/zeta/lib"),
                        "PATH=/nowhere", "SCALEGEMM_CACHE_DIR=" + path("run-cache")});
    EXPECT_TRUE(done.succeeded()) << done.output;
    EXPECT_NE(done.output.find("acme: 0 wrong"), std::string::npos) << done.output;
    EXPECT_NE(done.output.find("zeta: 0 wrong"), std::string::npos) << done.output;
    EXPECT_NE(done.output.find("built in: needed a kernel that this library holds; got gemm_"),
              std::string::npos)
        << done.output;
  }
}

TEST_F(BuildTest, ManifestJsonDescribesEveryFileAndKernel) {
  const auto built = build_text(manifest_of("acme", "bf16"), "one/acme");
  ASSERT_TRUE(built.ok()) << built.status().message();
  const auto files = files_in(path("one/acme"));
  const Json json = Json::parse(files.at("manifest.json"));
  EXPECT_EQ(json["namespace"], "acme");
  EXPECT_EQ(json["targets"], Json({"x86-64-v3"}));
  EXPECT_EQ(json["exports"].size(), built->exports.size());
  EXPECT_TRUE(json["sources"].contains("cpu/f32_gemm.h"));
  EXPECT_EQ(json["compilers"][0]["target"], "x86-64-v3");
  ASSERT_EQ(json["files"].size() + 1, files.size());
  for (const Json& file : json["files"]) {
    const std::string& content = files.at(file["path"]);
    EXPECT_EQ(file["bytes"], content.size());
    EXPECT_EQ(file["digest"], "xxh3-128:" + base::hash128(content).hex());
  }
  ASSERT_EQ(json["kernels"].size(), built->kernels.size());
  EXPECT_EQ(json["kernels"][0]["name"], built->kernels[0].name);
  EXPECT_EQ(json["kernels"][0]["id"], built->kernels[0].id.hex());
  EXPECT_EQ(json["kernels"][0]["selected_by"][0], "b.toml:4: none:a=bf16 rcr f32 promoted plain 1x4096x4096");
}

TEST_F(BuildTest, ALibraryThatIsNoLongerAskedForIsRemoved) {
  const std::string text = manifest_of("acme", "bf16");
  ASSERT_TRUE(build_text(text, "less").ok());
  ASSERT_TRUE(build_text(text, "less", "cache", {{"libraries", {"static"}}}).ok());
  EXPECT_FALSE(fs::exists(path("less/lib/libacme_scalegemm.so")));
  EXPECT_TRUE(fs::exists(path("less/lib/libacme_scalegemm.a")));
}

TEST_F(BuildTest, ABudgetThatIsExceededWritesNothing) {
  const auto built = build_text(manifest_of("acme", "bf16"), "small", "cache", {{"size_budget", {"100 kB"}}});
  EXPECT_EQ(built.status().code(), Code::kUnsupported);
  EXPECT_NE(built.status().message().find("size_budget: needs lib/libacme_scalegemm.so to be at most 100000"),
            std::string::npos)
      << built.status().message();
  EXPECT_NE(built.status().message().find(" bytes of gemm_"), std::string::npos) << built.status().message();
  EXPECT_FALSE(fs::exists(path("small")));
}

TEST_F(BuildTest, CudaKernelsAreInTheLibraryWithWhatTheyNeed) {
  if (const auto nvrtc = toolchain::find_nvrtc(); !nvrtc.ok()) {
    GTEST_SKIP() << "NOT TESTED: " << nvrtc.status().message();
  }
  const std::string text =
      "namespace = 'acme'\ntargets = ['sm_90a']\n"
      "[[kernels]]\nschemes = ['rowcol']\nshapes = [{m = 16, n = 4096, k = 4096}]\n";
  const auto built = build_text(text, "cuda");
  ASSERT_TRUE(built.ok()) << built.status().message();
  const std::string library = *base::read_file(path("cuda/lib/libacme_scalegemm.so"), kLargest);
  const Json json = Json::parse(*base::read_file(path("cuda/manifest.json"), kLargest));
  // The registers of the GEMM that was chosen are those that the compiler reports.
  const BuiltKernel& chosen = built->kernels.front();
  const auto source = gen::generate(*spec::parse(chosen.name));
  ASSERT_TRUE(source.ok());
  const auto code = (*toolchain::find_nvrtc())
                        ->compile({.name = source->name,
                                   .text = source->text,
                                   .includes = source->includes,
                                   .target = spec::Target::kSm90a,
                                   .instruction = source->instruction});
  ASSERT_TRUE(code.ok()) << code.status().message();
  EXPECT_EQ(json["kernels"][0]["resources"]["registers"][chosen.symbol], code->registers);
  size_t gemms = 0;
  for (size_t i = 0; i < built->kernels.size(); ++i) {
    EXPECT_NE(library.find(*built->kernels[i].code), std::string::npos) << built->kernels[i].name;
    const Json& resources = json["kernels"][i]["resources"];
    ASSERT_FALSE(resources["registers"].empty()) << built->kernels[i].name;
    for (const Json& registers : resources["registers"]) {
      EXPECT_GE(registers, 8);
      EXPECT_LE(registers, 255);
    }
    if (built->kernels[i].name.starts_with("gemm_")) {
      ++gemms;
      EXPECT_GE(resources["threads"], 32) << built->kernels[i].name;
      EXPECT_LE(resources["threads"], 1024);
      EXPECT_GT(resources["shared_bytes"], 1024);
      EXPECT_LE(resources["shared_bytes"], 232448);
    }
  }
  EXPECT_GE(gemms, 2U) << "the choice and its fallback";
  EXPECT_GT(built->kernels.size(), gemms) << "and what every plan needs";
}

TEST(Names, HeadersAreRenamedTokenByToken) {
  EXPECT_EQ(renamed("scalegemm_run", "acme"), "acme_run");
  EXPECT_EQ(renamed("SCALEGEMM_OK", "acme"), "ACME_OK");
  EXPECT_EQ(renamed("my_scalegemm_run", "acme"), "my_scalegemm_run");
  EXPECT_EQ(renamed_header("#include <scalegemm/scalegemm.h>\nnamespace scalegemm {\n", "acme"),
            "#include <acme/scalegemm.h>\nnamespace acme {\n");
  EXPECT_EQ(
      renamed_header("$SCALEGEMM_CACHE_DIR, ~/.cache/scalegemm; scalegemm::Error(scalegemm_run);", "acme"),
      "$SCALEGEMM_CACHE_DIR, ~/.cache/scalegemm; acme::Error(acme_run);");
}

TEST(Elf, DamagedFilesAreRefusedOrEmpty) {
  EXPECT_EQ(read_elf("").status().code(), Code::kCorruptData);
  EXPECT_EQ(read_elf(std::string(200, 'x')).status().code(), Code::kCorruptData);
  const auto self = base::read_file("/proc/self/exe", kLargest);
  ASSERT_TRUE(self.ok());
  ASSERT_TRUE(read_elf(*self).ok());
  for (size_t cut = 0; cut < self->size(); cut += 1 + self->size() / 97) {
    EXPECT_FALSE(read_elf(std::string_view(*self).substr(0, cut)).ok()) << cut;
  }
}

}  // namespace
}  // namespace scalegemm::bundle
