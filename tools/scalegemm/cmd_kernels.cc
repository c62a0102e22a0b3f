// scalegemm kernels: lists kernels, shows the source of one, builds one.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "app.h"

namespace scalegemm::cli {
namespace {

struct Options {
  RuntimeFlags runtime;
  JsonFlag json;
  ProgressFlag progress;
  std::string filter;
  std::string source;
  std::vector<std::string> build;
  bool all = false;
  bool force = false;
};

struct Row {
  std::string name;
  std::string target;
  std::string id;
  bool built_in;
  bool cached;
};

std::vector<Row> list(const Runtime& runtime, const std::string& filter) {
  std::vector<Row> rows;
  const auto visit = [](const scalegemm_kernel_info* info, void* user) -> int32_t {
    static_cast<std::vector<Row>*>(user)->push_back(
        {info->name, info->target, info->id, info->built_in != 0, info->cached != 0});
    return 0;
  };
  check(scalegemm_kernels(runtime.get(), filter.empty() ? nullptr : filter.c_str(), visit, &rows));
  return rows;
}

int print_list(const Runtime& runtime, const Options& options) {
  Json json = {{"kernels", Json::array()}};
  Table table({"kernel", "target", "where"});
  int64_t hidden = 0;
  for (const Row& row : list(runtime, options.filter)) {
    json["kernels"].push_back({{"name", row.name},
                               {"target", row.target},
                               {"id", row.id},
                               {"built_in", row.built_in},
                               {"cached", row.cached}});
    if (!options.all && !row.built_in && !row.cached) {
      ++hidden;
      continue;
    }
    table.add(
        {row.name, row.target, row.built_in ? "built in" : (row.cached ? "cache" : "compiled on first use")});
  }
  if (!options.json.replaces_text()) {
    table.print();
    if (hidden > 0) {
      fmt::print("\n{} more can be compiled; --all lists them.\n", hidden);
    }
  }
  options.json.write(json);
  return kExitOk;
}

int build(const Runtime& runtime, const Options& options) {
  Json json = {{"built", Json::array()}};
  Progress progress(options.progress.show(), static_cast<int64_t>(options.build.size()));
  for (const std::string& name : options.build) {
    progress.step(static_cast<int64_t>(json["built"].size()), name);
    const auto start = std::chrono::steady_clock::now();
    check(scalegemm_kernel_build(runtime.get(), name.c_str(), options.force ? 1 : 0));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    progress.clear();
    json["built"].push_back({{"name", name}, {"seconds", seconds}});
    if (!options.json.replaces_text()) {
      fmt::print("{}: ready in {:.2f} s\n", name, seconds);
    }
  }
  options.json.write(json);
  return kExitOk;
}

int run(const Options& options) {
  const Runtime runtime = options.runtime.make_runtime();
  if (!options.source.empty()) {
    const std::string source = runtime.kernel_source(options.source);
    if (!options.json.replaces_text()) {
      fmt::print("{}", source);
    }
    options.json.write({{"name", options.source}, {"source", source}});
    return kExitOk;
  }
  return options.build.empty() ? print_list(runtime, options) : build(runtime, options);
}

}  // namespace

void add_kernels(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand("kernels", "List, show and build kernels");
  command->add_option("--filter", options->filter, "Only names that contain this text");
  command->add_flag("--all", options->all, "Also those that are neither built in nor cached");
  CLI::Option* source =
      command->add_option("--source", options->source, "Print the generated source of a kernel");
  command->add_option("--build", options->build, "Generate, compile and store these kernels now")
      ->type_name("NAME")
      ->excludes(source);
  command->add_flag("--force", options->force, "With --build: also what is built in or cached");
  options->runtime.add_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
