// Compiles kernels ahead of time and writes their registry, which the library (main.cc) or a bundle
// (tools/bundle) links.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "gen/generate.h"
#include "spec/kernel_spec.h"

namespace scalegemm::build_builtin {

struct Unit {
  gen::KernelSource source;
  spec::Target target;
};

struct BuiltKernel {
  std::string name;
  std::string symbol;
  spec::Target target;
  base::Hash128 source_id;
  base::Hash128 id = {};
  std::shared_ptr<const std::string> code;  // a relocatable object, or a cubin on CUDA targets
  std::string compiler;                     // its identity
  std::vector<std::string> flags;           // as hashed into the id
  bool from_cache = false;
  double seconds = 0;  // to have it, from wherever
};

struct CompileOptions {
  std::string cache;     // folder of compiled kernels
  std::string compiler;  // program, or program and arguments ("ccache g++"); empty: found
  std::string nvrtc;     // the NVRTC library for CUDA kernels; empty: found, where a unit needs it
  std::vector<std::string> extra_flags = {};  // after the target's own, of CPU kernels (sanitizers)
  int jobs = 2;
  // Called after every kernel, from one thread at a time, with how many are done; false: stop.
  std::function<bool(const BuiltKernel& kernel, size_t done)> done = {};
};

// The units of the specs, and those that every CUDA target of theirs needs besides (gen/cuda_units.h); each
// once.
Result<std::vector<Unit>> units_of(const std::vector<spec::KernelSpec>& specs);

// The kernels in the order of the units. Those whose id is in the cache are not compiled again, so a build
// that was stopped goes on where it was.
Result<std::vector<BuiltKernel>> compile(const std::vector<Unit>& units, const CompileOptions& options);

// The assembler text that defines what store::builtin_kernels() and store::bundle_name() return: rows, names,
// and the cubins as data, read from <folder>/<symbol>.cubin. `bundle` is empty for the library itself.
std::string registry_text(std::vector<BuiltKernel> kernels, const std::string& folder,
                          std::string_view bundle);

// Writes every kernel as <folder>/<symbol>.o or .cubin. Files that would not change are not written, so that
// nothing that depends on them is rebuilt.
Status write_objects(const std::vector<BuiltKernel>& kernels, const std::string& folder);
Status write_if_changed(const std::string& path, std::string_view content);

// "<symbol>.o" or "<symbol>.cubin".
std::string object_name(const BuiltKernel& kernel);

}  // namespace scalegemm::build_builtin
