// Measured instruction rates, kept on disk beside the kernels.
//
// A text file a processor: "target f32_fma bf16dp i8dot read" a line, numbers in 10^9 a second. A file that
// does not parse to the last byte counts as absent: measuring again costs 0.1 s.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/device_desc.h"

namespace scalegemm::runtime {

// Where the rates of a processor are kept; empty without a folder.
std::string rates_path(const std::string& folder, std::string_view model);

std::vector<spec::TargetRates> read_rates(const std::string& path);
Status write_rates(const std::string& path, const std::vector<spec::TargetRates>& rates);

}  // namespace scalegemm::runtime
