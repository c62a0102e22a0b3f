// scalegemm explain: which kernel a problem gets and why, also for a target that is not here.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "app.h"
#include "problem_flags.h"

namespace scalegemm::cli {
namespace {

struct Options {
  ProblemFlags problem;
  RuntimeFlags runtime;
  JsonFlag json;
  std::string device;
  std::string target;
};

void check_target(const std::string& target) {
  const std::vector<std::string> known = harness::known_targets();
  if (!target.empty() && std::find(known.begin(), known.end(), target) == known.end()) {
    throw usage_error("--target", fmt::format("one of {}", fmt::join(known, ", ")), target,
                      "leave --target out to ask for the device of this machine");
  }
}

int run(const Options& options) {
  check_target(options.target);
  const scalegemm_problem problem = harness::problem_of(options.problem.make_case());
  const Runtime runtime = options.runtime.make_runtime();
  auto plan = make<scalegemm_plan_options>();
  plan.device = options.target.empty() ? options.device.c_str() : options.target.c_str();
  plan.threads = options.runtime.threads;
  if (!options.json.replaces_text()) {
    fmt::print("{}", runtime.explain(problem, &plan, 0));
  }
  if (options.json.wanted()) {
    options.json.write(Json::parse(runtime.explain(problem, &plan, 1)));
  }
  return kExitOk;
}

}  // namespace

void add_explain(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.root->add_subcommand("explain", "Which kernel a problem gets, and why not the others");
  options->problem.add_to(*command);
  options->problem.add_epilogue_to(*command);
  CLI::Option* device =
      command->add_option("--device", options->device, "Device: cpu, cuda:0")->default_val("cpu");
  command->add_option("--target", options->target, "A target without a device here, such as sm_90a or gfx950")
      ->excludes(device);
  options->runtime.add_to(*command);
  options->runtime.add_tuned_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
