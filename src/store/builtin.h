// The kernels that are linked into the library, by the same generator and compiler flags as kernels compiled
// at run time: those of manifests/builtin.toml (tools/build_builtin), or of a bundle's manifest
// (tools/bundle).
#pragma once

#include <span>
#include <string_view>

#include "base/hash.h"

struct SgCpuKernel;

namespace scalegemm::store {

struct BuiltinKernel {
  const char* name;                  // of the KernelSpec; for people
  base::Hash128 source_id;           // gen::KernelSource::source_id: spec, generated source, kernel sources
  base::Hash128 id;                  // source_id with the compiler and flags it was built with
  const SgCpuKernel* (*table)();     // of a CPU kernel, else null
  const char* code_begin = nullptr;  // of a CUDA kernel: its cubin
  const char* code_end = nullptr;

  std::string_view cubin() const { return {code_begin, static_cast<size_t>(code_end - code_begin)}; }
};

// Every built-in kernel, ordered by source_id: the rows of the generated registry that is linked in
// (tools/build_builtin/builder.h).
std::span<const BuiltinKernel> builtin_kernels();

// The namespace of the bundle that this copy of the library was linked into; null in the ordinary library.
// A bundle holds the kernels that its manifest selects, and compiles none.
const char* bundle_name();

// The one made from exactly this source, or null. By content, not by name: a library never runs a built-in
// kernel whose template has changed since.
const BuiltinKernel* find_builtin(std::span<const BuiltinKernel> kernels, const base::Hash128& source_id);

}  // namespace scalegemm::store
