#include "harness/ceiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

double share_of_ceiling(const Work& work, const scalegemm_ceilings& ceilings) {
  const double compute = compute_ceiling(work.kernel, ceilings);
  const double compute_ns = compute > 0 ? work.operations / compute : 0;
  const double read_ns = ceilings.read_gbps > 0 ? work.bytes / ceilings.read_gbps : 0;
  return std::max(compute_ns, read_ns) / (work.microseconds * 1e3);
}

namespace {

bool differ(double x, double y) {
  return std::abs(x - y) > kMoved * std::max(x, y);
}

}  // namespace

std::optional<double> CeilingPair::share(const Work& work) const {
  const double first = share_of_ceiling(work, before);
  const double second = share_of_ceiling(work, after);
  return differ(first, second) ? std::nullopt : std::optional(std::min(first, second));
}

std::vector<std::string> CeilingPair::moved() const {
  constexpr struct {
    double scalegemm_ceilings::*rate;
    const char* name;
    const char* unit;
  } kProbes[] = {{&scalegemm_ceilings::f32_fma_gflops, "f32 FMA", "GFLOP/s"},
                 {&scalegemm_ceilings::f32_fma_fed_gflops, "f32 FMA fed", "GFLOP/s"},
                 {&scalegemm_ceilings::bf16_dot_gflops, "bf16 dot", "GFLOP/s"},
                 {&scalegemm_ceilings::int8_dot_gops, "int8 dot", "GOP/s"},
                 {&scalegemm_ceilings::int8_dot_fed_gops, "int8 dot fed", "GOP/s"},
                 {&scalegemm_ceilings::read_gbps, "read", "GB/s"}};
  std::vector<std::string> list;
  for (const auto& probe : kProbes) {
    if (differ(before.*probe.rate, after.*probe.rate)) {
      list.push_back(fmt::format("{} {:.4g} -> {:.4g} {}", probe.name, before.*probe.rate, after.*probe.rate,
                                 probe.unit));
    }
  }
  return list;
}

}  // namespace scalegemm::harness
