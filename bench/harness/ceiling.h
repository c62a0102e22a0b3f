// What a time is worth: operations, bytes, and the share of what this machine can do at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scalegemm/scalegemm.h"

namespace scalegemm::harness {

// What one call must do at least, and how long it took.
struct Work {
  std::string kernel;
  double operations = 0;  // 2 * batch * M * N * K
  double bytes = 0;       // that must be moved, scales counted
  double microseconds = 0;

  double gops() const { return operations / (microseconds * 1e3); }
  double gbps() const { return bytes / (microseconds * 1e3); }
};

// The compute ceiling (10^9 operations a second) of the route that the named kernel takes. 0 when the
// ceilings do not hold it.
double compute_ceiling(const std::string& kernel, const scalegemm_ceilings& ceilings);

// The time of the tighter ceiling over the measured time.
double share_of_ceiling(const Work& work, const scalegemm_ceilings& ceilings);

// Probes before and after what they judge. Where they disagree by more than kMoved, the machine was not the
// same and a share would say nothing.
inline constexpr double kMoved = 0.05;
struct CeilingPair {
  scalegemm_ceilings before{};
  scalegemm_ceilings after{};

  // The share of the higher ceiling; none when the two shares differ by more than kMoved.
  std::optional<double> share(const Work& work) const;
  // "read 20.3 -> 17.1 GB/s" of each probe that moved.
  std::vector<std::string> moved() const;
};

}  // namespace scalegemm::harness
