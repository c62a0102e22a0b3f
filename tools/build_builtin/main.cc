// build_builtin: makes the kernels that are linked into the library. Run by the build, not by users.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/files.h"
#include "base/subprocess.h"
#include "builder.h"
#include "manifest.h"
#include "store/store.h"

namespace {

namespace base = scalegemm::base;
namespace bb = scalegemm::build_builtin;
using scalegemm::Code;
using scalegemm::Status;

constexpr uint64_t kLargestManifest = uint64_t{1} << 20;
constexpr uint64_t kLargestArchive = uint64_t{1} << 30;

// Several times the whole set, so that switching between branches does not compile everything again.
constexpr uint64_t kCacheBytes = uint64_t{128} << 20;

struct Options {
  std::vector<std::string> manifests;
  std::string out;  // folder: <out>/kernels.a, registry.S, objects
  std::string archiver = "ar";
  bb::CompileOptions compile;
};

Status write_archive(const std::vector<bb::BuiltKernel>& kernels, const Options& options) {
  const auto archiver = base::find_program(options.archiver);
  if (!archiver) {
    return scalegemm::make_error(Code::kNotBuilt, "archiver {}: not found; install binutils",
                                 options.archiver);
  }
  // Made under another name first: "ar" adds to an archive that exists, and dependents compare content.
  const std::string made = "kernels.new.a";
  ::unlink(fmt::format("{}/{}", options.out, made).c_str());
  std::vector<std::string> argv = {*archiver, "rcsD", made};  // D: no times, no user ids
  for (const bb::BuiltKernel& kernel : kernels) {
    if (scalegemm::spec::is_cpu(kernel.target)) {
      argv.push_back("objects/" + bb::object_name(kernel));
    }
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const base::Finished done,
                             base::run({.argv = std::move(argv), .working_folder = options.out}));
  if (!done.succeeded()) {
    return scalegemm::make_error(Code::kCompileFailed, "{} failed with exit code {}:\n{}", options.archiver,
                                 done.exit_code, done.output);
  }
  const std::string made_path = fmt::format("{}/{}", options.out, made);
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string content, base::read_file(made_path, kLargestArchive));
  ::unlink(made_path.c_str());
  return bb::write_if_changed(options.out + "/kernels.a", content);
}

Status run(Options options) {
  std::vector<scalegemm::spec::KernelSpec> specs;
  for (const std::string& manifest : options.manifests) {
    SCALEGEMM_ASSIGN_OR_RETURN(const std::string text, base::read_file(manifest, kLargestManifest));
    SCALEGEMM_ASSIGN_OR_RETURN(const auto listed, bb::read_manifest(text, manifest));
    specs.insert(specs.end(), listed.begin(), listed.end());
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const auto units, bb::units_of(specs));
  if (options.compile.cache.empty()) {
    options.compile.cache = options.out + "/cache";
  }
  options.compile.done = [&units](const bb::BuiltKernel& kernel, size_t done) {
    if (!kernel.from_cache) {
      fmt::print("[{}/{}] {} {:.1f} s\n", done, units.size(), kernel.name, kernel.seconds);
      std::fflush(stdout);
    }
    return true;
  };
  SCALEGEMM_ASSIGN_OR_RETURN(const auto kernels, bb::compile(units, options.compile));
  const std::string objects = options.out + "/objects";
  SCALEGEMM_RETURN_IF_ERROR(bb::write_objects(kernels, objects));
  SCALEGEMM_RETURN_IF_ERROR(write_archive(kernels, options));
  SCALEGEMM_RETURN_IF_ERROR(
      bb::write_if_changed(options.out + "/registry.S", bb::registry_text(kernels, objects, "")));
  SCALEGEMM_ASSIGN_OR_RETURN([[maybe_unused]] const uint64_t freed,
                             scalegemm::store::Store(options.compile.cache).prune(kCacheBytes));
  const auto compiled = std::count_if(kernels.begin(), kernels.end(),
                                      [](const bb::BuiltKernel& kernel) { return !kernel.from_cache; });
  fmt::print("{} built-in kernels, {} compiled now\n", kernels.size(), compiled);
  return scalegemm::ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Builds the kernels of manifests into an archive, data and a registry.");
  Options options;
  bb::CompileOptions& compile = options.compile;
  app.add_option("--manifest", options.manifests, "TOML file that lists kernels; repeatable")->required();
  app.add_option("--out", options.out, "Folder for kernels.a and registry.S")->required();
  app.add_option("--cache", compile.cache, "Folder of compiled kernels, shared by builds; OUT/cache");
  app.add_option("--compiler", compile.compiler, "C++ compiler, with a launcher before it if wanted");
  app.add_option("--archiver", options.archiver, "ar or compatible");
  app.add_option("--nvrtc", compile.nvrtc, "NVRTC library (libnvrtc.so.13), for CUDA kernels");
  app.add_option("--jobs", compile.jobs, "Compilers at a time")->check(CLI::Range(1, 256));
  app.add_option("--flag", compile.extra_flags, "One more compiler flag, as --flag=-g; repeatable");
  CLI11_PARSE(app, argc, argv);
  if (const Status status = run(options); !status.ok()) {
    fmt::print(stderr, "build_builtin: {}\n", status.message());
    return 1;
  }
  return 0;
}
