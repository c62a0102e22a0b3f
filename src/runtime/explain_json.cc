#include "runtime/explain_json.h"

#include <nlohmann/json.hpp>

namespace scalegemm::runtime {
namespace {

using nlohmann::ordered_json;

ordered_json candidate_json(const dispatch::Candidate& candidate) {
  ordered_json out = {{"kernel", candidate.name}, {"target", spec::target_name(candidate.spec.target)}};
  if (candidate.cost) {
    out["predicted_us"] = candidate.cost->total_us;
    out["compute_us"] = candidate.cost->compute_us;
    out["decode_us"] = candidate.cost->decode_us;
    out["memory_us"] = candidate.cost->memory_us;
    out["relayout_us"] = candidate.cost->relayout_us;
  }
  if (candidate.tuned_us) {
    out["tuned_us"] = *candidate.tuned_us;
  }
  return out;
}

}  // namespace

std::string to_json(const dispatch::Explanation& e) {
  ordered_json out;
  out["problem"] = {{"signature", e.signature},
                    {"m", e.problem.m},
                    {"n", e.problem.n},
                    {"k", e.problem.k},
                    {"batch", e.problem.batch}};
  out["device"] = e.device;
  out["packing"] = spec::to_string(e.problem.b_packing);
  out["chosen"] = e.candidates.empty() ? ordered_json() : ordered_json(e.candidates.front().name);
  out["candidates"] = ordered_json::array();
  for (const dispatch::Candidate& candidate : e.candidates) {
    out["candidates"].push_back(candidate_json(candidate));
  }
  out["declines"] = ordered_json::array();
  for (const spec::Decline& d : e.declines) {
    out["declines"].push_back({{"kernel", d.kernel}, {"rule", d.rule}, {"needed", d.needed}, {"got", d.got}});
  }
  out["notes"] = e.notes;
  // Names and notes may quote a caller's text: bytes that are no UTF-8 are replaced, never thrown on.
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace scalegemm::runtime
