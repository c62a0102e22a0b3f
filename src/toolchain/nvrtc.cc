#include "toolchain/nvrtc.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/dynlib.h"

namespace scalegemm::toolchain {
namespace {

namespace fs = std::filesystem;
using base::DynLib;

constexpr const char* kAdvice =
    "install the CUDA toolkit 12.0 or later, or the Python package nvidia-cuda-nvrtc, or set SCALEGEMM_NVRTC "
    "to libnvrtc.so";

// NVRTC 12 and 13, "NVRTC (Runtime Compilation)" documentation, Basic Usage and chapter 3.
using Program = struct OpaqueProgram*;
using ResultCode = int;
constexpr ResultCode kSuccess = 0;
constexpr ResultCode kErrorCompilation = 6;

struct Api {
  ResultCode (*version)(int* major, int* minor);
  const char* (*error_string)(ResultCode);
  ResultCode (*create)(Program*, const char* source, const char* name, int header_count,
                       const char* const* headers, const char* const* include_names);
  ResultCode (*destroy)(Program*);
  ResultCode (*compile)(Program, int option_count, const char* const* options);
  ResultCode (*log_size)(Program, size_t*);
  ResultCode (*log)(Program, char*);
  ResultCode (*cubin_size)(Program, size_t*);
  ResultCode (*cubin)(Program, char*);
  ResultCode (*ptx_size)(Program, size_t*);
  ResultCode (*ptx)(Program, char*);
};

struct OpenLibrary {
  DynLib library;
  std::string location;  // what was opened: a path, or a name that the loader found
};

Result<Api> load_api(const DynLib& library) {
  Api api{};
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcVersion", &api.version));
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcGetErrorString", &api.error_string));
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcCreateProgram", &api.create));
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcDestroyProgram", &api.destroy));
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcCompileProgram", &api.compile));
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcGetProgramLogSize", &api.log_size));
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcGetProgramLog", &api.log));
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcGetCUBINSize", &api.cubin_size));
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcGetCUBIN", &api.cubin));
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcGetPTXSize", &api.ptx_size));
  SCALEGEMM_RETURN_IF_ERROR(library.function("nvrtcGetPTX", &api.ptx));
  return api;
}

struct TargetFlag {
  spec::Target target;
  const char* flag;
};
constexpr std::array<TargetFlag, 3> kTargetFlags = {{{spec::Target::kSm80, "--gpu-architecture=sm_80"},
                                                     {spec::Target::kSm89, "--gpu-architecture=sm_89"},
                                                     {spec::Target::kSm90a, "--gpu-architecture=sm_90a"}}};
// Both are needed, so there is nothing to probe: a compilation without them fails and says so.
constexpr const char* kNeeded = "--std=c++20";
// Makes the assembler say what a kernel uses; changes no code, so it is part of no id.
constexpr const char* kVerbose = "--ptxas-options=-v";

class Nvrtc final : public Compiler {
 public:
  Nvrtc(OpenLibrary library, Api api, std::string identity)
      : library_(std::move(library.library)),
        location_(std::move(library.location)),
        api_(api),
        identity_(std::move(identity)) {}

  const std::string& identity() const override { return identity_; }
  std::string location() const override { return location_; }
  Result<Flags> flags(spec::Target target) const override;
  Result<CodeObject> compile(const CompileJob& job) const override;

 private:
  struct Output {
    ResultCode code = kSuccess;
    std::string cubin;
    std::string ptx;
    std::string log;
  };
  Result<Output> compile_with(const CompileJob& job, const std::vector<std::string>& options) const;
  Status failure(const std::string& what, ResultCode code) const {
    return make_error(Code::kCompileFailed, "{}: {}: {}", identity_, what, api_.error_string(code));
  }

  DynLib library_;
  std::string location_;
  Api api_;
  std::string identity_;
};

Result<Nvrtc::Output> Nvrtc::compile_with(const CompileJob& job,
                                          const std::vector<std::string>& options) const {
  // NVRTC wants terminated strings; the views of a job need not be.
  const std::string text(job.text);
  std::vector<std::string> storage;
  storage.reserve(2 * job.includes.size());
  std::vector<const char*> headers;
  std::vector<const char*> names;
  for (const base::SourceFile& file : job.includes) {
    headers.push_back(storage.emplace_back(file.content).c_str());
    names.push_back(storage.emplace_back(file.path).c_str());
  }
  Program program = nullptr;
  ResultCode code = api_.create(&program, text.c_str(), "kernel.cu", static_cast<int>(headers.size()),
                                headers.data(), names.data());
  if (code != kSuccess) {
    return failure("nvrtcCreateProgram", code);
  }
  std::vector<const char*> arguments;
  for (const std::string& option : options) {
    arguments.push_back(option.c_str());
  }
  Output output;
  output.code = api_.compile(program, static_cast<int>(arguments.size()), arguments.data());
  size_t size = 0;
  if (api_.log_size(program, &size) == kSuccess && size > 1) {
    output.log.resize(size);
    api_.log(program, output.log.data());
    output.log.resize(size - 1);  // the size counts the terminating zero
  }
  if (output.code == kSuccess) {
    code = api_.cubin_size(program, &size);
    if (code == kSuccess) {
      output.cubin.resize(size);
      code = api_.cubin(program, output.cubin.data());
    }
    if (code == kSuccess && !job.instruction.empty()) {
      code = api_.ptx_size(program, &size);
      output.ptx.resize(code == kSuccess ? size : 0);
      code = code == kSuccess ? api_.ptx(program, output.ptx.data()) : code;
    }
  }
  api_.destroy(&program);
  if (code != kSuccess) {
    return failure("nvrtcGetCUBIN, nvrtcGetPTX", code);
  }
  return output;
}

Result<Flags> Nvrtc::flags(spec::Target target) const {
  const auto row = std::find_if(kTargetFlags.begin(), kTargetFlags.end(),
                                [&](const TargetFlag& candidate) { return candidate.target == target; });
  if (row == kTargetFlags.end()) {
    return unsupported("{}: makes code for NVIDIA targets, not for {}", identity_, spec::target_name(target));
  }
  return Flags{{row->flag, kNeeded}, {}};
}

// The number before `unit` in the line of the assembler's report that has it; 0 without one.
int reported(std::string_view log, std::string_view unit) {
  int most = 0;
  for (size_t at = log.find(unit); at != log.npos; at = log.find(unit, at + 1)) {
    size_t first = at;
    while (first > 0 && (log[first - 1] == ' ' || (log[first - 1] >= '0' && log[first - 1] <= '9'))) {
      --first;
    }
    most = std::max(most, std::atoi(std::string(log.substr(first, at - first)).c_str()));
  }
  return most;
}

// Why the assembler's report condemns a kernel; empty when it does not.
std::string complaint(std::string_view log) {
  const int spilled = std::max(reported(log, "bytes spill stores"), reported(log, "bytes spill loads"));
  if (spilled > 0) {
    return fmt::format("it spills {} bytes of registers", spilled);
  }
  constexpr std::array<std::pair<const char*, const char*>, 3> kNotes = {{{"C7508", "setmaxnreg is ignored"},
                                                                          {"C7510", "wgmma is serialised"},
                                                                          {"C7514", "wgmma is serialised"}}};
  for (const auto& [note, meaning] : kNotes) {
    if (log.find(note) != log.npos) {
      return fmt::format("{} ({})", meaning, note);
    }
  }
  return "";
}

// What is left of a log without the report.
std::string without_report(std::string_view log) {
  std::string rest;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    if (!line.starts_with("ptxas info") && line.find("bytes stack frame") == line.npos) {
      rest += std::string(line) + "\n";
    }
    log.remove_prefix(std::min(log.size(), line.size() + 1));
  }
  return rest;
}

Result<CodeObject> Nvrtc::compile(const CompileJob& job) const {
  SCALEGEMM_ASSIGN_OR_RETURN(const Flags flags, this->flags(job.target));
  std::vector<std::string> options = flags.accepted;
  options.insert(options.end(), job.extra_flags.begin(), job.extra_flags.end());
  options.emplace_back(kVerbose);
  SCALEGEMM_ASSIGN_OR_RETURN(Output output, compile_with(job, options));
  if (output.code == kErrorCompilation) {
    return make_error(Code::kCompileFailed, "kernel {}: {} failed:\n{}", job.name, identity_,
                      trim_log(output.log));
  }
  if (output.code != kSuccess) {
    return failure("kernel " + job.name, output.code);
  }
  if (const std::string why = complaint(output.log); !why.empty()) {
    return make_error(Code::kCompileFailed, "kernel {}: {} made code that is not worth running: {}\n{}",
                      job.name, identity_, why, trim_log(output.log));
  }
  if (output.ptx.find(job.instruction) == std::string::npos) {
    return make_error(Code::kCompileFailed, "kernel {}: {} made code without {}", job.name, identity_,
                      job.instruction);
  }
  return CodeObject{.kind = CodeKind::kCubin,
                    .bytes = std::move(output.cubin),
                    .log = trim_log(without_report(output.log)),
                    .registers = reported(output.log, " registers")};
}

constexpr std::array<const char*, 2> kFileNames = {"libnvrtc.so.13", "libnvrtc.so.12"};

void add_wheels(const std::string& prefix, std::vector<std::string>* folders) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(prefix + "/lib", error)) {
    if (entry.path().filename().string().starts_with("python3")) {
      for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}) {
        folders->push_back((entry.path() / "site-packages" / wheel).string());
      }
    }
  }
}

// Where the toolkit and the wheels put it, after what the caller named and the loader's own path ("").
std::vector<std::string> search_folders(const std::vector<std::string>& first) {
  std::vector<std::string> folders = first;
  folders.emplace_back();
  std::vector<std::string> toolkits;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(variable); value != nullptr && value[0] == '/') {
      toolkits.emplace_back(value);
    }
  }
  toolkits.emplace_back("/usr/local/cuda");
  for (const std::string& toolkit : toolkits) {
    folders.push_back(toolkit + "/lib64");
    folders.push_back(toolkit + "/lib");
  }
  if (const char* environment = std::getenv("VIRTUAL_ENV"); environment != nullptr) {
    add_wheels(environment, &folders);
  }
  if (const char* home = std::getenv("HOME"); home != nullptr) {
    add_wheels(std::string(home) + "/.local", &folders);
  }
  return folders;
}

// NVRTC opens libnvrtc-builtins by its name alone when it first compiles, and is built without a path to the
// folder that both are in. A library that is open already is found by that name.
void open_builtins_beside(const std::string& library) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(library).parent_path(), error)) {
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so.")) {
      (void)DynLib::open(entry.path().string());  // stays mapped; without it a compilation says what failed
    }
  }
}

Result<OpenLibrary> open_nvrtc(const std::vector<std::string>& folders) {
  if (const char* file = std::getenv("SCALEGEMM_NVRTC"); file != nullptr && file[0] != '\0') {
    SCALEGEMM_ASSIGN_OR_RETURN(DynLib library, DynLib::open(file));
    open_builtins_beside(file);
    return OpenLibrary{std::move(library), file};
  }
  for (const std::string& folder : search_folders(folders)) {
    for (const char* name : kFileNames) {
      const std::string path = folder.empty() ? std::string(name) : fmt::format("{}/{}", folder, name);
      if (auto library = DynLib::open(path); library.ok()) {
        open_builtins_beside(path);
        return OpenLibrary{*std::move(library), path};
      }
    }
  }
  return make_error(Code::kNotBuilt, "NVRTC is not installed (libnvrtc.so.13 or .12); {}", kAdvice);
}

}  // namespace

Result<std::unique_ptr<Compiler>> find_nvrtc(const std::vector<std::string>& folders) {
  SCALEGEMM_ASSIGN_OR_RETURN(OpenLibrary opened, open_nvrtc(folders));
  SCALEGEMM_ASSIGN_OR_RETURN(const Api api, load_api(opened.library));
  int major = 0;
  int minor = 0;
  if (api.version(&major, &minor) != kSuccess || major < 12) {
    return make_error(Code::kNotBuilt, "NVRTC: needs version 12 or later, is {}.{}; {}", major, minor,
                      kAdvice);
  }
  return std::unique_ptr<Compiler>(
      std::make_unique<Nvrtc>(std::move(opened), api, fmt::format("nvrtc {}.{}", major, minor)));
}

}  // namespace scalegemm::toolchain
