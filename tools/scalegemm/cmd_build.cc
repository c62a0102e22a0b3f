// scalegemm build: a manifest of kernels becomes a library of its own (docs/bundles.md).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "app.h"
#include "bundle/build.h"
#include "bundle/manifest.h"
#include "bundle/plan.h"

namespace scalegemm::cli {
namespace {

struct Options {
  std::string manifest;
  std::string folder;
  std::array<std::vector<std::string>, bundle::kSettings.size()> settings;  // by row of kSettings
  bool dry_run = false;
  bool explain_config = false;
  ProgressFlag progress;
  JsonFlag json;
};

struct Help {
  std::string_view key;
  const char* text;
};

constexpr std::array<Help, bundle::kSettings.size()> kHelp = {{
    {"namespace", "What every symbol of the bundle begins with"},
    {"libraries", "Kind of library: shared, static; repeatable"},
    {"size_budget", "Largest size of the library, such as 12 MB"},
    {"compiler", "C++ compiler, with arguments if wanted"},
    {"nvrtc", "NVRTC library for CUDA targets"},
    {"cache_dir", "Folder of compiled kernels, where a build that was stopped goes on"},
    {"jobs", "Compilers at a time"},
    {"targets", "Target such as sm_90a or x86-64-v3; repeatable"},
    {"accuracy", "promoted, fast or exact; repeatable"},
    {"outputs", "Type of D; repeatable"},
    {"layouts", "Layouts of A, B, D: rcr, rrr, crr or ccr; repeatable"},
    {"epilogues", "plain, or fused: with bias, C, activation or clamp; repeatable"},
    {"pipelines", "Family of kernels such as f32fma or mma; repeatable"},
}};

constexpr bool helps_every_setting() {
  for (size_t i = 0; i < kHelp.size(); ++i) {
    if (kHelp[i].key != bundle::kSettings[i].key) {
      return false;
    }
  }
  return true;
}
static_assert(helps_every_setting());

template <class T>
T take(Result<T> result) {
  if (result.ok()) {
    return *std::move(result);
  }
  const Status& status = result.status();
  switch (status.code()) {
    case Code::kInvalidArgument:
      throw Failure(
          kExitUsage, status.message(),
          "change the manifest or the option; scalegemm build --explain-config shows what comes from where");
    case Code::kUnsupported:
      throw Failure(kExitFailure, status.message(),
                    "change the manifest; scalegemm explain shows what takes a problem");
    default:
      throw Failure(kExitFailure, status.message(), advice(static_cast<scalegemm_status>(status.code())));
  }
}

bundle::Overrides overrides_of(const Options& options) {
  bundle::Overrides out;
  for (size_t i = 0; i < bundle::kSettings.size(); ++i) {
    const bundle::SettingRow& row = bundle::kSettings[i];
    std::vector<std::string> words;
    for (const std::string& word : options.settings[i]) {
      const bool list = row.arity == bundle::Arity::kList;
      const auto more = list ? bundle::split_words(word) : std::vector{word};
      words.insert(words.end(), more.begin(), more.end());
    }
    if (!words.empty()) {
      out.emplace(row.key, std::move(words));
    }
  }
  return out;
}

Json json_of(const bundle::Plan& plan, const std::vector<build_builtin::Unit>& units) {
  Json json = {{"namespace", plan.name_space},
               {"settings", Json::array()},
               {"kernels", Json::array()},
               {"left_out", plan.left_out}};
  for (const bundle::Setting& setting : plan.settings) {
    json["settings"].push_back(
        {{"scope", setting.scope}, {"key", setting.key}, {"value", setting.words}, {"from", setting.from}});
  }
  for (const build_builtin::Unit& unit : units) {
    const auto selected =
        std::find_if(plan.kernels.begin(), plan.kernels.end(),
                     [&](const bundle::Selected& kernel) { return kernel.name == unit.source.name; });
    const auto reasons = selected != plan.kernels.end()
                             ? selected->reasons
                             : std::vector<std::string>{"goes with every kernel of that target"};
    json["kernels"].push_back(
        {{"name", unit.source.name}, {"target", spec::target_name(unit.target)}, {"reasons", reasons}});
  }
  return json;
}

void print_settings(const bundle::Plan& plan) {
  Table table({"of", "setting", "value", "from"});
  for (const bundle::Setting& setting : plan.settings) {
    table.add({setting.scope, setting.key,
               setting.words.empty() ? "-" : fmt::format("{}", fmt::join(setting.words, " ")), setting.from});
  }
  table.print();
}

void print_kernels(const Json& json) {
  Table table({"kernel", "target", "why"});
  for (const Json& kernel : json["kernels"]) {
    const auto reasons = kernel["reasons"].get<std::vector<std::string>>();
    table.add({kernel["name"], kernel["target"],
               reasons.size() == 1 ? reasons.front()
                                   : fmt::format("{} and {} more", reasons.front(), reasons.size() - 1)});
  }
  table.print();
  fmt::print("\n{} kernels; nothing was built\n", json["kernels"].size());
  for (const Json& name : json["left_out"]) {
    fmt::print("left out by --target: {}\n", name.get<std::string>());
  }
}

int build(const bundle::Plan& plan, std::string_view manifest, const Options& options) {
  const Interrupt interrupt;
  const auto start = std::chrono::steady_clock::now();
  size_t compiled = 0;
  Progress progress(options.progress.show(), static_cast<int64_t>(plan.kernels.size()));
  const auto report = [&](const build_builtin::BuiltKernel& kernel, size_t done, size_t) {
    progress.step(static_cast<int64_t>(done), kernel.name);
    compiled += kernel.from_cache ? 0 : 1;
    return !Interrupt::requested();
  };
  auto result = bundle::build(plan, {.folder = options.folder, .manifest = manifest, .done = report});
  progress.clear();
  if (!result.ok() && Interrupt::requested()) {
    throw Failure(kExitFailure, result.status().message(), "run the same command again to go on from there");
  }
  const bundle::Built built = take(std::move(result));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Json json = {{"namespace", plan.name_space}, {"kernels", built.kernels.size()},
               {"compiled", compiled},         {"exports", built.exports.size()},
               {"seconds", seconds},           {"files", Json::array()}};
  for (const bundle::BuiltFile& file : built.files) {
    json["files"].push_back({{"path", file.path}, {"bytes", file.bytes}});
  }
  if (!options.json.replaces_text()) {
    for (const bundle::BuiltFile& file : built.files) {
      fmt::print("{}/{}  {}\n", options.folder, file.path, human_bytes(static_cast<double>(file.bytes)));
    }
    fmt::print("{} kernels, {} compiled now, {:.1f} s\n", built.kernels.size(), compiled, seconds);
  }
  options.json.write(json);
  return kExitOk;
}

int run(const Options& options) {
  if (options.folder.empty() && !options.dry_run && !options.explain_config) {
    throw usage_error("-o", "the folder to write the bundle to", "none", "give -o DIR, or --dry-run");
  }
  const bundle::Manifest manifest = take(bundle::load_manifest(options.manifest));
  const bundle::Plan plan = take(bundle::make_plan(manifest, overrides_of(options)));
  if (!options.dry_run && !options.explain_config) {
    return build(plan, manifest.text, options);
  }
  std::vector<spec::KernelSpec> specs;
  for (const bundle::Selected& kernel : plan.kernels) {
    specs.push_back(kernel.spec);
  }
  const Json json = json_of(plan, take(build_builtin::units_of(specs)));
  if (!options.json.replaces_text() && options.explain_config) {
    print_settings(plan);
  }
  if (!options.json.replaces_text() && options.dry_run) {
    print_kernels(json);
  }
  options.json.write(json);
  return kExitOk;
}

}  // namespace

void add_build(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand("build", "Build a library of chosen kernels from a manifest");
  command->add_option("manifest", options->manifest, "TOML file")->required()->check(file_name());
  command->add_option("-o,--output", options->folder, "Folder of the bundle; made if missing")
      ->check(file_name());
  for (size_t i = 0; i < bundle::kSettings.size(); ++i) {
    const bundle::SettingRow& row = bundle::kSettings[i];
    CLI::Option* option = command->add_option(std::string(row.flag), options->settings[i], kHelp[i].text);
    option->allow_extra_args(false);
    if (row.arity == bundle::Arity::kOne) {
      option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::Throw);
    }
  }
  command->add_flag("--dry-run", options->dry_run, "List the kernels and why each is built; build nothing");
  command->add_flag("--explain-config", options->explain_config,
                    "List the settings and where each comes from");
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
