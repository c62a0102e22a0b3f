#include "base/dynlib.h"

#include <dlfcn.h>

namespace scalegemm::base {

Result<DynLib> DynLib::open(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return make_error(Code::kNotBuilt, "cannot open library {}: {}", name,
                      reason != nullptr ? reason : "no reason given");
  }
  DynLib library;
  library.handle_ = handle;
  return library;
}

DynLib::~DynLib() {
  if (handle_ != nullptr) {
    ::dlclose(handle_);
  }
}

DynLib& DynLib::operator=(DynLib&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void* DynLib::symbol(const char* name) const {
  return handle_ != nullptr ? ::dlsym(handle_, name) : nullptr;
}

}  // namespace scalegemm::base
