// What a GPU can do at most, measured with the kernels of kernels/cuda/probe.cuh.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "device/cuda/module.h"
#include "spec/device_desc.h"

namespace scalegemm::device::cuda {

// In this order, each the median of event-timed launches:
//   launch                    an empty kernel
//   read, for ten sizes       a cold read of so many bytes in one launch, the best of three grids
//   <matrix>_zeros, _normal   the rows of SG_PROBE_MATRIX on zeros and on normal data as the quantisers make
//                             it; sm_90a only
// Takes about 3 s and 2.3 GB of the device's memory.
Result<std::vector<spec::Ceiling>> measure_ceilings(const LoadedModule& module, const std::string& symbol);

}  // namespace scalegemm::device::cuda
