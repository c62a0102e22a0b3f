// Text from a file, made safe to show.
#pragma once

#include <string>
#include <string_view>

namespace scalegemm::checkpoint {

// `text` in single quotes with every quote and every byte outside printable ASCII as \xNN, cut after `limit`
// bytes (then "..."). Names come from strangers: they must not steer a terminal or flood a log.
std::string printable(std::string_view text, size_t limit = 120);

}  // namespace scalegemm::checkpoint
