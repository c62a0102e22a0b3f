// scalegemm convert: a whole model quantised, or carried over as it is, into the compressed-tensors format.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <memory>

#include "app.h"
#include "checkpoint_weight.h"
#include "facts.h"
#include "harness/files.h"

namespace scalegemm::cli {
namespace {

// Modules that the tools of the ecosystem leave as they are: heads and embeddings.
const std::vector<std::string> kUsuallyIgnored = {"lm_head", "*embed*", "*embd*"};
constexpr std::array<const char*, 3> kHow = {"copied", "carried", "quantised"};

struct Options {
  JsonFlag json;
  ProgressFlag progress;
  std::string input;
  std::string output;
  std::string scheme;
  std::vector<std::string> ignore;
  bool all = false;
  std::string rounding = "floor";
  int threads = 0;
};

struct Group {
  int64_t tensors = 0;
  int64_t exact = 0;
  int64_t resumed = 0;
  double least_sqnr = HUGE_VAL;
  uint64_t bytes = 0;
};

struct Seen {
  Progress progress;
  std::map<std::tuple<std::string, int32_t, std::string>, Group> groups;  // from, how, to
  std::vector<std::string> inexact;
  Json json = Json::array();
  uint64_t bytes = 0;

  void add(const scalegemm_converted& c) {
    progress.step(c.done, c.name);
    Group& group = groups[{c.from, c.how, c.to}];
    ++group.tensors;
    group.exact += c.exact;
    group.resumed += c.resumed;
    group.bytes += c.bytes;
    bytes += c.bytes;
    if (c.how == SCALEGEMM_QUANTISED && c.resumed == 0) {
      group.least_sqnr = std::min(group.least_sqnr, c.sqnr_db);
    }
    if (c.exact == 0) {
      inexact.emplace_back(c.name);
    }
    const bool quantised = c.how == SCALEGEMM_QUANTISED && c.resumed == 0 && std::isfinite(c.sqnr_db);
    json.push_back({{"name", c.name},
                    {"from", c.from},
                    {"to", c.to},
                    {"how", kHow[static_cast<size_t>(c.how)]},
                    {"exact", c.exact != 0},
                    {"sqnr_db", quantised ? Json(c.sqnr_db) : Json()},
                    {"bytes", c.bytes},
                    {"resumed", c.resumed != 0}});
  }
};

void print(const Seen& seen, const Options& options, double seconds) {
  Table table({"from", "how", "to", "tensors", "bytes", "exact", "least SQNR dB"});
  int64_t resumed = 0;
  for (const auto& [key, group] : seen.groups) {
    const auto& [from, how, to] = key;
    table.add({from.empty() ? "(no weight)" : from, kHow[static_cast<size_t>(how)], to,
               std::to_string(group.tensors), human_bytes(static_cast<double>(group.bytes)),
               fmt::format("{}", group.exact),
               how == SCALEGEMM_QUANTISED && std::isfinite(group.least_sqnr)
                   ? fmt::format("{:.1f}", group.least_sqnr)
                   : ""});
    resumed += group.resumed;
  }
  table.print();
  fmt::print("\n{}: {} in {:.1f} s ({}/s)", options.output, human_bytes(static_cast<double>(seen.bytes)),
             seconds, human_bytes(static_cast<double>(seen.bytes) / std::max(seconds, 1e-9)));
  fmt::print("{}\n", resumed > 0 ? fmt::format("; {} tensors were there from an earlier run", resumed) : "");
  for (size_t i = 0; i < std::min<size_t>(seen.inexact.size(), 8); ++i) {
    fmt::print("not exact: {}\n", seen.inexact[i]);
  }
}

int run(const Options& options) {
  const Checkpoint checkpoint = open_checkpoint(options.input);
  harness::require_writable(options.json.path);
  std::vector<std::string> ignore = options.ignore;
  if (!options.all) {
    ignore.insert(ignore.end(), kUsuallyIgnored.begin(), kUsuallyIgnored.end());
  }
  std::vector<const char*> patterns;
  for (const std::string& pattern : ignore) {
    patterns.push_back(pattern.c_str());
  }
  auto convert = make<scalegemm_convert_options>();
  convert.scheme = options.scheme.empty() ? nullptr : options.scheme.c_str();
  convert.ignore = patterns.data();
  convert.ignore_count = static_cast<int64_t>(patterns.size());
  convert.scale_rounding = value_of(harness::kScaleRoundings, options.rounding);
  convert.threads = options.threads;

  int64_t total = 0;
  for (const scalegemm_layer_info& layer : checkpoint.layers()) {
    total += layer.count;
  }
  total += static_cast<int64_t>(left_out(checkpoint).size());
  Seen seen{Progress(options.progress.show(), total), {}, {}, Json::array(), 0};
  const Interrupt interrupt;
  const auto visit = [](const scalegemm_converted* converted, void* user) -> int32_t {
    static_cast<Seen*>(user)->add(*converted);
    return Interrupt::requested() ? 1 : 0;
  };
  int32_t finished = 0;
  const auto start = std::chrono::steady_clock::now();
  const scalegemm_status status = scalegemm_checkpoint_convert(checkpoint.get(), options.output.c_str(),
                                                               &convert, visit, &seen, &finished);
  if (status == SCALEGEMM_UNSUPPORTED) {
    throw Failure(kExitFailure, scalegemm_last_error(),
                  "choose another --scheme, or --ignore the layer where it is dense");
  }
  check(status);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  seen.progress.clear();
  if (finished == 0) {
    fmt::print(stderr, "interrupted after {} of {} tensors; the same command goes on from there\n",
               seen.json.size(), total);
    return kExitFailure;
  }
  if (!options.json.replaces_text()) {
    print(seen, options, seconds);
  }
  options.json.write({{"input", options.input},
                      {"output", options.output},
                      {"scheme", options.scheme},
                      {"seconds", seconds},
                      {"bytes", seen.bytes},
                      {"tensors", seen.json}});
  return kExitOk;
}

}  // namespace

void add_convert(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand(
      "convert",
      "Quantise a model, or carry its weights over as they are, into the compressed-tensors format");
  command->add_option("input", options->input, "safetensors or GGUF file, or a folder of safetensors files")
      ->required()
      ->check(file_name());
  command
      ->add_option(
          "-o,--output", options->output,
          "A .safetensors file, or a folder for model.safetensors with config.json and the other files")
      ->required()
      ->check(file_name());
  command->add_option(
      "--scheme", options->scheme,
      "What weights become, as scalegemm schemes lists them; without it each keeps its codes");
  command
      ->add_option("--ignore", options->ignore, "A layer that stays dense, * for any text; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--all", options->all, "Quantise lm_head and embeddings too");
  command->add_option("--scale-rounding", options->rounding, "Of e8m0 scales: floor, even, ceil")
      ->check(one_of(harness::kScaleRoundings))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: one a core")
      ->check(non_negative_integer())
      ->capture_default_str();
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
