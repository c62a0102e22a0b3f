#include "harness/accuracy.h"

#include <memory>

#include "harness/proofs.h"

namespace scalegemm::harness {
namespace {

constexpr uint8_t kPoison = 0xFF;
constexpr int64_t kMostProducts = int64_t{1} << 26;  // of the oracle
constexpr int64_t kUniqueRows = 128;                 // drawn, the others repeat them

}  // namespace

AccuracyResult measure_accuracy(const Runtime& runtime, const Case& c, const PlanChoice& choice) {
  AccuracyResult result;
  result.c = c;
  try {
    Case drawn = c;
    drawn.unique_rows = kUniqueRows;
    Instance instance(runtime, std::make_shared<CaseData>(make_case_data(drawn)), choice, kPoison);
    result.kernel = instance.kernel();
    instance.run();
    const CaseData& data = instance.data();
    const Probe probe = choose_probe(data.problem, kMostProducts, c.seed);
    const std::vector<uint8_t> output = instance.output();
    result.errors = errors_of(data, output, probe);
    const Verdict verdict = judge(data, output, probe, instance.accumulation());
    result.verified = !verdict.wrong;
    result.problem = verdict.wrong ? to_string(*verdict.wrong) : "";
  } catch (const Error& error) {
    result.problem = error.what();
  }
  return result;
}

}  // namespace scalegemm::harness
