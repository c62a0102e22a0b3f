#include "toolchain/host_compiler.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/dynlib.h"
#include "base/files.h"
#include "toolchain/compiler.h"
#include "toolchain/scoped_env.h"

namespace scalegemm::toolchain {
namespace {

constexpr std::string_view kText =
    "#include \"deep/er/answer.h\"\n"
    "#include \"twice.h\"\n"
    "extern \"C\" __attribute__((visibility(\"default\"))) int answer() { return twice(kAnswer); }\n"
    "int hidden() { return 1; }\n";

CompileJob job() {
  return {.name = "answer_kernel",
          .text = kText,
          .includes = {{"deep/er/answer.h", "constexpr int kAnswer = 21;\n"},
                       {"twice.h", "inline int twice(int x) { return 2 * x; }\n"}},
          .target = spec::Target::kX86V3};
}

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// A "compiler" that behaves as the shell text says; $@ are its arguments.
std::string fake_compiler(const base::TempDir& dir, const std::string& script) {
  const std::string path = dir.path() + "/fake-c++";
  std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
  ::chmod(path.c_str(), 0700);
  return path;
}

TEST(HostCompiler, CompilesFromMemoryToALoadableObject) {
  const auto compiler = find_host_compiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status().message();
  const auto code = (*compiler)->compile(job());
  ASSERT_TRUE(code.ok()) << code.status().message();
  EXPECT_EQ(code->kind, CodeKind::kSharedObject);
  const auto library = base::DynLib::open_bytes(code->bytes, "answer");
  ASSERT_TRUE(library.ok()) << library.status().message();
  int (*answer)() = nullptr;
  ASSERT_TRUE(library->function("answer", &answer).ok());
  EXPECT_EQ(answer(), 42);
  EXPECT_EQ(library->symbol("_Z6hiddenv"), nullptr) << "only the kernel's entry is exported";
}

TEST(HostCompiler, TheSameInputGivesTheSameBytesWithoutPaths) {
  const auto compiler = find_host_compiler();
  ASSERT_TRUE(compiler.ok());
  const auto first = (*compiler)->compile(job());
  const auto second = (*compiler)->compile(job());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->bytes, second->bytes);
  EXPECT_EQ(first->bytes.find("/tmp"), std::string::npos);
  EXPECT_EQ((*compiler)->identity().find('/'), std::string::npos) << (*compiler)->identity();
}

TEST(HostCompiler, MakesRelocatableObjectsToo) {
  const auto compiler = find_host_compiler({.output = CodeKind::kObject});
  ASSERT_TRUE(compiler.ok());
  const auto code = (*compiler)->compile(job());
  ASSERT_TRUE(code.ok()) << code.status().message();
  EXPECT_EQ(code->kind, CodeKind::kObject);
  ASSERT_GT(code->bytes.size(), 20U);
  EXPECT_EQ(code->bytes.substr(0, 4), "\177ELF");
  EXPECT_EQ(code->bytes[16], 1) << "e_type of a relocatable file";
}

TEST(HostCompiler, LibrariesInMemoryDoNotMixUp) {
  const auto compiler = find_host_compiler();
  ASSERT_TRUE(compiler.ok());
  std::vector<base::DynLib> open;
  for (int value = 0; value < 3; ++value) {
    const std::string text = fmt::format(
        "extern \"C\" __attribute__((visibility(\"default\"))) int value() {{ return {}; }}\n", value);
    const auto code =
        (*compiler)->compile({.name = "value", .text = text, .includes = {}, .target = spec::Target::kX86V3});
    ASSERT_TRUE(code.ok());
    { const auto closed_at_once = base::DynLib::open_bytes(code->bytes, "value"); }
    auto library = base::DynLib::open_bytes(code->bytes, "value");
    ASSERT_TRUE(library.ok());
    open.push_back(*std::move(library));
  }
  for (int value = 0; value < 3; ++value) {
    int (*function)() = nullptr;
    ASSERT_TRUE(open[static_cast<size_t>(value)].function("value", &function).ok());
    EXPECT_EQ(function(), value);
  }
  EXPECT_FALSE(base::DynLib::open_bytes("not a library", "broken").ok());
}

TEST(HostCompiler, ErrorsCarryTheCompilersMessage) {
  const auto compiler = find_host_compiler();
  ASSERT_TRUE(compiler.ok());
  CompileJob bad = job();
  bad.text = "#include \"twice.h\"\nint f() { return undeclared_thing; }\n";
  const auto code = (*compiler)->compile(bad);
  EXPECT_EQ(code.status().code(), Code::kCompileFailed);
  for (const char* part : {"answer_kernel", "kernel.cc:2", "undeclared_thing"}) {
    EXPECT_NE(code.status().message().find(part), std::string::npos) << code.status().message();
  }
  EXPECT_EQ(code.status().message().find("/tmp"), std::string::npos) << code.status().message();
  bad.text = "#include \"missing.h\"\n";
  EXPECT_EQ((*compiler)->compile(bad).status().code(), Code::kCompileFailed);
}

TEST(HostCompiler, IncludesCannotLeaveTheirFolder) {
  const auto compiler = find_host_compiler();
  ASSERT_TRUE(compiler.ok());
  for (const char* path : {"../evil.h", "/etc/evil.h", "a/../../evil.h", ".."}) {
    CompileJob bad = job();
    bad.includes.push_back({path, "int x;\n"});
    EXPECT_EQ((*compiler)->compile(bad).status().code(), Code::kInvalidArgument) << path;
  }
}

TEST(HostCompiler, AMissingCompilerSaysWhatToInstall) {
  {
    const ScopedEnv own("SCALEGEMM_CXX", "/nonexistent/g++");
    const auto compiler = find_host_compiler();
    EXPECT_EQ(compiler.status().code(), Code::kNotBuilt);
    for (const char* part : {"/nonexistent/g++", "SCALEGEMM_CXX", "install g++"}) {
      EXPECT_NE(compiler.status().message().find(part), std::string::npos) << compiler.status().message();
    }
  }
  const ScopedEnv own("SCALEGEMM_CXX", nullptr);
  const ScopedEnv cxx("CXX", nullptr);
  const ScopedEnv path("PATH", "/nonexistent");
  const auto compiler = find_host_compiler();
  EXPECT_EQ(compiler.status().code(), Code::kNotBuilt);
  EXPECT_NE(compiler.status().message().find("install g++"), std::string::npos);
}

TEST(HostCompiler, EnvironmentNamesTheCompiler) {
  const auto dir = base::TempDir::make("scalegemm-test");
  ASSERT_TRUE(dir.ok());
  const std::string fake = fake_compiler(*dir, "echo 'Fancy compiler 1.2'; echo 'InstalledDir: /opt'");
  const ScopedEnv own("SCALEGEMM_CXX", nullptr);
  {
    const ScopedEnv cxx("CXX", fake.c_str());
    EXPECT_EQ((*find_host_compiler())->identity(), "Fancy compiler 1.2");
  }
  {
    const ScopedEnv cxx("CXX", ("/usr/bin/env " + fake).c_str());
    EXPECT_EQ((*find_host_compiler())->identity(), "Fancy compiler 1.2");
  }
  const std::string broken = fake_compiler(*dir, "exit 4");
  const ScopedEnv cxx("CXX", broken.c_str());
  EXPECT_EQ(find_host_compiler().status().code(), Code::kNotBuilt);
}

TEST(HostCompiler, ARefusedFlagIsDroppedAndRecorded) {
  const auto dir = base::TempDir::make("scalegemm-test");
  ASSERT_TRUE(dir.ok());
  const std::string fake = fake_compiler(
      *dir, "echo x >> " + dir->path() + "/runs\n" +
                "for a in \"$@\"; do [ \"$a\" = -fno-trapping-math ] && exit 1; done; exec g++ \"$@\"");
  const auto compiler = find_host_compiler({.program = fake});
  ASSERT_TRUE(compiler.ok()) << compiler.status().message();
  const auto flags = (*compiler)->flags(spec::Target::kX86V3);
  ASSERT_TRUE(flags.ok()) << flags.status().message();
  EXPECT_EQ(flags->dropped, std::vector<std::string>{"-fno-trapping-math"});
  EXPECT_FALSE(contains(flags->accepted, "-fno-trapping-math"));
  EXPECT_TRUE(contains(flags->accepted, "-march=x86-64-v3"));
  EXPECT_TRUE((*compiler)->compile(job()).ok());
  // Probed once: asking again runs nothing.
  const auto runs = [&] { return std::filesystem::file_size(dir->path() + "/runs"); };
  const auto before = runs();
  EXPECT_TRUE((*compiler)->flags(spec::Target::kX86V3).ok());
  EXPECT_EQ(runs(), before);
}

TEST(HostCompiler, ARefusedIsaFlagIsAnError) {
  const auto dir = base::TempDir::make("scalegemm-test");
  ASSERT_TRUE(dir.ok());
  const std::string fake =
      fake_compiler(*dir, "for a in \"$@\"; do [ \"$a\" = -mavx512bf16 ] && exit 1; done; exec g++ \"$@\"");
  const auto compiler = find_host_compiler({.program = fake});
  ASSERT_TRUE(compiler.ok());
  EXPECT_TRUE((*compiler)->flags(spec::Target::kAvx512).ok());
  const auto flags = (*compiler)->flags(spec::Target::kAvx512Bf16);
  EXPECT_EQ(flags.status().code(), Code::kUnsupported);
  EXPECT_NE(flags.status().message().find("-mavx512bf16"), std::string::npos) << flags.status().message();
  EXPECT_EQ((*compiler)->flags(spec::Target::kSm90a).status().code(), Code::kUnsupported);
}

TEST(HostCompiler, EveryCpuTargetHasFlagsThatThisCompilerTakes) {
  const auto compiler = find_host_compiler();
  ASSERT_TRUE(compiler.ok());
  for (const spec::TargetName& row : spec::kTargets) {
    EXPECT_EQ(isa_flags(row.target).empty(), !row.is_cpu) << row.name;
    if (row.is_cpu) {
      const auto flags = (*compiler)->flags(row.target);
      EXPECT_TRUE(flags.ok()) << flags.status().message();
    }
  }
}

// Code of one kind must not be taken for the other: what is hashed into a kernel's id tells them apart.
TEST(HostCompiler, ObjectsAndSharedObjectsHaveDifferentFlags) {
  const auto shared = find_host_compiler({.output = CodeKind::kSharedObject});
  const auto object = find_host_compiler({.output = CodeKind::kObject});
  ASSERT_TRUE(shared.ok() && object.ok());
  const auto of_shared = (*shared)->flags(spec::Target::kX86V3);
  const auto of_object = (*object)->flags(spec::Target::kX86V3);
  ASSERT_TRUE(of_shared.ok() && of_object.ok());
  EXPECT_TRUE(contains(of_shared->accepted, "-shared"));
  EXPECT_FALSE(contains(of_object->accepted, "-shared"));
}

TEST(HostCompiler, ManyThreadsCompileAtOnce) {
  const auto compiler = find_host_compiler();
  ASSERT_TRUE(compiler.ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const auto code = (*compiler)->compile(job());
      EXPECT_TRUE(code.ok()) << code.status().message();
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

TEST(TrimLog, KeepsTheFirstErrorsAndSaysWhatIsMissing) {
  std::string log;
  for (int i = 0; i < 50; ++i) {
    log += fmt::format("In file included from x{}\n", i);
  }
  log += "kernel.cc:1: error: first\n" + std::string(1000, 'y') + "\nlast\n";
  const std::string trimmed = trim_log(log, 2);
  EXPECT_TRUE(trimmed.starts_with("kernel.cc:1: error: first\nyyy")) << trimmed;
  EXPECT_TRUE(trimmed.ends_with("...\n(1 more lines)")) << trimmed;
  EXPECT_LT(trimmed.size(), 400U);
  EXPECT_EQ(trim_log(""), "");
  EXPECT_EQ(trim_log("only a warning\n"), "only a warning");
}

}  // namespace
}  // namespace scalegemm::toolchain
