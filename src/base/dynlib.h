// A shared library opened at run time: device drivers, NVRTC, compiled kernels.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/status.h"

namespace scalegemm::base {

// Whoever holds a pointer into a library must hold the DynLib too. Symbols stay local to the library
// (RTLD_LOCAL), so two kernels cannot see each other's.
class DynLib {
 public:
  // `name` is a path, or a file name that the loader searches. kNotBuilt with the loader's reason when it
  // cannot be opened. It stays mapped until the process ends: drivers and NVRTC leak when they are unloaded,
  // and opening NVRTC once more takes 15 ms.
  static Result<DynLib> open(const std::string& name);

  // A library that exists only in memory: needs no writable folder and leaves no file. `name` is for
  // messages and debuggers. The bytes are copied; kCorruptData when they are not a whole ELF file. Its
  // constructors run: pass only what a compiler of ours made or what a verified cache entry holds. Unmapped
  // with the DynLib.
  static Result<DynLib> open_bytes(std::string_view bytes, const std::string& name);

  DynLib() = default;
  ~DynLib();
  DynLib(DynLib&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), memory_(std::move(other.memory_)) {}
  DynLib& operator=(DynLib&& other) noexcept;

  // The address of an exported symbol, or null.
  void* symbol(const char* name) const;

  // The same as a typed function pointer; kNotBuilt when it is missing.
  template <class Function>
  Status function(const char* name, Function** out) const {
    *out = reinterpret_cast<Function*>(symbol(name));
    return *out != nullptr ? ok_status() : make_error(Code::kNotBuilt, "symbol {} is missing", name);
  }

 private:
  void* handle_ = nullptr;
  UniqueFd memory_;  // of open_bytes
};

}  // namespace scalegemm::base
