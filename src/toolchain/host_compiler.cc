#include "toolchain/host_compiler.h"

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <span>

#include "base/files.h"
#include "base/subprocess.h"

namespace scalegemm::toolchain {
namespace {

using base::Command;
using base::Finished;
using base::TempDir;

constexpr std::string_view kUnit = "kernel.cc";
constexpr std::string_view kIncludeFolder = "include";
constexpr uint64_t kLargestObject = uint64_t{256} << 20;
constexpr const char* kAdvice =
    "install g++ (Debian, Ubuntu: apt install g++) or clang++, or set SCALEGEMM_CXX to one";

struct TargetFlags {
  spec::Target target;
  std::string_view flags;
};

// A level names its features one by one: -march=<core> would also set the tuning of that core.
constexpr std::array<TargetFlags, 3> kTargetFlags = {{
    {spec::Target::kX86V3, "-march=x86-64-v3"},
    {spec::Target::kAvx512, "-march=x86-64-v3 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni"},
    {spec::Target::kAvx512Bf16,
     "-march=x86-64-v3 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512vbmi -mavx512bf16"},
}};

// Without these the code would be wrong, or not loadable.
constexpr std::string_view kNeeded = "-std=c++17 -O3 -fPIC -fvisibility=hidden";

// Without these it would be larger or slower. -fno-trapping-math and -fno-math-errno change no result;
// nothing here may let the compiler reorder floating-point sums or fuse what the source does not fuse.
constexpr std::string_view kWished =
    "-fno-exceptions -fno-rtti -fno-math-errno -fno-trapping-math -ffp-contract=off "
    "-fno-asynchronous-unwind-tables -mprefer-vector-width=512 -w";

constexpr std::string_view kSharedFlags = "-shared -Wl,-s -Wl,--build-id=none";

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> result;
  while (!text.empty()) {
    const size_t end = text.find(' ');
    if (end != 0) {
      result.emplace_back(text.substr(0, end));
    }
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return result;
}

void append(std::vector<std::string>& to, std::span<const std::string> from) {
  to.insert(to.end(), from.begin(), from.end());
}

Status write_file(const std::string& path, std::string_view content) {
  if (const size_t slash = path.rfind('/'); slash != std::string::npos) {
    SCALEGEMM_RETURN_IF_ERROR(base::make_dirs(path.substr(0, slash)));
  }
  return base::write_new_file(path, content);
}

// "cpu/abi.h" yes; "/etc/x", "../x", "a/../b" no.
bool is_plain_relative(std::string_view path) {
  return !path.empty() && path.front() != '/' && fmt::format("/{}/", path).find("/../") == std::string::npos;
}

class HostCompiler final : public Compiler {
 public:
  HostCompiler(std::vector<std::string> program, std::string identity, CodeKind output)
      : program_(std::move(program)), identity_(std::move(identity)), output_(output) {}

  const std::string& identity() const override { return identity_; }
  std::string location() const override { return program_.front(); }
  Result<Flags> flags(spec::Target target) const override;
  Result<CodeObject> compile(const CompileJob& job) const override;

 private:
  Result<Flags> probe(spec::Target target) const;
  Result<Finished> run_in(const TempDir& dir, std::vector<std::string> arguments) const;

  std::vector<std::string> program_;  // its path, and arguments as in CXX="ccache g++"
  std::string identity_;
  CodeKind output_;
  mutable std::mutex mutex_;
  mutable std::map<spec::Target, Flags> probed_;  // under mutex_
};

Result<Finished> HostCompiler::run_in(const TempDir& dir, std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), program_.begin(), program_.end());
  // Its own temporary files go where ours go, and its messages are in English.
  return base::run({.argv = std::move(arguments),
                    .working_folder = dir.path(),
                    .environment = {"TMPDIR=" + dir.path(), "LC_ALL=C"}});
}

Result<Flags> HostCompiler::flags(spec::Target target) const {
  const std::lock_guard lock(mutex_);
  if (const auto known = probed_.find(target); known != probed_.end()) {
    return known->second;
  }
  SCALEGEMM_ASSIGN_OR_RETURN(Flags flags, probe(target));
  if (output_ == CodeKind::kSharedObject) {
    append(flags.accepted, words(kSharedFlags));  // part of the identity: an object is something else
  }
  probed_.emplace(target, flags);
  return flags;
}

Result<Flags> HostCompiler::probe(spec::Target target) const {
  if (!spec::is_cpu(target)) {
    return unsupported("{}: the host compiler makes code for CPU targets, not for {}", identity_,
                       spec::target_name(target));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const TempDir dir, TempDir::make("scalegemm-probe"));
  SCALEGEMM_RETURN_IF_ERROR(write_file(fmt::format("{}/{}", dir.path(), kUnit), "int probe;\n"));
  const auto accepts = [&](const std::vector<std::string>& tried) -> Result<bool> {
    std::vector<std::string> arguments = tried;
    append(arguments, words("-Werror -c -o probe.o"));
    arguments.emplace_back(kUnit);
    SCALEGEMM_ASSIGN_OR_RETURN(const Finished done, run_in(dir, std::move(arguments)));
    return done.succeeded();
  };

  std::vector<std::string> needed = words(kNeeded);
  append(needed, isa_flags(target));
  std::vector<std::string> all = needed;
  append(all, words(kWished));
  SCALEGEMM_ASSIGN_OR_RETURN(const bool takes_all, accepts(all));
  if (takes_all) {
    return Flags{std::move(all), {}};
  }
  // Something is refused: find out what, one flag at a time.
  for (const std::string& flag : needed) {
    SCALEGEMM_ASSIGN_OR_RETURN(const bool accepted, accepts({flag}));
    if (!accepted) {
      return unsupported("target {}: needs the flag {}, compiler {} does not take it",
                         spec::target_name(target), flag, identity_);
    }
  }
  Flags flags{needed, {}};
  for (const std::string& flag : words(kWished)) {
    SCALEGEMM_ASSIGN_OR_RETURN(const bool accepted, accepts({flag}));
    (accepted ? flags.accepted : flags.dropped).push_back(flag);
  }
  return flags;
}

Result<CodeObject> HostCompiler::compile(const CompileJob& job) const {
  SCALEGEMM_ASSIGN_OR_RETURN(const Flags flags, this->flags(job.target));
  SCALEGEMM_ASSIGN_OR_RETURN(const TempDir dir, TempDir::make("scalegemm-compile"));
  SCALEGEMM_RETURN_IF_ERROR(write_file(fmt::format("{}/{}", dir.path(), kUnit), job.text));
  for (const base::SourceFile& file : job.includes) {
    if (!is_plain_relative(file.path)) {
      return invalid_argument("include path: needs to be relative without '..', is {}", file.path);
    }
    SCALEGEMM_RETURN_IF_ERROR(
        write_file(fmt::format("{}/{}/{}", dir.path(), kIncludeFolder, file.path), file.content));
  }

  const std::string object = "kernel.out";
  std::vector<std::string> arguments = flags.accepted;
  append(arguments, job.extra_flags);
  if (output_ == CodeKind::kObject) {
    arguments.emplace_back("-c");
  }
  arguments.push_back(fmt::format("-I{}", kIncludeFolder));
  append(arguments, std::array<std::string, 3>{"-o", object, std::string(kUnit)});
  SCALEGEMM_ASSIGN_OR_RETURN(const Finished done, run_in(dir, std::move(arguments)));
  if (!done.succeeded()) {
    return make_error(Code::kCompileFailed, "kernel {}: {} failed with exit code {}:\n{}", job.name,
                      identity_, done.exit_code, trim_log(done.output));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(std::string bytes,
                             base::read_file(fmt::format("{}/{}", dir.path(), object), kLargestObject));
  return CodeObject{output_, std::move(bytes), trim_log(done.output)};
}

// "g++ (Debian 12.2.0-14) 12.2.0": GCC begins with the name it was called by, which is not its identity.
std::string identity_from(std::string_view version_output) {
  const std::string_view line = version_output.substr(0, version_output.find('\n'));
  const size_t space = line.find(' ');
  if (space != std::string_view::npos && line.substr(space).starts_with(" (")) {
    return fmt::format("gcc{}", line.substr(space));
  }
  return std::string(line);
}

// `name` is a path or the name of a program, or such a one and arguments for it.
Result<std::unique_ptr<Compiler>> make_compiler(const std::string& name, std::string_view source,
                                                CodeKind output) {
  std::vector<std::string> program = base::find_program(name) ? std::vector{name} : words(name);
  const auto path = program.empty() ? std::nullopt : base::find_program(program[0]);
  if (!path) {
    return make_error(Code::kNotBuilt, "C++ compiler {} (from {}) is not an executable program; {}", name,
                      source, kAdvice);
  }
  program[0] = *path;
  std::vector<std::string> ask = program;
  ask.emplace_back("--version");
  SCALEGEMM_ASSIGN_OR_RETURN(
      const Finished done,
      base::run({.argv = ask, .environment = {"LC_ALL=C"}, .timeout = std::chrono::seconds(30)}));
  if (!done.succeeded() || done.output.empty()) {
    return make_error(Code::kNotBuilt, "C++ compiler {} (from {}): --version failed with exit code {}; {}",
                      name, source, done.exit_code, kAdvice);
  }
  return std::unique_ptr<Compiler>(
      std::make_unique<HostCompiler>(std::move(program), identity_from(done.output), output));
}

}  // namespace

std::vector<std::string> isa_flags(spec::Target target) {
  for (const TargetFlags& row : kTargetFlags) {
    if (row.target == target) {
      return words(row.flags);
    }
  }
  return {};
}

Result<std::unique_ptr<Compiler>> find_host_compiler(const HostCompilerOptions& options) {
  if (!options.program.empty()) {
    return make_compiler(options.program, "the options", options.output);
  }
  for (const char* variable : {"SCALEGEMM_CXX", "CXX"}) {
    if (const char* value = std::getenv(variable); value != nullptr && value[0] != '\0') {
      return make_compiler(value, variable, options.output);
    }
  }
  for (const char* name : {"g++", "clang++", "c++"}) {
    if (base::find_program(name)) {
      return make_compiler(name, "PATH", options.output);
    }
  }
  return make_error(Code::kNotBuilt, "no C++ compiler: tried g++, clang++ and c++ in PATH; {}", kAdvice);
}

}  // namespace scalegemm::toolchain
