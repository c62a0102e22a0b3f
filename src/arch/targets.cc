#include "arch/targets.h"

namespace scalegemm::arch {
namespace {

using enum base::CpuFeature;

constexpr base::CpuFeature kV3[] = {kAvx2, kFma, kF16c, kBmi2};
constexpr base::CpuFeature kAvx512[] = {kAvx2,     kFma,      kF16c,     kBmi2,      kAvx512f,
                                        kAvx512bw, kAvx512dq, kAvx512vl, kAvx512vnni};
constexpr base::CpuFeature kBf16[] = {kAvx2,     kFma,      kF16c,     kBmi2,       kAvx512f,
                                      kAvx512bw, kAvx512dq, kAvx512vl, kAvx512vnni, kAvx512bf16};
constexpr base::CpuFeature kFp16[] = {kAvx2,     kFma,      kF16c,       kBmi2,       kAvx512f,   kAvx512bw,
                                      kAvx512dq, kAvx512vl, kAvx512vnni, kAvx512bf16, kAvx512fp16};

}  // namespace

std::span<const base::CpuFeature> required_features(Target target) {
  switch (target) {
    case Target::kX86V3:
      return kV3;
    case Target::kAvx512:
      return kAvx512;
    case Target::kAvx512Bf16:
      return kBf16;
    case Target::kAvx512Fp16:
      return kFp16;
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
