#include "harness/ceiling.h"

#include <algorithm>

#include "spec/kernel_spec.h"

namespace scalegemm::harness {

double compute_ceiling(const std::string& kernel, const scalegemm_ceilings& ceilings) {
  const Result<spec::KernelSpec> spec = spec::parse(kernel);
  if (!spec.ok()) {
    return 0;
  }
  switch (spec->pipeline) {
    case spec::Pipeline::kF32Fma:
      return std::max(ceilings.f32_fma_gflops, ceilings.f32_fma_fed_gflops);
    case spec::Pipeline::kI8Dot:
      return std::max(ceilings.int8_dot_gops, ceilings.int8_dot_fed_gops);
    case spec::Pipeline::kBf16Dot:
      return ceilings.bf16_dot_gflops;
    default:
      return 0;
  }
}

Rates rates_of(double operations, double bytes, double microseconds, const std::string& kernel,
               const scalegemm_ceilings& ceilings) {
  const double nanoseconds = microseconds * 1e3;
  const double compute = compute_ceiling(kernel, ceilings);
  const double compute_ns = compute > 0 ? operations / compute : 0;
  const double read_ns = ceilings.read_gbps > 0 ? bytes / ceilings.read_gbps : 0;
  return {operations / nanoseconds, bytes / nanoseconds, std::max(compute_ns, read_ns) / nanoseconds};
}

}  // namespace scalegemm::harness
