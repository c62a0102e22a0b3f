#include "harness/proofs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace scalegemm::harness {
namespace {

// Far from any result of the proofs as every type, and different from each other: an element that was not
// written shows.
constexpr uint8_t kPoisonOnes = 0xFF;
constexpr uint8_t kPoisonOther = 0x7F;

std::shared_ptr<CaseData> data_of(const Case& c, Fill fill) {
  Case filled = c;
  filled.fill = fill;
  // Only activations that keep exact sums exact belong into an exact proof.
  if (fill == Fill::kExact && c.epilogue.activation != SCALEGEMM_ACT_RELU) {
    filled.epilogue.activation = SCALEGEMM_ACT_NONE;
  }
  return std::make_shared<CaseData>(make_case_data(filled));
}

std::string compared_text(const Verdict& verdict, const CaseData& data) {
  const int64_t all = data.c.batch * data.c.m * data.c.n;
  return verdict.compared == all ? fmt::format("all {} elements", all)
                                 : fmt::format("{} of {} elements", verdict.compared, all);
}

ProofResult judged(Proof proof, Instance& instance, int64_t most_products, const std::string& what) {
  const CaseData& data = instance.data();
  const Verdict verdict =
      judge(data, instance.output(), choose_probe(data.problem, most_products, data.c.seed),
            instance.accumulation());
  ProofResult result{.proof = proof,
                     .passed = !verdict.wrong,
                     .detail = "",
                     .wrong = verdict.wrong,
                     .worst_ratio = verdict.worst_ratio};
  result.detail = verdict.wrong ? fmt::format("{}: {}", what, to_string(*verdict.wrong))
                                : fmt::format("{} ({})", what, compared_text(verdict, data));
  return result;
}

}  // namespace

ProofResult prove_exact(const Runtime& runtime, const Case& c, const ProofOptions& options) {
  Instance instance(runtime, data_of(c, Fill::kExact), options.choice, kPoisonOnes);
  instance.run();
  return judged(Proof::kExact, instance, options.most_products, "bit-equal to the exact result");
}

ProofResult prove_random(const Runtime& runtime, const Case& c, const ProofOptions& options) {
  ProofResult worst{.proof = Proof::kRandom, .passed = true, .detail = "", .wrong = {}, .worst_ratio = 0};
  struct Part {
    Fill fill;
    const char* what;
  };
  constexpr Part kParts[] = {{Fill::kRandom, "normal operands"},
                             {Fill::kAdversary, "outliers and zero blocks"},
                             {Fill::kExtreme, "scales at the ends of their type"}};
  for (const auto& [fill, what] : kParts) {
    Instance instance(runtime, data_of(c, fill), options.choice, kPoisonOnes);
    instance.run();
    ProofResult result = judged(Proof::kRandom, instance, options.most_products, what);
    result.worst_ratio = std::max(result.worst_ratio, worst.worst_ratio);
    if (!result.passed) {
      return result;
    }
    worst.worst_ratio = result.worst_ratio;
    worst.detail += (worst.detail.empty() ? "" : ", ") + result.detail;
  }
  worst.detail += fmt::format("; largest error {:.2g} of its bound", worst.worst_ratio);
  return worst;
}

ProofResult prove_poison(const Runtime& runtime, const Case& c, const ProofOptions& options) {
  ProofResult result{.proof = Proof::kPoison, .passed = false, .detail = "", .wrong = {}, .worst_ratio = 0};
  std::vector<uint8_t> first;
  Case guarded = c;
  if (c.strides != Strides::kLines) {
    guarded.strides = Strides::kPadded;
    guarded.place = c.place == Place::kAligned ? Place::kFlushEnd : c.place;
  }
  const auto data = data_of(guarded, Fill::kRandom);
  for (uint8_t poison : {kPoisonOnes, kPoisonOther}) {
    Instance instance(runtime, data, options.choice, poison);
    instance.run();
    if (std::string wrong = instance.check_memory(); !wrong.empty()) {
      result.detail = wrong;
      return result;
    }
    const std::vector<uint8_t> output = instance.output();
    if (!first.empty() && output != first) {
      const auto at = std::mismatch(output.begin(), output.end(), first.begin()).first - output.begin();
      const auto element = static_cast<std::ptrdiff_t>(output.size()) / (c.batch * c.m * c.n);
      result.detail = fmt::format(
          "D depends on bytes that belong to no operand, or was not written whole: "
          "row {}, column {}",
          at / element / c.n % c.m, at / element % c.n);
      return result;
    }
    first = output;
  }
  result.passed = true;
  result.detail = "guards whole, inputs unchanged, D written whole and the same for two poisons";
  return result;
}

ProofResult prove_repeat(const Runtime& runtime, const Case& c, const ProofOptions& options) {
  ProofResult result{.proof = Proof::kRepeat, .passed = false, .detail = "", .wrong = {}, .worst_ratio = 0};
  const auto data = data_of(c, Fill::kRandom);
  std::vector<uint8_t> first;
  for (int32_t threads : {options.choice.threads, 1, 2}) {
    PlanChoice choice = options.choice;
    choice.threads = threads;
    Instance instance(runtime, data, choice, kPoisonOnes);
    const int runs = threads == options.choice.threads ? options.repeats : 2;
    for (int i = 0; i < runs; ++i) {
      instance.run();
      const std::vector<uint8_t> output = instance.output();
      if (!first.empty() && output != first) {
        result.detail = fmt::format("run {} with {} threads differs from the first run", i + 1,
                                    threads == 0 ? "all" : std::to_string(threads));
        return result;
      }
      first = output;
    }
  }
  result.passed = true;
  result.detail = fmt::format("{} runs and 1 and 2 threads bit-equal", options.repeats);
  return result;
}

bool ProofReport::passed() const {
  return !results.empty() &&
         std::all_of(results.begin(), results.end(), [](const ProofResult& r) { return r.passed; });
}

const char* to_string(Proof proof) {
  constexpr const char* kNames[] = {"exact", "random", "poison", "repeat"};
  return kNames[static_cast<size_t>(proof)];
}

ProofReport prove(const Runtime& runtime, const Case& c, const ProofOptions& options) {
  ProofReport report;
  report.kernel = make_plan(runtime, problem_of(c), options.choice).kernel();
  constexpr std::array kAll = {prove_exact, prove_random, prove_poison, prove_repeat};
  static_assert(kAll.size() == kProofs);
  for (size_t i = 0; i < kAll.size(); ++i) {
    options.before(static_cast<Proof>(i));
    report.results.push_back(kAll[i](runtime, c, options));
  }
  return report;
}

ProofResult check_once(Instance& instance, int64_t most_products) {
  instance.run();
  return judged(Proof::kRandom, instance, most_products, "compared with the oracle");
}

std::string to_string(const WrongElement& wrong) {
  return fmt::format(
      "element (batch {}, row {}, column {}): expected {:.9g}, got {:.9g}, {}", wrong.batch, wrong.row,
      wrong.col, wrong.expected, wrong.got,
      wrong.bound == 0 ? std::string("bit equality needed") : fmt::format("bound {:.3g}", wrong.bound));
}

}  // namespace scalegemm::harness
