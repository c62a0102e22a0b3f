// Compiles the built-in kernels and writes what the library links: an archive of CPU objects, CUDA cubins as
// data, and a registry of both.
#pragma once

#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "gen/generate.h"
#include "spec/kernel_spec.h"

namespace scalegemm::build_builtin {

struct BuildOptions {
  std::string out;       // folder: <out>/kernels.a, registry.cc, cubins.S, objects
  std::string cache;     // folder of compiled kernels; empty: <out>/cache
  std::string compiler;  // program, or program and arguments ("ccache g++"); empty: found
  std::string archiver = "ar";
  std::string nvrtc;                     // the NVRTC library for CUDA kernels; empty: they are refused
  std::vector<std::string> extra_flags;  // after the target's own (sanitizers)
  int jobs = 2;
};

struct Unit {
  gen::KernelSource source;
  spec::Target target;
};

struct BuiltKernel {
  std::string name;
  std::string symbol;
  bool cuda = false;  // its code is <out>/objects/<symbol>.cubin, else <out>/objects/<symbol>.o
  base::Hash128 source_id;
  base::Hash128 id = {};
  bool from_cache = false;
};

// Kernels whose id is in <out>/cache are not compiled again. Files that would not change are not written, so
// that nothing that depends on them is rebuilt. Prints a line for every kernel that it compiles.
Result<std::vector<BuiltKernel>> build(const std::vector<Unit>& units, const BuildOptions& options);

// The units of the specs, and those that every CUDA target of theirs needs besides (gen/cuda_units.h).
Result<std::vector<Unit>> units_of(const std::vector<spec::KernelSpec>& specs);

// The C++ text that defines store::builtin_kernels().
std::string registry_text(std::vector<BuiltKernel> kernels);

// The assembler text that makes every cubin read-only data.
std::string cubins_text(const std::vector<BuiltKernel>& kernels, const std::string& objects);

}  // namespace scalegemm::build_builtin
