#include "spec/target.h"

namespace scalegemm::spec {

std::string known_targets() {
  std::string text;
  for (const TargetName& row : kTargets) {
    text += text.empty() ? "" : ", ";
    text += row.name;
  }
  return text;
}

Result<Target> parse_target(std::string_view text) {
  for (const TargetName& row : kTargets) {
    if (text == row.name || text == row.token) {
      return row.target;
    }
  }
  return unsupported("target: needed one of {}; given \"{}\"", known_targets(), text);
}

}  // namespace scalegemm::spec
