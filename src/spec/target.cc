#include "spec/target.h"

#include <algorithm>

namespace scalegemm::spec {
namespace {

const TargetName* find_row(std::string_view text) {
  const auto row =
      std::ranges::find_if(kTargets, [&](const TargetName& r) { return text == r.name || text == r.token; });
  return row == kTargets.end() ? nullptr : &*row;
}

std::string names_of(auto wanted) {
  std::string text;
  for (const TargetName& row : kTargets) {
    if (wanted(row)) {
      text += text.empty() ? "" : ", ";
      text += row.name;
    }
  }
  return text;
}

}  // namespace

std::string known_targets() {
  return names_of([](const TargetName&) { return true; });
}

Result<Target> parse_cpu_target(std::string_view text) {
  const TargetName* row = find_row(text);
  if (row != nullptr && row->is_cpu) {
    return row->target;
  }
  return invalid_argument("needed one of {}; given \"{}\"",
                          names_of([](const TargetName& r) { return r.is_cpu; }), text);
}

Result<Target> parse_target(std::string_view text) {
  if (const TargetName* row = find_row(text)) {
    return row->target;
  }
  return unsupported("target: needed one of {}; given \"{}\"", known_targets(), text);
}

}  // namespace scalegemm::spec
