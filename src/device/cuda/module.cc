#include "device/cuda/module.h"

namespace scalegemm::device::cuda {

Result<std::shared_ptr<const LoadedModule>> LoadedModule::load(std::shared_ptr<const Device> device,
                                                               const std::string& cubin) {
  std::shared_ptr<LoadedModule> module(new LoadedModule(std::move(device)));
  const Current current(module->device());
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  SCALEGEMM_RETURN_IF_ERROR(check(module->device().driver().module_load(&module->module_, cubin.c_str()),
                                  "loading a kernel", Code::kCorruptData));
  return std::shared_ptr<const LoadedModule>(std::move(module));
}

LoadedModule::~LoadedModule() {
  if (module_ != nullptr) {
    const Current current(*device_);
    device_->driver().module_unload(module_);
  }
}

Result<Function> LoadedModule::function(const std::string& symbol) const {
  const Current current(*device_);
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  Function function = nullptr;
  SCALEGEMM_RETURN_IF_ERROR(check(device_->driver().module_function(&function, module_, symbol.c_str()),
                                  "finding a kernel's entry point", Code::kCorruptData));
  return function;
}

Status LoadedModule::read(const std::string& symbol, void* to, size_t bytes) const {
  const Current current(*device_);
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  const Driver& d = device_->driver();
  Address at = 0;
  size_t found = 0;
  SCALEGEMM_RETURN_IF_ERROR(check(d.module_global(&at, &found, module_, symbol.c_str()),
                                  "finding a kernel's description", Code::kCorruptData));
  if (found != bytes) {
    return make_error(Code::kCorruptData, "kernel constant {}: must have {} bytes, has {}", symbol, bytes,
                      found);
  }
  return check(d.copy(reinterpret_cast<Address>(to), at, bytes), "reading a kernel's description",
               Code::kCorruptData);
}

}  // namespace scalegemm::device::cuda
