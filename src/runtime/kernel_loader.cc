#include "runtime/kernel_loader.h"

#include <utility>

#include "store/builtin.h"
#include "store/cpu_code.h"
#include "toolchain/host_compiler.h"

namespace scalegemm::runtime {

KernelLoader::KernelLoader(std::string cache_dir, Jit jit)
    : jit_(jit),
      store_(cache_dir.empty() ? store::default_folder() : std::move(cache_dir)),
      compiler_(Status(Code::kNotBuilt, "no compiler was looked for")) {}

Result<const toolchain::Compiler*> KernelLoader::compiler() {
  const std::lock_guard lock(mutex_);
  if (!looked_for_compiler_) {
    looked_for_compiler_ = true;
    compiler_ = toolchain::find_host_compiler();
  }
  if (!compiler_.ok()) {
    return compiler_.status();
  }
  return compiler_->get();
}

bool KernelLoader::is_built_in(const gen::KernelSource& source) const {
  return store::find_builtin(store::builtin_kernels(), source.source_id) != nullptr;
}

Result<base::Hash128> KernelLoader::id(const spec::KernelSpec& spec, const gen::KernelSource& source) {
  SCALEGEMM_ASSIGN_OR_RETURN(const toolchain::Compiler* cxx, compiler());
  SCALEGEMM_ASSIGN_OR_RETURN(const toolchain::Flags flags, cxx->flags(spec.target));
  return gen::kernel_id(source.source_id, cxx->identity(), flags.accepted);
}

Result<CpuCode> KernelLoader::load(const spec::KernelSpec& spec) {
  const std::string name = spec::name(spec);
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = loaded_.find(name); it != loaded_.end()) {
      return it->second;
    }
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource source, gen::generate(spec));
  CpuCode code;
  if (const auto* built_in = store::find_builtin(store::builtin_kernels(), source.source_id)) {
    code.kernel = built_in->table();
  } else if (jit_ == Jit::kForbidden) {
    return make_error(Code::kNotBuilt,
                      "kernel {} is not built in, and compiling at run time is switched off (jit)", name);
  } else {
    SCALEGEMM_ASSIGN_OR_RETURN(code, compile(spec, source));
  }
  const std::lock_guard lock(mutex_);
  return loaded_.emplace(name, std::move(code)).first->second;
}

Result<CpuCode> KernelLoader::build(const spec::KernelSpec& spec) {
  SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource source, gen::generate(spec));
  return compile(spec, source);
}

Result<CpuCode> KernelLoader::compile(const spec::KernelSpec& spec, const gen::KernelSource& source) {
  auto cxx = compiler();
  if (!cxx.ok()) {
    return cxx.status().with_context(
        fmt::format("kernel {} is not built in and must be compiled", source.name));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const base::Hash128 id, this->id(spec, source));
  SCALEGEMM_ASSIGN_OR_RETURN(
      const store::KernelCode stored, store_.get_or_build(id, source.name, [&]() -> Result<std::string> {
        SCALEGEMM_ASSIGN_OR_RETURN(toolchain::CodeObject object, (*cxx)->compile({.name = source.name,
                                                                                  .text = source.text,
                                                                                  .includes = source.includes,
                                                                                  .target = spec.target}));
        return std::move(object.bytes);
      }));
  if (!stored.warning.ok()) {
    const std::lock_guard lock(mutex_);
    cache_warning_ = stored.warning.message();
  }
  SCALEGEMM_ASSIGN_OR_RETURN(store::CpuCode loaded,
                             store::CpuCode::load(*stored.bytes, source.symbol, source.name));
  auto owner = std::make_shared<const store::CpuCode>(std::move(loaded));
  return CpuCode{.kernel = &owner->kernel(), .owner = owner};
}

std::string KernelLoader::cache_warning() const {
  const std::lock_guard lock(mutex_);
  return cache_warning_;
}

}  // namespace scalegemm::runtime
