#include "store/builtin.h"

#include <algorithm>

namespace scalegemm::store {

const BuiltinKernel* find_builtin(std::span<const BuiltinKernel> kernels, const base::Hash128& source_id) {
  const auto found = std::lower_bound(
      kernels.begin(), kernels.end(), source_id,
      [](const BuiltinKernel& kernel, const base::Hash128& wanted) { return kernel.source_id < wanted; });
  return found != kernels.end() && found->source_id == source_id ? &*found : nullptr;
}

}  // namespace scalegemm::store
