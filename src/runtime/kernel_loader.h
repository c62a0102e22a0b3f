// From a KernelSpec to running code: built in, else from the disk cache, else compiled now.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "device/cuda/kernel.h"
#include "gen/generate.h"
#include "runtime/executable.h"
#include "spec/kernel_spec.h"
#include "store/store.h"
#include "toolchain/compiler.h"

namespace scalegemm::runtime {

using CudaCode = std::shared_ptr<const device::cuda::Kernel>;

enum class Jit { kAllowed, kForbidden };

// Thread-safe. Each kernel is loaded once and stays loaded as long as anybody holds its code.
class KernelLoader {
 public:
  KernelLoader(std::string cache_dir, Jit jit);

  // kNotBuilt with what to do when the kernel is not built in and cannot be compiled.
  Result<CpuCode> load(const spec::KernelSpec& spec);
  Result<CudaCode> load(const spec::KernelSpec& spec,
                        const std::shared_ptr<const device::cuda::Device>& device);

  // Compiles and stores the kernel although it may be built in. Needs no device.
  Status build(const spec::KernelSpec& spec);

  bool is_built_in(const gen::KernelSource& source) const;
  // The identity under which the kernel is (or would be) cached; fails without a compiler.
  Result<base::Hash128> id(const spec::KernelSpec& spec, const gen::KernelSource& source);

  store::Store& store() { return store_; }
  const store::Store& store() const { return store_; }
  // What went wrong without stopping anything, each once: a disk cache that could not be used, flags that the
  // compiler refused.
  std::vector<std::string> warnings() const;

 private:
  using Find = Result<std::unique_ptr<toolchain::Compiler>> (*)();
  // Found at first need, under mutex_.
  struct Found {
    Find find;
    std::optional<Result<std::unique_ptr<toolchain::Compiler>>> compiler;
  };

  Result<const toolchain::Compiler*> compiler(spec::Target target);
  void warn(std::string text);
  // Machine code that is not linked in: from the disk cache, or compiled now.
  Result<std::shared_ptr<const std::string>> code(const spec::KernelSpec& spec,
                                                  const gen::KernelSource& source);
  Result<CpuCode> load_cpu(const spec::KernelSpec& spec);

  const Jit jit_;
  store::Store store_;
  mutable std::mutex mutex_;
  std::map<std::string, CpuCode, std::less<>> loaded_;  // by name, under mutex_
  std::map<std::pair<std::string, int>, CudaCode, std::less<>>
      on_device_;  // by name and ordinal, under mutex_
  Found host_;
  Found nvrtc_;
  std::set<std::string> warnings_;  // under mutex_
};

}  // namespace scalegemm::runtime
