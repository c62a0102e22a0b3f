#include "arch/targets.h"

namespace scalegemm::arch {
namespace {

using enum base::CpuFeature;

// Every target has the features of the one before it and some more.
constexpr base::CpuFeature kFeatures[] = {kAvx2,       kFma,        kF16c,      kBmi2,
                                          kAvx512f,    kAvx512bw,   kAvx512dq,  kAvx512vl,
                                          kAvx512vnni, kAvx512vbmi, kAvx512bf16};

}  // namespace

std::span<const base::CpuFeature> required_features(Target target) {
  const std::span all(kFeatures);
  switch (target) {
    case Target::kX86V3:
      return all.first(4);
    case Target::kAvx512:
      return all.first(9);
    case Target::kAvx512Bf16:
      return all;
    default:
      return {};
  }
}

bool runs_on(Target target, const base::CpuInfo& cpu) {
  for (base::CpuFeature feature : required_features(target)) {
    if (!cpu.has(feature)) {
      return false;
    }
  }
  return spec::is_cpu(target);
}

}  // namespace scalegemm::arch
