// scalegemm cache: what the disk cache of compiled kernels holds; clears it.
#include <fmt/format.h>

#include <memory>

#include "app.h"

namespace scalegemm::cli {
namespace {

struct Options {
  RuntimeFlags runtime;
  JsonFlag json;
  std::string verb = "info";
};

constexpr std::array<std::string_view, 2> kVerbs = {"info", "clear"};

int run(const Options& options) {
  const Runtime runtime = options.runtime.make_runtime();
  auto before = make<scalegemm_cache_info>();
  check(scalegemm_cache(runtime.get(), &before));
  auto after = before;
  if (options.verb == "clear") {
    check(scalegemm_cache_clear(runtime.get()));
    check(scalegemm_cache(runtime.get(), &after));
  }
  if (!options.json.replaces_text()) {
    fmt::print("path      {}\nentries   {}\nsize      {}\nwritable  {}\n", after.path, after.entries,
               human_bytes(static_cast<double>(after.bytes)), after.writable != 0 ? "yes" : "no");
    if (options.verb == "clear") {
      fmt::print("removed   {}\n", before.entries - after.entries);
    }
  }
  options.json.write({{"path", after.path},
                      {"entries", after.entries},
                      {"bytes", after.bytes},
                      {"writable", after.writable != 0},
                      {"removed", before.entries - after.entries}});
  return kExitOk;
}

}  // namespace

void add_cache(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand("cache", "Show or clear the cache of compiled kernels");
  command->add_option("verb", options->verb, "info or clear")->check(one_of(kVerbs))->capture_default_str();
  options->runtime.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
