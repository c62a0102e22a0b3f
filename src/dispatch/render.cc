#include <algorithm>

#include "dispatch/dispatch.h"

namespace scalegemm::dispatch {
namespace {

constexpr size_t kMostCandidates = 8;

std::string time_text(const Candidate& c) {
  std::string text;
  if (c.tuned_us) {
    text += fmt::format("  measured {:.1f} us (tuned table)", *c.tuned_us);
  }
  if (c.cost) {
    text += fmt::format("  predicted {:.1f} us (compute {:.1f}, decode {:.1f}, memory {:.1f})",
                        c.cost->total_us, c.cost->compute_us, c.cost->decode_us, c.cost->memory_us);
    if (c.cost->relayout_us > 0) {
      text.insert(text.size() - 1, fmt::format(", relayout {:.1f}", c.cost->relayout_us));
    }
  }
  return text;
}

std::string problem_text(const spec::Problem& p) {
  std::string text = fmt::format("M {}, N {}, K {}", p.m, p.n, p.k);
  return text + (p.batch != 1 ? fmt::format(", batch {}", p.batch) : "");
}

}  // namespace

std::string to_text(const Explanation& e) {
  std::string text = fmt::format("problem     {}\n            {}\ndevice      {}\n", problem_text(e.problem),
                                 e.signature, e.device);
  if (e.candidates.empty()) {
    text += "chosen      none: every kernel declines\n";
  }
  const size_t shown = std::min(e.candidates.size(), kMostCandidates);
  for (size_t i = 0; i < shown; ++i) {
    const char* label = i == 0 ? "chosen      " : i == 1 ? "runners-up  " : "            ";
    text += fmt::format("{}{}{}\n", label, e.candidates[i].name, time_text(e.candidates[i]));
  }
  if (shown < e.candidates.size()) {
    text += fmt::format("            and {} more that are legal\n", e.candidates.size() - shown);
  }
  for (size_t i = 0; i < e.declines.size(); ++i) {
    text += fmt::format("{}{}\n", i == 0 ? "declined    " : "            ", to_string(e.declines[i]));
  }
  for (size_t i = 0; i < e.notes.size(); ++i) {
    text += fmt::format("{}{}\n", i == 0 ? "note        " : "            ", e.notes[i]);
  }
  return text;
}

}  // namespace scalegemm::dispatch
