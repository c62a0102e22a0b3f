// For tests that need a CUDA device.
#pragma once

#include <gtest/gtest.h>

#include "device/cuda/device.h"

namespace scalegemm::harness {

inline bool has_gpu() {
  static const bool kFound = device::cuda::Device::all().ok();
  return kFound;
}

#define REQUIRE_GPU()                                    \
  do {                                                   \
    if (!::scalegemm::harness::has_gpu()) {              \
      GTEST_SKIP() << "NOT TESTED: no CUDA device here"; \
    }                                                    \
  } while (0)

}  // namespace scalegemm::harness
