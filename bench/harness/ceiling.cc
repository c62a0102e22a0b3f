#include "harness/ceiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "num/dtype.h"
#include "spec/kernel_spec.h"

namespace scalegemm::harness {
namespace {

// The type of the matrix unit that holds both exactly, as the probes name it; empty for f32. All fp8 types
// run at one rate, and so do the 16-bit ones.
std::string_view matrix_type(num::DType a, num::DType b) {
  const num::DTypeInfo& x = num::info(a);
  const num::DTypeInfo& y = num::info(b);
  if (std::max(x.bits, y.bits) > 16) {
    return "";
  }
  if (!x.is_float && !y.is_float) {
    return "int8";
  }
  const auto fits_fp8 = [](const num::DTypeInfo& t) { return t.bits == 4 || (t.bits == 8 && t.is_float); };
  return fits_fp8(x) && fits_fp8(y) ? "e4m3" : "bf16";
}

double matrix_rate(std::string_view type, const Ceilings& ceilings) {
  double best = 0;
  for (const Ceiling& c : ceilings) {
    if (!type.empty() && c.name.starts_with(fmt::format("{}_n", type)) && c.name.ends_with("_normal")) {
      best = std::max(best, c.value);
    }
  }
  return best;
}

bool differ(double x, double y) {
  return std::abs(x - y) > kMoved * std::max(x, y);
}

}  // namespace

double rate_of(const Ceilings& ceilings, std::string_view name) {
  const auto found =
      std::find_if(ceilings.begin(), ceilings.end(), [&](const Ceiling& c) { return c.name == name; });
  return found != ceilings.end() ? found->value : 0;
}

double compute_ceiling(const std::string& kernel, const Ceilings& ceilings) {
  const Result<spec::KernelSpec> spec = spec::parse(kernel);
  if (!spec.ok()) {
    return 0;
  }
  switch (spec->pipeline) {
    case spec::Pipeline::kF32Fma:
      return std::max(rate_of(ceilings, "f32_fma"), rate_of(ceilings, "f32_fma_fed"));
    case spec::Pipeline::kI8Dot:
      return std::max(rate_of(ceilings, "int8_dot"), rate_of(ceilings, "int8_dot_fed"));
    case spec::Pipeline::kBf16Dot:
      return rate_of(ceilings, "bf16_dot");
    default:
      return spec->a && spec->b ? matrix_rate(matrix_type(*spec->a, *spec->b), ceilings) : 0;
  }
}

double read_time_us(double bytes, const Ceilings& ceilings) {
  double known_bytes = 0;  // the largest measured read below, at first an empty launch
  double known_us = 0;
  for (const Ceiling& c : ceilings) {
    if (c.name == "read" && c.bytes == 0) {
      return c.value > 0 ? bytes / (c.value * 1e3) : 0;
    }
    if (c.name == "launch") {
      known_us = c.value;
    }
    if (c.name == "read") {
      const auto size = static_cast<double>(c.bytes);
      const double us = size / (c.value * 1e3);
      if (bytes <= size) {
        return known_us + (us - known_us) * (bytes - known_bytes) / (size - known_bytes);
      }
      known_bytes = size;
      known_us = us;
    }
  }
  return known_bytes > 0 ? known_us * bytes / known_bytes : 0;
}

double share_of_ceiling(const Work& work, const Ceilings& ceilings) {
  const double compute = compute_ceiling(work.kernel, ceilings);
  const double compute_us = compute > 0 ? work.operations / (compute * 1e3) : 0;
  return std::max(compute_us, read_time_us(work.bytes, ceilings)) / work.microseconds;
}

std::optional<double> CeilingPair::share(const Work& work) const {
  const double first = share_of_ceiling(work, before);
  const double second = share_of_ceiling(work, after);
  return differ(first, second) ? std::nullopt : std::optional(std::min(first, second));
}

std::vector<std::string> CeilingPair::moved() const {
  std::vector<std::string> list;
  for (const Ceiling& c : before) {
    const double now = rate_of(after, c.name);
    if (c.name != "launch" && differ(c.value, now)) {
      list.push_back(fmt::format("{} {:.4g} -> {:.4g} {}", c.name, c.value, now, c.unit));
    }
  }
  return list;
}

}  // namespace scalegemm::harness
