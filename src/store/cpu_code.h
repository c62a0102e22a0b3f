// A CPU kernel loaded from compiled code.
#pragma once

#include <string>
#include <string_view>

#include "base/dynlib.h"
#include "base/status.h"

struct SgCpuKernel;

namespace scalegemm::store {

// Keeps the code mapped: kernel() is valid as long as this object lives. Movable; the table stays where it
// is.
class CpuCode {
 public:
  // Loads a shared object from memory and checks its table: `symbol` must be there and return a table of this
  // library's ABI version with the name `name` and no null function. kCorruptData with what was found
  // otherwise. The code is trusted from then on.
  static Result<CpuCode> load(std::string_view bytes, const std::string& symbol, const std::string& name);

  const SgCpuKernel& kernel() const { return *kernel_; }

 private:
  base::DynLib library_;
  const SgCpuKernel* kernel_ = nullptr;
};

}  // namespace scalegemm::store
