// The generated registry as the store sees it.
#include <cstddef>

#include "store/builtin.h"

extern "C" {
// In registry.S: rows of BuiltinKernel, and a string or null.
extern const scalegemm::store::BuiltinKernel scalegemm_builtin_begin[];
extern const scalegemm::store::BuiltinKernel scalegemm_builtin_end[];
extern const char* const scalegemm_builtin_bundle;
}

namespace scalegemm::store {

// registry_text() in builder.cc writes eight words a row, in this order.
static_assert(offsetof(BuiltinKernel, name) == 0 && offsetof(BuiltinKernel, source_id) == 8 &&
              offsetof(BuiltinKernel, id) == 24 && offsetof(BuiltinKernel, table) == 40 &&
              offsetof(BuiltinKernel, code_begin) == 48 && offsetof(BuiltinKernel, code_end) == 56 &&
              sizeof(BuiltinKernel) == 64);
static_assert(offsetof(base::Hash128, high) == 0 && offsetof(base::Hash128, low) == 8);

std::span<const BuiltinKernel> builtin_kernels() {
  return {scalegemm_builtin_begin, scalegemm_builtin_end};
}

const char* bundle_name() {
  return scalegemm_builtin_bundle;
}

}  // namespace scalegemm::store
