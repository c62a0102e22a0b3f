#include "toolchain/compiler.h"

#include <algorithm>

namespace scalegemm::toolchain {
namespace {

constexpr size_t kLongestLine = 240;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (const std::string_view line = text.substr(0, end); !line.empty()) {
      lines.push_back(line);
    }
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return lines;
}

}  // namespace

std::string trim_log(std::string_view log, int max_lines) {
  const std::vector<std::string_view> lines = lines_of(log);
  const auto is_error = [](std::string_view line) { return line.find("error") != std::string_view::npos; };
  auto line = std::find_if(lines.begin(), lines.end(), is_error);
  if (line == lines.end()) {
    line = lines.begin();
  }
  std::string result;
  for (int kept = 0; line != lines.end() && kept < max_lines; ++line, ++kept) {
    result += result.empty() ? "" : "\n";
    result += line->substr(0, kLongestLine);
    result += line->size() > kLongestLine ? " ..." : "";
  }
  if (line != lines.end()) {
    result += fmt::format("\n({} more lines)", lines.end() - line);
  }
  return result;
}

}  // namespace scalegemm::toolchain
