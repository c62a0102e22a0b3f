#include "harness/evaluation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "harness/proofs.h"

namespace scalegemm::harness {
namespace {

// One scheme and one m: the plan, A and the memory of its runs.
struct Multiplication {
  CaseData data;  // b is lent to it while a result is judged
  Plan plan;
  Workspace workspace;
  std::vector<float> d;
  scalegemm_run_args args = make_run_args();
  EvaluationResult result;

  Multiplication(const Runtime& runtime, CaseData case_data, const PlanChoice& choice)
      : data(std::move(case_data)),
        plan(make_plan(runtime, data.problem, choice)),
        workspace(plan.workspace_bytes()) {
    d.resize(static_cast<size_t>(data.problem.m * data.problem.n));
    args.a = data.a.codes_tensor();
    args.scale_a = data.a.scales_tensor();
    args.zero_a = data.a.zeros_tensor();
    args.global_a = data.a.global ? &*data.a.global : nullptr;
    args.d = scalegemm_matrix(d.data(), SCALEGEMM_F32, data.problem.m, data.problem.n);
    args.workspace = workspace.data();
    args.workspace_bytes = workspace.bytes();
  }
  Multiplication(const Multiplication&) = delete;
  Multiplication& operator=(const Multiplication&) = delete;

  void run(const Packed& weight) {
    args.packed_b = weight.get();
    plan.run(args);
  }
};

// One scheme: its packed weights and a multiplication for each m.
struct SchemeRun {
  std::string scheme;
  std::vector<Packed> weights;
  std::vector<std::unique_ptr<Multiplication>> multiplications;
  EvaluationResult shared;  // what does not depend on m
  std::string problem;      // why there is nothing to time
};

Case case_of(const std::string& scheme, const WeightGroup& group, int64_t m) {
  Case c;
  c.scheme = scheme;
  c.m = m;
  c.n = group.n;
  c.k = group.k;
  c.packing = SCALEGEMM_PACKED;
  return c;
}

void make_multiplications(const Runtime& runtime, const WeightGroup& group, const EvaluationOptions& options,
                          SchemeRun& run) {
  for (int64_t m : options.ms) {
    CaseData data;
    data.c = case_of(run.scheme, group, m);
    data.problem = problem_of(data.c);
    data.a = quantize(data.problem.a, options.activations.data(), m, group.k);
    run.multiplications.push_back(std::make_unique<Multiplication>(runtime, std::move(data), options.choice));
  }
}

Packed pack(const Runtime& runtime, const scalegemm_problem& problem, OperandData& b) {
  auto args = make<scalegemm_pack_args>();
  args.b = b.codes_tensor();
  args.scale_b = b.scales_tensor();
  args.zero_b = b.zeros_tensor();
  args.global_b = b.global ? &*b.global : nullptr;
  return {runtime, problem, args};
}

std::vector<uint8_t> bytes_of(const std::vector<float>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(float)};
}

void add_noise(const std::vector<float>& reference, const std::vector<float>& values,
               EvaluationResult& result) {
  for (size_t i = 0; i < reference.size(); ++i) {
    const double x = static_cast<double>(reference[i]);
    const double e = static_cast<double>(values[i]) - x;
    result.signal += x * x;
    result.noise += e * e;
  }
}

// Quantises and packs one weight, runs it at every m and has the oracle judge the results. Returns D of the
// largest m.
const std::vector<float>& prove_weight(const Runtime& runtime, const std::vector<float>& values,
                                       const EvaluationOptions& options, SchemeRun& run) {
  const scalegemm_problem& problem = run.multiplications.front()->data.problem;
  OperandData b = quantize(problem.b, values.data(), problem.n, problem.k);
  run.shared.bits_per_weight = 8.0 * static_cast<double>(b.bytes()) / static_cast<double>(values.size());
  run.weights.push_back(pack(runtime, problem, b));
  run.shared.packed_bytes += static_cast<double>(run.weights.back().info().bytes);
  const std::vector<float>* largest = nullptr;
  int64_t largest_m = 0;
  for (auto& multiplication : run.multiplications) {
    Multiplication& mul = *multiplication;
    mul.run(run.weights.back());
    std::swap(mul.data.b, b);
    const Probe probe = choose_probe(mul.data.problem, options.most_products, run.weights.size());
    const Verdict verdict = judge(mul.data, bytes_of(mul.d), probe);
    std::swap(mul.data.b, b);
    mul.result.worst_ratio = std::max(mul.result.worst_ratio, verdict.worst_ratio);
    if (verdict.wrong && mul.result.problem.empty()) {
      mul.result.problem = to_string(*verdict.wrong);
    }
    if (mul.data.problem.m > largest_m) {
      largest_m = mul.data.problem.m;
      largest = &mul.d;
    }
  }
  return *largest;
}

// Medians of every scheme at one m, interleaved; each call takes the next weight of the shape.
void time_schemes(std::vector<SchemeRun>& runs, size_t m_index, const TimingOptions& timing) {
  std::vector<Candidate> candidates;
  std::vector<Multiplication*> timed;
  for (SchemeRun& run : runs) {
    if (!run.problem.empty() || !run.multiplications[m_index]->result.problem.empty()) {
      continue;
    }
    timed.push_back(run.multiplications[m_index].get());
    candidates.emplace_back([&run, m_index, next = size_t{0}]() mutable {
      run.multiplications[m_index]->run(run.weights[next]);
      next = (next + 1) % run.weights.size();
    });
  }
  const std::vector<Timing> timings = time_interleaved(candidates, timing);
  for (size_t i = 0; i < timed.size(); ++i) {
    timed[i]->result.timing = timings[i];
  }
}

std::vector<EvaluationResult> collect(const std::vector<SchemeRun>& runs, const WeightGroup& group,
                                      const EvaluationOptions& options) {
  std::vector<EvaluationResult> results;
  for (const SchemeRun& run : runs) {
    for (size_t i = 0; i < options.ms.size(); ++i) {
      EvaluationResult result = run.shared;
      result.scheme = run.scheme;
      result.n = group.n;
      result.k = group.k;
      result.count = group.count;
      result.m = options.ms[i];
      result.problem = run.problem;
      result.packed_bytes *= static_cast<double>(group.count) / static_cast<double>(group.weights);
      if (run.problem.empty()) {
        const Multiplication& mul = *run.multiplications[i];
        result.kernel = mul.plan.kernel();
        result.worst_ratio = mul.result.worst_ratio;
        result.timing = mul.result.timing;
        result.problem = mul.result.problem;
        result.verified = mul.result.problem.empty();
      }
      results.push_back(std::move(result));
    }
  }
  return results;
}

std::vector<std::string> with_baseline(const std::vector<std::string>& schemes) {
  std::vector<std::string> all = {kBaselineScheme};
  std::copy_if(schemes.begin(), schemes.end(), std::back_inserter(all),
               [](const std::string& scheme) { return scheme != kBaselineScheme; });
  return all;
}

}  // namespace

std::vector<EvaluationResult> evaluate_group(const Runtime& runtime, const WeightGroup& group,
                                             const EvaluationOptions& options) {
  std::vector<std::vector<float>> values;
  for (int64_t i = 0; i < group.weights; ++i) {
    values.push_back(group.load(i));
  }
  std::vector<SchemeRun> runs;
  std::vector<std::vector<float>> reference;  // f32 outputs of each weight
  for (const std::string& scheme : with_baseline(options.schemes)) {
    if (!options.proceed(scheme)) {
      break;
    }
    SchemeRun& run = runs.emplace_back();
    run.scheme = scheme;
    try {
      make_multiplications(runtime, group, options, run);
      for (size_t i = 0; i < values.size(); ++i) {
        const std::vector<float>& d = prove_weight(runtime, values[i], options, run);
        if (scheme == kBaselineScheme) {
          reference.push_back(d);
        }
        add_noise(reference[i], d, run.shared);
      }
    } catch (const Error& error) {
      run.problem = error.what();
      if (scheme == kBaselineScheme) {
        throw;  // nothing can be compared
      }
    }
  }
  for (size_t i = 0; i < options.ms.size() && options.proceed("timing m = " + std::to_string(options.ms[i]));
       ++i) {
    time_schemes(runs, i, options.timing);
  }
  return collect(runs, group, options);
}

}  // namespace scalegemm::harness
