// scalegemm schemes: what --scheme takes.
#include <fmt/format.h>

#include <memory>

#include "app.h"
#include "facts.h"

namespace scalegemm::cli {
namespace {

struct Options {
  JsonFlag json;
};

constexpr const char* kGrammar =
    "A scheme is a preset or preset:key=value,...; keys that are left out have the preset's value:\n"
    "  a, b     operand types           g       block along K: a number or all\n"
    "  scale    type of block scales    bn      block of B along N: a number or all\n"
    "  zero     zero-point type of B    ascale  one f32 scale a row of A: row or none\n"
    "An unknown key or value is answered with those that the preset has.\n";

int run(const Options& options) {
  Json json = {{"schemes", Json::array()}};
  Table table({"scheme", "bits/weight", "what it is"});
  for (const scalegemm_scheme_info& scheme : schemes()) {
    const scalegemm_problem problem = make_problem(scheme.name, "rcr", 128, 4096, 4096);
    json["schemes"].push_back({{"name", scheme.name},
                               {"description", scheme.description},
                               {"preset", scheme.is_preset != 0},
                               {"bits_per_weight", scheme.bits_per_weight},
                               {"a", json_of(problem.a)},
                               {"b", json_of(problem.b)}});
    table.add({scheme.name, fmt::format("{:.2f}", scheme.bits_per_weight), scheme.description});
  }
  if (!options.json.replaces_text()) {
    table.print();
    fmt::print("\n{}", kGrammar);
  }
  options.json.write(json);
  return kExitOk;
}

}  // namespace

void add_schemes(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand("schemes", "The quantisation schemes and their parameters");
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
