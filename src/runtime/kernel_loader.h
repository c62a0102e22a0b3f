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

  // The code of any CUDA unit on a device, not only of a GEMM.
  Result<std::shared_ptr<const device::cuda::LoadedModule>> load_module(
      const gen::KernelSource& source, const std::shared_ptr<const device::cuda::Device>& device);

  // Compiles and stores the kernel although it may be built in. Needs no device.
  Status build(const spec::KernelSpec& spec);

  bool is_built_in(const gen::KernelSource& source) const;
  // May kernels of the target be compiled here? Else why not and what to do.
  Status can_compile(spec::Target target);
  // The identity under which the kernel is (or would be) cached; fails without a compiler.
  Result<base::Hash128> id(const gen::KernelSource& source, spec::Target target);

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
  // Null when it is not on the device yet.
  std::shared_ptr<const device::cuda::LoadedModule> loaded_module(const std::string& name,
                                                                  const device::cuda::Device& device) const;
  void warn(std::string text);
  // Machine code that is not linked in: from the disk cache, or compiled now.
  Result<std::shared_ptr<const std::string>> code(const gen::KernelSource& source, spec::Target target);
  Result<CpuCode> load_cpu(const spec::KernelSpec& spec);

  const Jit jit_;
  store::Store store_;
  mutable std::mutex mutex_;
  std::map<std::string, CpuCode, std::less<>> loaded_;  // by name, under mutex_
  // By name and ordinal, under mutex_.
  std::map<std::pair<std::string, int>, std::shared_ptr<const device::cuda::LoadedModule>> on_device_;
  std::map<std::pair<std::string, int>, CudaCode> kernels_;
  Found host_;
  Found nvrtc_;
  std::set<std::string> warnings_;  // under mutex_
};

}  // namespace scalegemm::runtime
