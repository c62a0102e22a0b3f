// Builds a bundle: compiles the plan's kernels, links them with the library and writes the files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "builder.h"
#include "plan.h"

namespace scalegemm::bundle {

struct BuildOptions {
  std::string folder;         // of the bundle
  std::string_view manifest;  // its text
  // After every kernel, how many are done; false: stop. What is compiled stays in the kernel cache.
  std::function<bool(const build_builtin::BuiltKernel& kernel, size_t done, size_t total)> done = {};
};

struct BuiltFile {
  std::string path;  // in the folder
  size_t bytes = 0;
};

struct Built {
  std::vector<build_builtin::BuiltKernel> kernels;
  std::vector<std::string> exports;
  std::vector<BuiltFile> files;
};

// Files that would not change are not written; a library that the manifest no longer asks for is removed;
// manifest.json is written last. Nothing is written when a kernel does not compile or the budget is exceeded
// (kUnsupported, with the largest kernels).
Result<Built> build(const Plan& plan, const BuildOptions& options);

}  // namespace scalegemm::bundle
