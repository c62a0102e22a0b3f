// An explanation for programs.
#pragma once

#include <string>

#include "dispatch/dispatch.h"

namespace scalegemm::runtime {

// {"problem", "device", "packing", "chosen", "candidates": [{"kernel", "predicted_us", "tuned_us", ...}],
//  "declines": [{"kernel", "rule", "needed", "got"}], "notes"}; docs/cli.md has the schema.
std::string to_json(const dispatch::Explanation& explanation);

}  // namespace scalegemm::runtime
