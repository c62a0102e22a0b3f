// What a time is worth: operations, bytes, and the share of what this machine can do at all.
#pragma once

#include <cstdint>
#include <string>

#include "scalegemm/scalegemm.h"

namespace scalegemm::harness {

struct Rates {
  double gops = 0;              // 2 * batch * M * N * K operations a time, 10^9 a second
  double gbps = 0;              // bytes that must be moved a time, scales counted
  double share_of_ceiling = 0;  // the time of the tighter ceiling over the measured time
};

// The compute ceiling (10^9 operations a second) of the route that the named kernel takes. 0 when the
// ceilings do not hold it.
double compute_ceiling(const std::string& kernel, const scalegemm_ceilings& ceilings);

Rates rates_of(double operations, double bytes, double microseconds, const std::string& kernel,
               const scalegemm_ceilings& ceilings);

}  // namespace scalegemm::harness
