#include "gen/cuda_units.h"

#include <string>

namespace scalegemm::gen {

Result<KernelSource> probe_unit(spec::Target target) {
  const std::string symbol = fmt::format("scalegemm_probe_{}", spec::target_name(target));
  std::string text = fmt::format("#include \"cuda/probe.cuh\"\nSCALEGEMM_PROBE_MEMORY({})\n", symbol);
  if (target == spec::Target::kSm90a) {
    text += fmt::format("SCALEGEMM_PROBE_MATRIX({})\n", symbol);
  }
  return make_unit(symbol, symbol, std::move(text));
}

}  // namespace scalegemm::gen
