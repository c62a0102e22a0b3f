// scalegemm evaluate: the weights of a model in every scheme: size, accuracy, proof, speed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>

#include "app.h"
#include "checkpoint_weight.h"
#include "evaluate_report.h"
#include "facts.h"
#include "harness/case.h"
#include "harness/data.h"
#include "harness/evaluation.h"
#include "harness/files.h"
#include "matrix.h"

namespace scalegemm::cli {
namespace {

struct Options {
  RuntimeFlags runtime;
  JsonFlag json;
  ProgressFlag progress;
  std::string model;
  std::string activations;
  std::string csv;
  std::vector<std::string> schemes = {"all"};
  std::vector<int64_t> ms = {1, 16, 128};
  int64_t max_shapes = 0;
  int64_t max_values = 32;  // millions
  double budget_s = 0.03;
  bool embeddings = false;
  bool by_shape = false;
};

// Tables that are looked up row by row, not multiplied.
bool is_lookup_table(const std::string& name) {
  return name.find("embed") != std::string::npos || name.find("wte.") != std::string::npos ||
         name.find("wpe.") != std::string::npos;
}

// A weight of a checkpoint: one matrix of a layer.
struct Place {
  int64_t layer;
  int64_t member;
};

// Weights of one shape.
struct Shape {
  int64_t n;
  int64_t k;
  std::vector<Place> weights;
  int64_t values() const { return n * k; }
};

struct Model {
  std::vector<Shape> shapes;  // most arithmetic first
  std::vector<std::string> left_out;
};

// Weights grouped by shape. What is no weight matrix, or beyond --max-shapes, is listed with the reason.
Model read_model(const Options& options, const std::vector<scalegemm_layer_info>& layers) {
  Model model;
  std::map<std::pair<int64_t, int64_t>, Shape> shapes;
  for (size_t i = 0; i < layers.size(); ++i) {
    const scalegemm_layer_info& layer = layers[i];
    if (layer.problem[0] != '\0') {
      model.left_out.emplace_back(layer.problem);
      continue;
    }
    if (!options.embeddings && is_lookup_table(layer.name)) {
      model.left_out.push_back(fmt::format("{} ({} x {}): a lookup table; --embeddings takes it in",
                                           layer.name, layer.n, layer.k));
      continue;
    }
    Shape& shape = shapes[{layer.n, layer.k}];
    shape.n = layer.n;
    shape.k = layer.k;
    for (int64_t member = 0; member < layer.count; ++member) {
      shape.weights.push_back({static_cast<int64_t>(i), member});
    }
  }
  for (auto& [size, shape] : shapes) {
    model.shapes.push_back(std::move(shape));
  }
  std::stable_sort(model.shapes.begin(), model.shapes.end(), [](const Shape& x, const Shape& y) {
    return x.values() * static_cast<int64_t>(x.weights.size()) >
           y.values() * static_cast<int64_t>(y.weights.size());
  });
  while (options.max_shapes > 0 && static_cast<int64_t>(model.shapes.size()) > options.max_shapes) {
    const Shape& last = model.shapes.back();
    model.left_out.push_back(
        fmt::format("{} of {} x {}: beyond --max-shapes", last.weights.size(), last.n, last.k));
    model.shapes.pop_back();
  }
  return model;
}

// How many of a shape's weights are measured: as many as --max-values allows, at least one.
int64_t measured_of(const Shape& shape, const Options& options) {
  const int64_t fit = options.max_values * 1000000 / shape.values();
  return std::clamp<int64_t>(fit, 1, static_cast<int64_t>(shape.weights.size()));
}

// Rows of A: of --activations where its width fits, else standard normal values.
std::vector<float> activations_for(int64_t k, int64_t rows, const Matrix& given, bool& used) {
  used = given.cols == k;
  if (!used) {
    return harness::normal_values(harness::Fill::kRandom, harness::Side::kA, rows, k, 1);
  }
  std::vector<float> values;
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = given.values.begin() + r % given.rows * k;
    values.insert(values.end(), row, row + k);
  }
  return values;
}

// Everything that is reported so far; written after each shape, so that an interrupted run leaves a file.
void write(const Options& options, const EvaluationReport& report) {
  if (!options.csv.empty()) {
    harness::write_file(options.csv, csv_of(report));
  }
  if (options.json.wanted() && (!options.json.replaces_text() || report.finished)) {
    options.json.write(json_of(report));
  }
}

void evaluate_shape(const Runtime& runtime, const Options& options, const Checkpoint& checkpoint,
                    const Shape& shape, const Matrix& activations, Progress& progress,
                    EvaluationReport& report) {
  harness::WeightGroup group;
  group.n = shape.n;
  group.k = shape.k;
  group.count = static_cast<int64_t>(shape.weights.size());
  group.weights = measured_of(shape, options);
  group.load = [&](int64_t i) {
    const Place place = shape.weights[static_cast<size_t>(i)];
    return weight_values(Weight(checkpoint, place.layer, place.member));
  };
  harness::EvaluationOptions evaluation;
  evaluation.schemes = report.schemes;
  evaluation.ms = options.ms;
  bool used = false;
  evaluation.activations =
      activations_for(shape.k, *std::max_element(options.ms.begin(), options.ms.end()), activations, used);
  evaluation.choice.threads = options.runtime.threads;
  evaluation.timing.budget_s = options.budget_s;
  evaluation.proceed = [&](const std::string& what) {
    progress.step(static_cast<int64_t>(report.shapes.size()),
                  fmt::format("{} x {} x{}: {}", shape.n, shape.k, group.weights, what));
    return !Interrupt::requested();
  };
  for (harness::EvaluationResult& result : harness::evaluate_group(runtime, group, evaluation)) {
    report.results.push_back(std::move(result));
  }
  report.shapes.push_back({shape.n, shape.k, group.count, group.weights, used});
}

int run(const Options& options) {
  const auto started = std::chrono::steady_clock::now();
  EvaluationReport report;
  report.model = options.model;
  report.ms = options.ms;
  report.schemes = harness::resolve_schemes(options.schemes);
  const Matrix activations = options.activations.empty() ? Matrix{} : load_matrix(options.activations);
  const Checkpoint checkpoint = open_checkpoint(options.model);
  const auto layers = checkpoint.layers();
  const Model model = read_model(options, layers);
  if (model.shapes.empty()) {
    throw Failure(
        kExitFailure,
        fmt::format("{}: needed a matrix of {}, or a quantised one; given {}", options.model, kFloatWords,
                    model.left_out.empty() ? list_left_out(checkpoint) : model.left_out.front()),
        "scalegemm inspect lists what is in it; --embeddings takes lookup tables in");
  }
  report.left_out = model.left_out;
  harness::require_writable(options.json.path);
  harness::require_writable(options.csv);
  const Runtime runtime = options.runtime.make_runtime();
  report.device = runtime.devices().front();
  report.threads = options.runtime.threads == 0 ? report.device.cores : options.runtime.threads;
  report.total_shapes = model.shapes.size();
  const Interrupt interrupt;
  {
    Progress progress(options.progress.show(), static_cast<int64_t>(model.shapes.size()));
    for (const Shape& shape : model.shapes) {
      if (Interrupt::requested()) {
        break;
      }
      evaluate_shape(runtime, options, checkpoint, shape, activations, progress, report);
      write(options, report);
    }
  }
  report.complete = !Interrupt::requested();
  report.finished = true;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  write(options, report);
  if (!options.json.replaces_text()) {
    print(report, options.by_shape ? Detail::kByShape : Detail::kSummary);
  }
  return report.complete && report.all_verified() ? kExitOk : kExitFailure;
}

void add_options(CLI::App& command, Options& options) {
  command.add_option("model", options.model, "safetensors or GGUF file, or a folder of safetensors files")
      ->required();
  command.add_option("--schemes,--scheme", options.schemes, "Schemes, or all")
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--m", options.ms, "Rows of the activations")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(positive_integer())
      ->capture_default_str();
  command.add_option("--activations", options.activations,
                     "Activations as FILE.npy, rows x K; used where K fits (default: normal values)");
  command.add_option("--csv", options.csv, "Write every result as CSV to this file")->check(file_name());
  command.add_option("--max-shapes", options.max_shapes, "Only the shapes with most arithmetic; 0: all")
      ->check(non_negative_integer())
      ->capture_default_str();
  command
      .add_option("--max-values", options.max_values,
                  "Measure this many million values of each shape at most")
      ->check(positive_integer())
      ->capture_default_str();
  command.add_option("--budget", options.budget_s, "Seconds of timing for each shape, scheme and m")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_flag("--embeddings", options.embeddings, "Also tensors named like embeddings");
  command.add_flag("--by-shape", options.by_shape, "Print a table for each shape too");
}

}  // namespace

void add_evaluate(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand(
      "evaluate", "Quantise, prove and time every weight of a model in every scheme");
  add_options(*command, *options);
  options->runtime.add_to(*command);
  options->runtime.add_tuned_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
