#include "runtime/rates_file.h"

#include <array>
#include <cmath>
#include <sstream>

#include "base/files.h"
#include "base/hash.h"

namespace scalegemm::runtime {
namespace {

constexpr uint64_t kMaxBytes = 4096;
constexpr std::string_view kFirstLine = "scalegemm-rates 1";

bool plausible(double rate) {
  return std::isfinite(rate) && rate >= 0 && rate < 1e7;
}

}  // namespace

std::string rates_path(const std::string& folder, std::string_view model) {
  return folder.empty() ? "" : fmt::format("{}/rates-{}.txt", folder, base::hash128(model).hex());
}

std::vector<spec::TargetRates> read_rates(const std::string& path) {
  if (path.empty()) {
    return {};
  }
  const auto text = base::read_file(path, kMaxBytes);
  if (!text.ok()) {
    return {};
  }
  std::istringstream lines(*text);
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) {
    return {};
  }
  std::vector<spec::TargetRates> out;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string name;
    spec::CpuRates r;
    std::string rest;
    if (!(fields >> name >> r.f32_fma_gflops >> r.bf16dp_gflops >> r.i8dot_gops >> r.read_gbps) ||
        fields >> rest) {
      return {};
    }
    const auto target = spec::parse_target(name);
    if (!target.ok() || !plausible(r.f32_fma_gflops) || !plausible(r.bf16dp_gflops) ||
        !plausible(r.i8dot_gops) || !plausible(r.read_gbps)) {
      return {};
    }
    out.push_back({.target = *target, .rates = r});
  }
  return out;
}

Status write_rates(const std::string& path, const std::vector<spec::TargetRates>& rates) {
  if (path.empty()) {
    return ok_status();
  }
  std::string text = fmt::format("{}\n", kFirstLine);
  for (const spec::TargetRates& row : rates) {
    text += fmt::format("{} {:.1f} {:.1f} {:.1f} {:.2f}\n", spec::target_name(row.target),
                        row.rates.f32_fma_gflops, row.rates.bf16dp_gflops, row.rates.i8dot_gops,
                        row.rates.read_gbps);
  }
  SCALEGEMM_RETURN_IF_ERROR(base::make_dirs(path.substr(0, path.rfind('/'))));
  const std::array<std::string_view, 1> parts = {text};
  return base::atomic_publish(path, parts);
}

}  // namespace scalegemm::runtime
