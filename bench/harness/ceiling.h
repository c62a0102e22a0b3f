// What a time is worth: operations, bytes, and the share of what this machine can do at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scalegemm/scalegemm.hpp"

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

using Ceilings = std::vector<Ceiling>;  // what Runtime::measure_ceilings gives

// The rate of that name; 0 when it was not measured.
double rate_of(const Ceilings& ceilings, std::string_view name);

// The compute ceiling (10^9 operations a second): on the CPU of the route that the named kernel takes, on
// CUDA the matrix rate of its operand types on normal data, whatever the kernel does between products. 0 when
// the ceilings do not hold it.
double compute_ceiling(const std::string& kernel, const Ceilings& ceilings);

// Microseconds that reading so many bytes takes: at one rate where there is one; where reads of several sizes
// were measured interpolated between them, from an empty launch on, and beyond the largest at its rate.
double read_time_us(double bytes, const Ceilings& ceilings);

// The time of the tighter ceiling over the measured time. Without a compute ceiling that of the read.
double share_of_ceiling(const Work& work, const Ceilings& ceilings);

// Probes before and after what they judge. Where they disagree by more than kMoved, the machine was not the
// same and a share would say nothing.
inline constexpr double kMoved = 0.05;
struct CeilingPair {
  Ceilings before;
  Ceilings after;

  // The share of the higher ceiling; none when the two shares differ by more than kMoved.
  std::optional<double> share(const Work& work) const;
  // "read 20.3 -> 17.1 GB/s" of each rate that moved.
  std::vector<std::string> moved() const;
};

}  // namespace scalegemm::harness
