#include "store/cpu_code.h"

#include "cpu/abi.h"

namespace scalegemm::store {

Result<CpuCode> CpuCode::load(std::string_view bytes, const std::string& symbol, const std::string& name) {
  CpuCode code;
  SCALEGEMM_ASSIGN_OR_RETURN(code.library_, base::DynLib::open_bytes(bytes, name));
  const SgCpuKernel* (*table)() = nullptr;
  if (!code.library_.function(symbol.c_str(), &table).ok()) {
    return make_error(Code::kCorruptData, "kernel {}: its code does not export {}", name, symbol);
  }
  code.kernel_ = table();
  const SgCpuKernel* kernel = code.kernel_;
  if (kernel == nullptr || kernel->abi_version != SG_CPU_ABI_VERSION) {
    return make_error(Code::kCorruptData, "kernel {}: needs a table of ABI version {}, has {}", name,
                      SG_CPU_ABI_VERSION, kernel == nullptr ? 0 : kernel->abi_version);
  }
  if (kernel->name == nullptr || name != kernel->name) {
    return make_error(Code::kCorruptData, "kernel {}: its code says it is {}", name,
                      kernel->name == nullptr ? "nothing" : kernel->name);
  }
  if (kernel->workspace_bytes == nullptr || kernel->scratch_bytes == nullptr ||
      kernel->prepare_units == nullptr || kernel->prepare == nullptr || kernel->compute_units == nullptr ||
      kernel->compute == nullptr) {
    return make_error(Code::kCorruptData, "kernel {}: a function of its table is missing", name);
  }
  return code;
}

}  // namespace scalegemm::store
