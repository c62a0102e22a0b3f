// The text of manifests/tuned.csv, embedded when the library was built.
#pragma once

#include <string_view>

namespace scalegemm::dispatch {

std::string_view shipped_csv();

}  // namespace scalegemm::dispatch
