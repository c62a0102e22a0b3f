#include "gen/cuda_units.h"

namespace scalegemm::gen {

Result<KernelSource> relayout_unit(spec::Target target) {
  const std::string name = fmt::format("relayout_{}", spec::target_name(target));
  return make_unit(name, name,
                   fmt::format("#include \"cuda/relayout.cuh\"\nSCALEGEMM_KERNEL_RELAYOUT({})\n", name));
}

Result<std::vector<KernelSource>> support_units(spec::Target target) {
  std::vector<KernelSource> units;
  SCALEGEMM_ASSIGN_OR_RETURN(KernelSource relayout, relayout_unit(target));
  units.push_back(std::move(relayout));
  return units;
}

}  // namespace scalegemm::gen
