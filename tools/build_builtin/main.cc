// build_builtin: makes the kernels that are linked into the library. Run by the build, not by users.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/files.h"
#include "builder.h"
#include "manifest.h"

namespace {

namespace bb = scalegemm::build_builtin;
using scalegemm::Status;

constexpr uint64_t kLargestManifest = uint64_t{1} << 20;

Status run(const std::vector<std::string>& manifests, const bb::BuildOptions& options) {
  std::vector<scalegemm::spec::KernelSpec> specs;
  for (const std::string& manifest : manifests) {
    SCALEGEMM_ASSIGN_OR_RETURN(const std::string text,
                               scalegemm::base::read_file(manifest, kLargestManifest));
    SCALEGEMM_ASSIGN_OR_RETURN(const auto listed, bb::read_manifest(text, manifest));
    specs.insert(specs.end(), listed.begin(), listed.end());
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const auto units, bb::units_of(specs));
  SCALEGEMM_ASSIGN_OR_RETURN(const auto kernels, bb::build(units, options));
  const auto compiled = std::count_if(kernels.begin(), kernels.end(),
                                      [](const bb::BuiltKernel& kernel) { return !kernel.from_cache; });
  fmt::print("{} built-in kernels, {} compiled now\n", kernels.size(), compiled);
  return scalegemm::ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Builds the kernels of manifests into an archive, data and a registry.");
  std::vector<std::string> manifests;
  bb::BuildOptions options;
  app.add_option("--manifest", manifests, "TOML file that lists kernels; repeatable")->required();
  app.add_option("--out", options.out, "Folder for kernels.a, cubins.S and registry.cc")->required();
  app.add_option("--cache", options.cache, "Folder of compiled kernels, shared by builds; OUT/cache");
  app.add_option("--compiler", options.compiler, "C++ compiler, with a launcher before it if wanted");
  app.add_option("--archiver", options.archiver, "ar or compatible");
  app.add_option("--nvrtc", options.nvrtc, "NVRTC library (libnvrtc.so.13), for CUDA kernels");
  app.add_option("--jobs", options.jobs, "Compilers at a time")->check(CLI::Range(1, 256));
  app.add_option("--flag", options.extra_flags, "One more compiler flag, as --flag=-g; repeatable");
  CLI11_PARSE(app, argc, argv);
  if (const Status status = run(manifests, options); !status.ok()) {
    fmt::print(stderr, "build_builtin: {}\n", status.message());
    return 1;
  }
  return 0;
}
