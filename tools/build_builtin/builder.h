// Compiles the built-in kernels and writes what the library links: an archive of objects and a registry.
#pragma once

#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "spec/kernel_spec.h"

namespace scalegemm::build_builtin {

struct BuildOptions {
  std::string out;       // folder: <out>/kernels.a, <out>/registry.cc, <out>/cache, <out>/objects
  std::string compiler;  // program, or program and arguments ("ccache g++"); empty: found
  std::string archiver = "ar";
  std::vector<std::string> extra_flags;  // after the target's own (sanitizers)
  int jobs = 2;
};

struct BuiltKernel {
  std::string name;
  std::string symbol;
  base::Hash128 source_id;
  base::Hash128 id = {};
  bool from_cache = false;
};

// Kernels whose id is in <out>/cache are not compiled again. Files that would not change are not written, so
// that nothing that depends on them is rebuilt. Prints a line for every kernel that it compiles.
Result<std::vector<BuiltKernel>> build(const std::vector<spec::KernelSpec>& specs,
                                       const BuildOptions& options);

// The C++ text that defines store::builtin_kernels().
std::string registry_text(std::vector<BuiltKernel> kernels);

}  // namespace scalegemm::build_builtin
