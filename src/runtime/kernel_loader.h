// From a KernelSpec to running code: built in, else from the disk cache, else compiled now.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "gen/generate.h"
#include "runtime/plan.h"
#include "spec/kernel_spec.h"
#include "store/store.h"
#include "toolchain/compiler.h"

namespace scalegemm::runtime {

enum class Jit { kAllowed, kForbidden };

// Thread-safe. Each kernel is loaded once and stays loaded as long as anybody holds its code.
class KernelLoader {
 public:
  KernelLoader(std::string cache_dir, Jit jit);

  // kNotBuilt with what to do when the kernel is not built in and cannot be compiled.
  Result<CpuCode> load(const spec::KernelSpec& spec);

  // Compiles and stores the kernel although it may be built in.
  Result<CpuCode> build(const spec::KernelSpec& spec);

  bool is_built_in(const gen::KernelSource& source) const;
  // The identity under which the kernel is (or would be) cached; fails without a compiler.
  Result<base::Hash128> id(const spec::KernelSpec& spec, const gen::KernelSource& source);

  store::Store& store() { return store_; }
  const store::Store& store() const { return store_; }
  // The latest reason why the disk cache could not be used; "" when it could.
  std::string cache_warning() const;

 private:
  Result<const toolchain::Compiler*> compiler();
  Result<CpuCode> compile(const spec::KernelSpec& spec, const gen::KernelSource& source);

  const Jit jit_;
  store::Store store_;
  mutable std::mutex mutex_;
  std::map<std::string, CpuCode, std::less<>> loaded_;     // by name, under mutex_
  Result<std::unique_ptr<toolchain::Compiler>> compiler_;  // found at first need, under mutex_
  bool looked_for_compiler_ = false;
  std::string cache_warning_;
};

}  // namespace scalegemm::runtime
