// Facts about the library and the machine as JSON, the same wherever they appear (docs/cli.md).
#pragma once

#include "app.h"

namespace scalegemm::cli {

Json json_of(const scalegemm_device_info& device);
// threads 0: of a GPU, which has none.
Json json_of(const std::vector<Ceiling>& ceilings, const std::string& device, int32_t threads);
Json json_of(const scalegemm_operand_desc& operand);
Json json_of(const scalegemm_packed_info& packed);

std::vector<scalegemm_toolchain_info> toolchains(const Runtime& runtime);
Json json_of(const scalegemm_toolchain_info& toolchain);

std::vector<scalegemm_scheme_info> schemes();

// "e2m1, e8m0 scales of 1 x 32" and the like.
std::string describe(const scalegemm_operand_desc& operand);

}  // namespace scalegemm::cli
