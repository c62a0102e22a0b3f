#include "checkpoint/printable.h"

#include <fmt/format.h>

namespace scalegemm::checkpoint {

std::string printable(std::string_view text, size_t limit) {
  std::string out = "'";
  for (const char c : text.substr(0, limit)) {
    if (c >= ' ' && c <= '~' && c != '\'') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  out += text.size() > limit ? "...'" : "'";
  return out;
}

}  // namespace scalegemm::checkpoint
