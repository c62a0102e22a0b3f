// scalegemm inspect: what is in a checkpoint, and what would run it.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "app.h"
#include "checkpoint_weight.h"
#include "facts.h"

namespace scalegemm::cli {
namespace {

struct Options {
  RuntimeFlags runtime;
  PlaceFlags place;
  JsonFlag json;
  std::string path;
  int64_t m = 16;
};

struct Route {
  std::string kernel;  // empty: none
  std::string reason;
};

// Which kernel runs a layer, on the CPU with packed weights; asked once a shape and scheme.
class Routes {
 public:
  Routes(const Runtime& runtime, const std::string& place, int64_t m)
      : runtime_(runtime), place_(place), m_(m) {}

  const Route& of(const scalegemm_layer_info& layer) {
    const auto [entry, fresh] = routes_.try_emplace({layer.scheme, layer.n, layer.k});
    if (fresh) {
      scalegemm_problem problem = make_problem(layer.scheme, "rcr", m_, layer.n, layer.k);
      problem.b_packing = place_ == "cpu" ? SCALEGEMM_PACKED : SCALEGEMM_RAW;
      auto plan = make<scalegemm_plan_options>();
      plan.device = place_.c_str();
      try {
        entry->second.kernel = Json::parse(runtime_.explain(problem, &plan, 1)).value("chosen", "");
      } catch (const Error& error) {
        if (error.status() != SCALEGEMM_UNSUPPORTED) {
          throw;
        }
        entry->second.reason = error.what();
      }
      if (entry->second.kernel.empty() && entry->second.reason.empty()) {
        entry->second.reason = "no kernel takes it; scalegemm explain says why";
      }
    }
    return entry->second;
  }

 private:
  const Runtime& runtime_;
  const std::string& place_;
  int64_t m_;
  std::map<std::tuple<std::string, int64_t, int64_t>, Route> routes_;
};

Json layer_json(const scalegemm_layer_info& layer, const Route& route) {
  const bool readable = layer.problem[0] == '\0';
  Json json = {{"name", layer.name},   {"format", layer.format}, {"scheme", layer.scheme},
               {"n", layer.n},         {"k", layer.k},           {"count", layer.count},
               {"bytes", layer.bytes}, {"note", layer.note},     {"problem", layer.problem}};
  json["operand"] = readable ? json_of(layer.operand) : Json();
  json["kernel"] = route.kernel.empty() ? Json() : Json(route.kernel);
  json["decline"] = route.reason;
  return json;
}

// Layers of one kind in a line of the table.
struct Group {
  int64_t layers = 0;
  int64_t weights = 0;
  uint64_t bytes = 0;
  std::string runs;
  std::string first;
};

int run(const Options& options) {
  const Checkpoint checkpoint = open_checkpoint(options.path);
  const Runtime runtime = options.runtime.make_runtime();
  const std::string& place = options.place.name();
  Routes routes(runtime, place, options.m);
  Json json = {
      {"path", options.path}, {"device", place}, {"layers", Json::array()}, {"left_out", Json::array()}};
  std::map<std::tuple<std::string, std::string, int64_t, int64_t>, Group> groups;
  std::vector<std::string> problems;
  std::map<std::string, int64_t> notes;
  uint64_t bytes = 0;
  const auto layers = checkpoint.layers();
  for (const scalegemm_layer_info& layer : layers) {
    const bool readable = layer.problem[0] == '\0';
    const Route route = readable ? routes.of(layer) : Route{};
    json["layers"].push_back(layer_json(layer, route));
    bytes += layer.bytes;
    if (!readable) {
      problems.emplace_back(layer.problem);
      continue;
    }
    Group& group = groups[{layer.format, layer.scheme, layer.n, layer.k}];
    ++group.layers;
    group.weights += layer.count;
    group.bytes += layer.bytes;
    group.runs = route.kernel.empty() ? "no: " + route.reason : route.kernel;
    group.first = group.first.empty() ? layer.name : group.first;
    if (layer.note[0] != '\0') {
      ++notes[layer.note];
    }
  }
  for (const LeftOut& left : left_out(checkpoint)) {
    json["left_out"].push_back({{"name", left.name}, {"type", left.type}, {"reason", left.reason}});
  }
  json["bytes"] = bytes;
  if (!options.json.replaces_text()) {
    Table table({"format", "scheme", "N", "K", "weights", "bytes", "first", "on " + place});
    for (const auto& [key, group] : groups) {
      const auto& [format, scheme, n, k] = key;
      table.add({format, scheme, std::to_string(n), std::to_string(k), std::to_string(group.weights),
                 human_bytes(static_cast<double>(group.bytes)), group.first, group.runs});
    }
    table.print();
    fmt::print("\n{}: {} layers, {}; {} other tensors\n", options.path, layers.size(),
               human_bytes(static_cast<double>(bytes)), json["left_out"].size());
    for (const auto& [note, count] : notes) {
      fmt::print("note: {} ({} layers)\n", note, count);
    }
    for (const std::string& problem : problems) {
      fmt::print("cannot be read: {}\n", problem);
    }
  }
  options.json.write(json);
  return problems.empty() ? kExitOk : kExitFailure;
}

}  // namespace

void add_inspect(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand(
      "inspect", "What is in a checkpoint: formats, schemes, sizes, what would run it");
  command->add_option("path", options->path, "safetensors or GGUF file, or a folder of safetensors files")
      ->required()
      ->check(file_name());
  command->add_option("--m", options->m, "Rows of the activations that the kernel is chosen for")
      ->check(positive_integer())
      ->capture_default_str();
  options->place.add_to(*command);
  options->runtime.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
