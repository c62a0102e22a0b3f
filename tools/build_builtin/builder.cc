#include "builder.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <span>

#include "base/files.h"
#include "base/thread_pool.h"
#include "gen/cuda_units.h"
#include "store/store.h"
#include "toolchain/host_compiler.h"
#include "toolchain/nvrtc.h"

namespace scalegemm::build_builtin {
namespace {

namespace fs = std::filesystem;
using toolchain::Compiler;

constexpr uint64_t kLargestFile = uint64_t{1} << 30;

// What all compiles share.
struct Session {
  const CompileOptions& options;
  const Compiler* host;   // null: no unit needs it
  const Compiler* nvrtc;  // the same
  store::Store& cache;
  std::mutex mutex;
  size_t done = 0;  // under mutex
  std::atomic<bool> stopped{false};

  void report(const BuiltKernel& kernel) {
    const std::lock_guard lock(mutex);
    ++done;
    if (options.done && !options.done(kernel, done)) {
      stopped = true;
    }
  }
};

Result<BuiltKernel> build_one(const Unit& unit, Session* session) {
  const gen::KernelSource& source = unit.source;
  const bool cuda = spec::is_cuda(unit.target);
  const Compiler& compiler = cuda ? *session->nvrtc : *session->host;
  SCALEGEMM_ASSIGN_OR_RETURN(const toolchain::Flags flags, compiler.flags(unit.target));
  const std::vector<std::string> extra = cuda ? std::vector<std::string>() : session->options.extra_flags;

  BuiltKernel kernel{.name = source.name,
                     .symbol = source.symbol,
                     .target = unit.target,
                     .source_id = source.source_id,
                     .code = {},
                     .compiler = compiler.identity(),
                     .flags = flags.accepted};
  kernel.flags.insert(kernel.flags.end(), extra.begin(), extra.end());
  kernel.id = gen::kernel_id(source.source_id, kernel.compiler, kernel.flags);
  const auto begin = std::chrono::steady_clock::now();
  SCALEGEMM_ASSIGN_OR_RETURN(
      store::KernelCode code,
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
  kernel.code = std::move(code.bytes);
  kernel.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  session->report(kernel);
  return kernel;
}

}  // namespace

Status write_if_changed(const std::string& path, std::string_view content) {
  if (const auto before = base::read_file(path, kLargestFile); before.ok() && *before == content) {
    return ok_status();
  }
  return base::atomic_publish(path, std::span(&content, 1), base::Access::kUmask);
}

std::string object_name(const BuiltKernel& kernel) {
  return fmt::format("{}.{}", kernel.symbol, spec::is_cuda(kernel.target) ? "cubin" : "o");
}

Status write_objects(const std::vector<BuiltKernel>& kernels, const std::string& folder) {
  SCALEGEMM_RETURN_IF_ERROR(base::make_dirs(folder));
  for (const BuiltKernel& kernel : kernels) {
    SCALEGEMM_RETURN_IF_ERROR(
        write_if_changed(fmt::format("{}/{}", folder, object_name(kernel)), *kernel.code));
  }
  return ok_status();
}

std::string registry_text(std::vector<BuiltKernel> kernels, const std::string& folder,
                          std::string_view bundle) {
  std::sort(kernels.begin(), kernels.end(),
            [](const BuiltKernel& a, const BuiltKernel& b) { return a.source_id < b.source_id; });
  std::string data = "    .section .rodata\n";
  std::string rows =
      "    .section .data.rel.ro,\"aw\",@progbits\n    .balign 8\n"
      "    .globl scalegemm_builtin_begin, scalegemm_builtin_end, scalegemm_builtin_bundle\n"
      "    .hidden scalegemm_builtin_begin, scalegemm_builtin_end, scalegemm_builtin_bundle\n"
      "scalegemm_builtin_begin:\n";
  for (const BuiltKernel& kernel : kernels) {
    const auto& symbol = kernel.symbol;
    const bool cuda = spec::is_cuda(kernel.target);
    data += fmt::format(".L{}_name:\n    .string \"{}\"\n", symbol, kernel.name);
    if (cuda) {
      // With the id: another cubin is another text.
      data += fmt::format(
          "    .balign 16\n.L{0}_begin:\n    .incbin \"{1}/{2}\" # {3}\n.L{0}_end:\n    .byte 0\n", symbol,
          folder, object_name(kernel), kernel.id.hex());
    }
    rows += fmt::format("    .quad .L{}_name, 0x{:016x}, 0x{:016x}, 0x{:016x}, 0x{:016x}, {}\n", symbol,
                        kernel.source_id.high, kernel.source_id.low, kernel.id.high, kernel.id.low,
                        cuda ? fmt::format("0, .L{0}_begin, .L{0}_end", symbol) : symbol + ", 0, 0");
  }
  data += bundle.empty() ? "" : fmt::format(".Lbundle:\n    .string \"{}\"\n", bundle);
  return fmt::format(
      "# Generated by tools/build_builtin.\n{}{}scalegemm_builtin_end:\nscalegemm_builtin_bundle:\n    .quad "
      "{}\n"
      "    .section .note.GNU-stack,\"\",%progbits\n",
      data, rows, bundle.empty() ? "0" : ".Lbundle");
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

Result<std::vector<BuiltKernel>> compile(const std::vector<Unit>& units, const CompileOptions& options) {
  const auto any = [&units](auto&& kind) {
    return std::any_of(units.begin(), units.end(), [&](const Unit& unit) { return kind(unit.target); });
  };
  std::unique_ptr<Compiler> host;
  if (any(spec::is_cpu)) {
    SCALEGEMM_ASSIGN_OR_RETURN(host, toolchain::find_host_compiler({.output = toolchain::CodeKind::kObject,
                                                                    .program = options.compiler}));
  }
  std::unique_ptr<Compiler> nvrtc;
  if (any(spec::is_cuda)) {
    std::vector<std::string> folders;
    if (!options.nvrtc.empty()) {
      folders.push_back(fs::path(options.nvrtc).parent_path().string());
    }
    SCALEGEMM_ASSIGN_OR_RETURN(nvrtc, toolchain::find_nvrtc(folders));
  }
  store::Store cache(options.cache);
  Session session{.options = options, .host = host.get(), .nvrtc = nvrtc.get(), .cache = cache, .mutex = {}};

  std::vector<BuiltKernel> kernels(units.size());
  std::vector<Status> failures(units.size());
  base::ThreadPool pool(options.jobs);
  pool.parallel_for(static_cast<int64_t>(units.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end) && !session.stopped; ++i) {
      auto kernel = build_one(units[i], &session);
      if (kernel.ok()) {
        kernels[i] = *std::move(kernel);
      } else {
        failures[i] = kernel.status();
        session.stopped = true;
      }
    }
  });
  for (const Status& failure : failures) {
    SCALEGEMM_RETURN_IF_ERROR(failure);
  }
  if (session.stopped && session.done < units.size()) {
    return make_error(Code::kInternal, "stopped after {} of {} kernels", session.done, units.size());
  }
  return kernels;
}

}  // namespace scalegemm::build_builtin
