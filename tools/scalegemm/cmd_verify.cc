// scalegemm verify: the four proofs of one problem.
#include <fmt/format.h>

#include <memory>

#include "app.h"
#include "harness/proofs.h"
#include "problem_flags.h"

namespace scalegemm::cli {
namespace {

struct Options {
  ProblemFlags problem;
  RuntimeFlags runtime;
  JsonFlag json;
  ProgressFlag progress;
  std::string kernel;
  std::string device = "cpu";
  int repeats = 20;
};

Json json_of(const harness::ProofResult& result) {
  Json json = {{"proof", harness::to_string(result.proof)},
               {"passed", result.passed},
               {"detail", result.detail},
               {"worst_error_over_bound", result.worst_ratio},
               {"wrong", nullptr}};
  if (result.wrong) {
    json["wrong"] = {{"batch", result.wrong->batch}, {"row", result.wrong->row},
                     {"column", result.wrong->col},  {"expected", result.wrong->expected},
                     {"got", result.wrong->got},     {"bound", result.wrong->bound}};
  }
  return json;
}

int run(const Options& options) {
  const harness::Case c = options.problem.make_case();
  harness::problem_of(c);  // refuses a bad problem before a runtime is made
  const Runtime runtime = options.runtime.make_runtime();
  const harness::FaultReporter faults;
  harness::ProofOptions proofs;
  proofs.choice = {options.runtime.threads, options.kernel, options.device};
  proofs.repeats = options.repeats;
  Progress progress(options.progress.show(), harness::kProofs);
  proofs.before = [&](harness::Proof proof) {
    progress.step(static_cast<int64_t>(proof), harness::to_string(proof));
  };
  const harness::ProofReport report = harness::prove(runtime, c, proofs);
  progress.clear();
  if (!options.json.replaces_text()) {
    fmt::print("problem  {}\nkernel   {}\n", harness::to_string(c), report.kernel);
    for (const harness::ProofResult& result : report.results) {
      fmt::print("{:<7}  {}  {}\n", harness::to_string(result.proof), result.passed ? "ok  " : "FAIL",
                 result.detail);
    }
    fmt::print("{}\n", report.passed() ? "PASS" : "FAIL");
  }
  Json json = {{"problem", harness::to_string(c)},
               {"kernel", report.kernel},
               {"passed", report.passed()},
               {"proofs", Json::array()}};
  for (const harness::ProofResult& result : report.results) {
    json["proofs"].push_back(json_of(result));
  }
  options.json.write(json);
  return report.passed() ? kExitOk : kExitFailure;
}

}  // namespace

void add_verify(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.root->add_subcommand("verify", "Prove one problem: exact, random with bound, poison, repeat");
  options->problem.add_to(*command);
  options->problem.add_epilogue_to(*command);
  options->problem.add_memory_to(*command);
  command->add_option("--device", options->device, "Device: cpu, cuda:0")->capture_default_str();
  command->add_option("--kernel", options->kernel, "A kernel name instead of the dispatcher's choice");
  command->add_option("--repeats", options->repeats, "Runs that must give the same bits")
      ->check(positive_integer())
      ->capture_default_str();
  options->runtime.add_to(*command);
  options->runtime.add_tuned_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
