#include "runtime/kernel_loader.h"

#include <utility>

#include "store/builtin.h"
#include "store/cpu_code.h"
#include "toolchain/host_compiler.h"
#include "toolchain/nvrtc.h"

namespace scalegemm::runtime {

namespace {

Result<std::unique_ptr<toolchain::Compiler>> find_host() {
  return toolchain::find_host_compiler();
}
Result<std::unique_ptr<toolchain::Compiler>> find_cuda() {
  return toolchain::find_nvrtc();
}

}  // namespace

KernelLoader::KernelLoader(std::string cache_dir, Jit jit)
    : jit_(store::bundle_name() == nullptr ? jit : Jit::kForbidden),
      store_(cache_dir.empty() ? store::default_folder() : std::move(cache_dir)),
      host_{find_host, {}},
      nvrtc_{find_cuda, {}} {}

Result<const toolchain::Compiler*> KernelLoader::compiler(spec::Target target) {
  if (!spec::is_cpu(target) && !spec::is_cuda(target)) {
    return make_error(Code::kNotBuilt, "target {}: this library has no compiler for it",
                      spec::target_name(target));
  }
  const std::lock_guard lock(mutex_);
  Found& found = spec::is_cpu(target) ? host_ : nvrtc_;
  if (!found.compiler) {
    found.compiler.emplace(found.find());
  }
  if (!found.compiler->ok()) {
    return found.compiler->status();
  }
  return (*found.compiler)->get();
}

bool KernelLoader::is_built_in(const gen::KernelSource& source) const {
  return store::find_builtin(store::builtin_kernels(), source.source_id) != nullptr;
}

Status KernelLoader::can_compile(spec::Target target) {
  if (const char* bundle = store::bundle_name(); bundle != nullptr) {
    return make_error(
        Code::kNotBuilt,
        "bundle {} holds the kernels that its manifest selects and compiles none: add this one to the "
        "manifest and build it again",
        bundle);
  }
  if (jit_ == Jit::kForbidden) {
    return make_error(Code::kNotBuilt, "compiling at run time is switched off (jit)");
  }
  return compiler(target).status();
}

Result<base::Hash128> KernelLoader::id(const gen::KernelSource& source, spec::Target target) {
  SCALEGEMM_ASSIGN_OR_RETURN(const toolchain::Compiler* c, compiler(target));
  SCALEGEMM_ASSIGN_OR_RETURN(const toolchain::Flags flags, c->flags(target));
  return gen::kernel_id(source.source_id, c->identity(), flags.accepted);
}

Result<CpuCode> KernelLoader::load(const spec::KernelSpec& spec) {
  const std::string name = spec::name(spec);
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = loaded_.find(name); it != loaded_.end()) {
      return it->second;
    }
  }
  SCALEGEMM_ASSIGN_OR_RETURN(CpuCode loaded, load_cpu(spec));
  const std::lock_guard lock(mutex_);
  return loaded_.emplace(name, std::move(loaded)).first->second;
}

Result<CpuCode> KernelLoader::load_cpu(const spec::KernelSpec& spec) {
  SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource source, gen::generate(spec));
  if (const auto* built_in = store::find_builtin(store::builtin_kernels(), source.source_id)) {
    return CpuCode{.kernel = built_in->table(), .owner = nullptr};
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const auto bytes, code(source, spec.target));
  SCALEGEMM_ASSIGN_OR_RETURN(store::CpuCode loaded, store::CpuCode::load(*bytes, source.symbol, source.name));
  auto owner = std::make_shared<const store::CpuCode>(std::move(loaded));
  return CpuCode{.kernel = &owner->kernel(), .owner = owner};
}

std::shared_ptr<const device::cuda::LoadedModule> KernelLoader::loaded_module(
    const std::string& name, const device::cuda::Device& device) const {
  const std::lock_guard lock(mutex_);
  const auto it = on_device_.find(std::pair(name, device.ordinal()));
  return it != on_device_.end() ? it->second : nullptr;
}

Result<CudaCode> KernelLoader::load(const spec::KernelSpec& spec,
                                    const std::shared_ptr<const device::cuda::Device>& device) {
  const std::pair key(spec::name(spec), device->ordinal());
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = kernels_.find(key); it != kernels_.end()) {
      return it->second;
    }
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource source, gen::generate(spec));
  SCALEGEMM_ASSIGN_OR_RETURN(auto module, load_module(source, device));
  SCALEGEMM_ASSIGN_OR_RETURN(CudaCode kernel, device::cuda::Kernel::load(std::move(module), source.symbol));
  const std::lock_guard lock(mutex_);
  return kernels_.emplace(key, std::move(kernel)).first->second;
}

Result<std::shared_ptr<const device::cuda::LoadedModule>> KernelLoader::load_module(
    const gen::KernelSource& source, const std::shared_ptr<const device::cuda::Device>& device) {
  std::shared_ptr<const device::cuda::LoadedModule> module = loaded_module(source.name, *device);
  if (module != nullptr) {
    return module;
  }
  if (const auto* built_in = store::find_builtin(store::builtin_kernels(), source.source_id)) {
    SCALEGEMM_ASSIGN_OR_RETURN(module,
                               device::cuda::LoadedModule::load(device, std::string(built_in->cubin())));
  } else {
    const auto target = device->target();
    if (!target) {
      return unsupported("kernel {}: {} has no target here", source.name, device->properties().model);
    }
    SCALEGEMM_ASSIGN_OR_RETURN(const auto bytes, code(source, *target));
    SCALEGEMM_ASSIGN_OR_RETURN(module, device::cuda::LoadedModule::load(device, *bytes));
  }
  const std::lock_guard lock(mutex_);
  return on_device_.emplace(std::pair(source.name, device->ordinal()), std::move(module)).first->second;
}

Status KernelLoader::build(const spec::KernelSpec& spec) {
  SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource source, gen::generate(spec));
  return code(source, spec.target).status();
}

Result<std::shared_ptr<const std::string>> KernelLoader::code(const gen::KernelSource& source,
                                                              spec::Target target) {
  SCALEGEMM_RETURN_IF_ERROR(can_compile(target).with_context(
      fmt::format("kernel {} is not built in and must be compiled", source.name)));
  const auto found = compiler(target);
  SCALEGEMM_ASSIGN_OR_RETURN(const base::Hash128 id, this->id(source, target));
  SCALEGEMM_ASSIGN_OR_RETURN(const toolchain::Flags flags, (*found)->flags(target));
  if (!flags.dropped.empty()) {
    warn(fmt::format("compiler: {} does not take {}: kernels are compiled without", (*found)->identity(),
                     fmt::join(flags.dropped, " ")));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(
      store::KernelCode stored, store_.get_or_build(id, source.name, [&]() -> Result<std::string> {
        SCALEGEMM_ASSIGN_OR_RETURN(toolchain::CodeObject object,
                                   (*found)->compile({.name = source.name,
                                                      .text = source.text,
                                                      .includes = source.includes,
                                                      .target = target,
                                                      .instruction = source.instruction}));
        return std::move(object.bytes);
      }));
  if (!stored.warning.ok()) {
    warn(stored.warning.message());
  }
  return std::move(stored.bytes);
}

void KernelLoader::warn(std::string text) {
  const std::lock_guard lock(mutex_);
  warnings_.insert(std::move(text));
}

std::vector<std::string> KernelLoader::warnings() const {
  const std::lock_guard lock(mutex_);
  return {warnings_.begin(), warnings_.end()};
}

}  // namespace scalegemm::runtime
