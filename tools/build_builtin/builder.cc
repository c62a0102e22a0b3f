#include "builder.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <set>
#include <span>
#include <system_error>

#include "base/files.h"
#include "base/subprocess.h"
#include "base/thread_pool.h"
#include "gen/cuda_units.h"
#include "store/store.h"
#include "toolchain/host_compiler.h"
#include "toolchain/nvrtc.h"

namespace scalegemm::build_builtin {
namespace {

namespace fs = std::filesystem;
using toolchain::Compiler;

// Several times the whole set, so that switching between branches does not compile everything again.
constexpr uint64_t kCacheBytes = uint64_t{128} << 20;
constexpr uint64_t kLargestFile = uint64_t{1} << 30;

Status write_if_changed(const std::string& path, std::string_view content) {
  if (const auto before = base::read_file(path, kLargestFile); before.ok() && *before == content) {
    return ok_status();
  }
  return base::atomic_publish(path, std::span(&content, 1));
}

// What all compiles share.
struct Session {
  const BuildOptions& options;
  const Compiler& host;
  const Compiler* nvrtc;  // null: not there
  store::Store& cache;
  std::string objects;  // folder
  size_t total;
  std::mutex mutex;  // of the progress lines
  size_t done = 0;   // under mutex

  void report(const std::string& name, double seconds) {
    const std::lock_guard lock(mutex);
    ++done;
    if (seconds > 0) {
      fmt::print("[{}/{}] {} {:.1f} s\n", done, total, name, seconds);
      std::fflush(stdout);
    }
  }
};

std::string object_path(const std::string& folder, const BuiltKernel& kernel) {
  return fmt::format("{}/{}.{}", folder, kernel.symbol, kernel.cuda ? "cubin" : "o");
}

Result<BuiltKernel> build_one(const Unit& unit, Session* session) {
  const gen::KernelSource& source = unit.source;
  const bool cuda = spec::is_cuda(unit.target);
  if (cuda && session->nvrtc == nullptr) {
    return make_error(Code::kNotBuilt, "kernel {}: needs NVRTC (--nvrtc)", source.name);
  }
  const Compiler& compiler = cuda ? *session->nvrtc : session->host;
  SCALEGEMM_ASSIGN_OR_RETURN(const toolchain::Flags flags, compiler.flags(unit.target));
  std::vector<std::string> all_flags = flags.accepted;
  const std::vector<std::string> extra = cuda ? std::vector<std::string>() : session->options.extra_flags;
  all_flags.insert(all_flags.end(), extra.begin(), extra.end());

  BuiltKernel kernel{
      .name = source.name, .symbol = source.symbol, .cuda = cuda, .source_id = source.source_id};
  kernel.id = gen::kernel_id(source.source_id, compiler.identity(), all_flags);
  const auto begin = std::chrono::steady_clock::now();
  SCALEGEMM_ASSIGN_OR_RETURN(
      const store::KernelCode code,
      session->cache.get_or_build(kernel.id, kernel.name, [&]() -> Result<std::string> {
        SCALEGEMM_ASSIGN_OR_RETURN(toolchain::CodeObject object,
                                   compiler.compile({.name = source.name,
                                                     .text = source.text,
                                                     .includes = source.includes,
                                                     .target = unit.target,
                                                     .extra_flags = extra,
                                                     .instruction = source.instruction}));
        return std::move(object.bytes);
      }));
  kernel.from_cache = code.origin == store::Origin::kDisk;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  session->report(kernel.name, kernel.from_cache ? 0.0 : seconds.count());
  SCALEGEMM_RETURN_IF_ERROR(write_if_changed(object_path(session->objects, kernel), *code.bytes));
  return kernel;
}

Status write_archive(const std::vector<BuiltKernel>& kernels, const BuildOptions& options,
                     const std::string& objects) {
  const auto archiver = base::find_program(options.archiver);
  if (!archiver) {
    return make_error(Code::kNotBuilt, "archiver {}: not found; install binutils", options.archiver);
  }
  // Made under another name first: "ar" adds to an archive that exists, and dependents compare content.
  const std::string made = "kernels.new.a";
  ::unlink(fmt::format("{}/{}", options.out, made).c_str());
  std::vector<std::string> argv = {*archiver, "rcsD", made};  // D: no times, no user ids
  for (const BuiltKernel& kernel : kernels) {
    if (!kernel.cuda) {
      argv.push_back(object_path(fs::path(objects).filename().string(), kernel));
    }
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const base::Finished done,
                             base::run({.argv = std::move(argv), .working_folder = options.out}));
  if (!done.succeeded()) {
    return make_error(Code::kCompileFailed, "{} failed with exit code {}:\n{}", options.archiver,
                      done.exit_code, done.output);
  }
  const std::string made_path = fmt::format("{}/{}", options.out, made);
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string content, base::read_file(made_path, kLargestFile));
  ::unlink(made_path.c_str());
  return write_if_changed(options.out + "/kernels.a", content);
}

std::string hash_text(const base::Hash128& hash) {
  return fmt::format("{{0x{:016x}, 0x{:016x}}}", hash.high, hash.low);
}

}  // namespace

std::string registry_text(std::vector<BuiltKernel> kernels) {
  std::sort(kernels.begin(), kernels.end(),
            [](const BuiltKernel& a, const BuiltKernel& b) { return a.source_id < b.source_id; });
  std::string declarations;
  std::string rows;
  for (const BuiltKernel& kernel : kernels) {
    const auto& symbol = kernel.symbol;
    declarations +=
        kernel.cuda ? fmt::format("extern const char {0}_begin[];\nextern const char {0}_end[];\n", symbol)
                    : fmt::format("const SgCpuKernel* {}(void);\n", symbol);
    rows += fmt::format("    {{\"{}\",\n     {},\n     {},\n     {}}},\n", kernel.name,
                        hash_text(kernel.source_id), hash_text(kernel.id),
                        kernel.cuda ? fmt::format("nullptr, {0}_begin, {0}_end", symbol) : "&" + symbol);
  }
  return fmt::format(
      "// Generated from manifests/ by tools/build_builtin.\n"
      "#include \"store/builtin.h\"\n\n"
      "extern \"C\" {{\n{}}}\n\n"
      "namespace scalegemm::store {{\n\n"
      "std::span<const BuiltinKernel> builtin_kernels() {{\n"
      "  static constexpr BuiltinKernel kKernels[] = {{\n{}  }};\n"
      "  return kKernels;\n}}\n\n"
      "}}  // namespace scalegemm::store\n",
      declarations, rows);
}

std::string cubins_text(const std::vector<BuiltKernel>& kernels, const std::string& objects) {
  std::string text = "    .section .rodata\n";
  for (const BuiltKernel& kernel : kernels) {
    if (kernel.cuda) {
      text += fmt::format(
          "    .globl {0}_begin, {0}_end\n    .hidden {0}_begin, {0}_end\n    .balign 16\n"
          "{0}_begin:\n    .incbin \"{1}\" # {2}\n{0}_end:\n    .byte 0\n",
          kernel.symbol, object_path(objects, kernel),
          kernel.id.hex());  // the id: another cubin is another text
    }
  }
  return text + "    .section .note.GNU-stack,\"\",%progbits\n";
}

Result<std::vector<Unit>> units_of(const std::vector<spec::KernelSpec>& specs) {
  std::vector<Unit> units;
  std::set<spec::Target> gpus;
  for (const spec::KernelSpec& spec : specs) {
    SCALEGEMM_ASSIGN_OR_RETURN(gen::KernelSource source, gen::generate(spec));
    units.push_back({std::move(source), spec.target});
    if (spec::is_cuda(spec.target)) {
      gpus.insert(spec.target);
    }
  }
  for (const spec::Target target : gpus) {
    SCALEGEMM_ASSIGN_OR_RETURN(auto support, gen::support_units(target));
    for (gen::KernelSource& source : support) {
      units.push_back({std::move(source), target});
    }
  }
  // Manifests may share kernels.
  std::set<std::string> names;
  std::erase_if(units, [&names](const Unit& unit) { return !names.insert(unit.source.name).second; });
  return units;
}

Result<std::vector<BuiltKernel>> build(const std::vector<Unit>& units, const BuildOptions& options) {
  SCALEGEMM_ASSIGN_OR_RETURN(
      const std::unique_ptr<Compiler> compiler,
      toolchain::find_host_compiler({.output = toolchain::CodeKind::kObject, .program = options.compiler}));
  std::unique_ptr<Compiler> nvrtc;
  if (!options.nvrtc.empty()) {
    SCALEGEMM_ASSIGN_OR_RETURN(nvrtc,
                               toolchain::find_nvrtc({fs::path(options.nvrtc).parent_path().string()}));
  }
  const std::string objects = options.out + "/objects";
  SCALEGEMM_RETURN_IF_ERROR(base::make_dirs(objects));
  store::Store cache(options.cache.empty() ? options.out + "/cache" : options.cache);
  Session session{.options = options,
                  .host = *compiler,
                  .nvrtc = nvrtc.get(),
                  .cache = cache,
                  .objects = objects,
                  .total = units.size(),
                  .mutex = {}};

  std::vector<BuiltKernel> kernels(units.size());
  std::vector<Status> failures(units.size());
  std::atomic<bool> failed{false};
  base::ThreadPool pool(options.jobs);
  pool.parallel_for(static_cast<int64_t>(units.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end) && !failed; ++i) {
      auto kernel = build_one(units[i], &session);
      if (kernel.ok()) {
        kernels[i] = *std::move(kernel);
      } else {
        failures[i] = kernel.status();
        failed = true;
      }
    }
  });
  for (const Status& failure : failures) {
    SCALEGEMM_RETURN_IF_ERROR(failure);
  }
  SCALEGEMM_RETURN_IF_ERROR(write_archive(kernels, options, objects));
  SCALEGEMM_RETURN_IF_ERROR(write_if_changed(options.out + "/cubins.S", cubins_text(kernels, objects)));
  SCALEGEMM_RETURN_IF_ERROR(write_if_changed(options.out + "/registry.cc", registry_text(kernels)));
  SCALEGEMM_ASSIGN_OR_RETURN([[maybe_unused]] const uint64_t freed, cache.prune(kCacheBytes));
  return kernels;
}

}  // namespace scalegemm::build_builtin
