// Decline: why a kernel does not take a problem, or why a spec may not exist. A value, not an error.
#pragma once

#include <fmt/format.h>

#include <string>

namespace scalegemm::spec {

struct Decline {
  std::string kernel;  // its name, or of what it was a candidate; may be empty while a rule is judged
  std::string rule;    // "i8dot: type of A"
  std::string needed;  // "int8, int4, uint4 or e2m1"
  std::string got;     // "bf16"

  bool operator==(const Decline&) const = default;
};

inline std::string to_string(const Decline& d) {
  return fmt::format("{}{}{}: needed {}; got {}", d.kernel, d.kernel.empty() ? "" : ": ", d.rule, d.needed,
                     d.got);
}

}  // namespace scalegemm::spec
