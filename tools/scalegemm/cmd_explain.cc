// scalegemm explain: which kernel a problem gets and why, also for a target that is not here.
#include <fmt/format.h>

#include <memory>

#include "app.h"
#include "problem_flags.h"

namespace scalegemm::cli {
namespace {

struct Options {
  ProblemFlags problem;
  RuntimeFlags runtime;
  JsonFlag json;
  PlaceFlags place;
};

int run(const Options& options) {
  const scalegemm_problem problem = harness::problem_of(options.problem.make_case());
  const Runtime runtime = options.runtime.make_runtime();
  auto plan = make<scalegemm_plan_options>();
  plan.device = options.place.name().c_str();
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
  options->place.add_to(*command);
  options->runtime.add_to(*command);
  options->runtime.add_tuned_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
