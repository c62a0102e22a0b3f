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

Status run(const std::string& manifest, const bb::BuildOptions& options) {
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string text, scalegemm::base::read_file(manifest, kLargestManifest));
  SCALEGEMM_ASSIGN_OR_RETURN(const auto specs, bb::read_manifest(text, manifest));
  SCALEGEMM_ASSIGN_OR_RETURN(const auto kernels, bb::build(specs, options));
  const auto compiled = std::count_if(kernels.begin(), kernels.end(),
                                      [](const bb::BuiltKernel& kernel) { return !kernel.from_cache; });
  fmt::print("{} built-in kernels, {} compiled now\n", kernels.size(), compiled);
  return scalegemm::ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Builds the kernels of a manifest into an archive and a registry.");
  std::string manifest;
  bb::BuildOptions options;
  app.add_option("--manifest", manifest, "TOML file that lists the kernels")->required();
  app.add_option("--out", options.out, "Folder for kernels.a and registry.cc")->required();
  app.add_option("--compiler", options.compiler, "C++ compiler, with a launcher before it if wanted");
  app.add_option("--archiver", options.archiver, "ar or compatible");
  app.add_option("--jobs", options.jobs, "Compilers at a time")->check(CLI::Range(1, 256));
  app.add_option("--flag", options.extra_flags, "One more compiler flag, as --flag=-g; repeatable");
  CLI11_PARSE(app, argc, argv);
  if (const Status status = run(manifest, options); !status.ok()) {
    fmt::print(stderr, "build_builtin: {}\n", status.message());
    return 1;
  }
  return 0;
}
