// scalegemm quantize: matrices of a file -> codes, scales and zero points in a safetensors file.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "app.h"
#include "facts.h"
#include "harness/files.h"
#include "matrix.h"
#include "stored_weight.h"

namespace scalegemm::cli {
namespace {

constexpr std::array<std::string_view, 2> kSides = {"a", "b"};

struct Options {
  JsonFlag json;
  ProgressFlag progress;
  std::string input;
  std::string output;
  std::string scheme;
  std::vector<std::string> tensors;
  std::string side = "b";
  std::string rounding = "floor";
};

scalegemm_operand_desc operand_of(const Options& options) {
  const scalegemm_problem problem = make_problem(options.scheme, "rcr", 2, 2, 2);
  return options.side == "a" ? problem.a : problem.b;
}

bool chosen(const Options& options, const scalegemm_file_tensor& tensor) {
  return options.tensors.empty() ? is_float_matrix(tensor)
                                 : std::find(options.tensors.begin(), options.tensors.end(), tensor.name) !=
                                       options.tensors.end();
}

int run(const Options& options) {
  const scalegemm_operand_desc desc = operand_of(options);
  auto rounding = make<scalegemm_quantize_options>();
  rounding.scale_rounding = value_of(harness::kScaleRoundings, options.rounding);
  const File file = open_file(options.input);
  const auto tensors = file.tensors();
  for (const std::string& name : options.tensors) {
    find_tensor(tensors, name, options.input);
  }
  harness::require_writable(options.json.path);
  Progress progress(options.progress.show(), static_cast<int64_t>(tensors.size()));
  WeightFile out;
  Table table({"tensor", "rows", "K", "bits/value", "SQNR dB"});
  Json json = {{"scheme", options.scheme}, {"operand", json_of(desc)}, {"tensors", Json::array()}};
  int64_t done = 0;
  for (const scalegemm_file_tensor& tensor : tensors) {
    progress.step(done++, tensor.name);
    if (!chosen(options, tensor)) {
      out.add_copy(tensor);
      continue;
    }
    const Matrix matrix = to_matrix(tensor, options.input);
    harness::OperandData data = with_contents_of(options.input + ": " + matrix.name, [&] {
      return harness::quantize(desc, matrix.values.data(), matrix.rows, matrix.cols, &rounding);
    });
    const double bits = 8.0 * static_cast<double>(data.bytes()) / static_cast<double>(matrix.values.size());
    const double sqnr = sqnr_db(data, matrix.values);
    table.add({matrix.name, std::to_string(matrix.rows), std::to_string(matrix.cols),
               fmt::format("{:.2f}", bits), fmt::format("{:.1f}", sqnr)});
    json["tensors"].push_back({{"name", matrix.name},
                               {"rows", matrix.rows},
                               {"k", matrix.cols},
                               {"bits_per_value", bits},
                               {"sqnr_db", sqnr}});
    out.add(matrix.name, std::move(data));
  }
  if (json["tensors"].empty()) {
    throw Failure(
        kExitFailure,
        fmt::format("{}: needed a matrix of {}; given {}", options.input, kFloatWords, list_of(tensors)),
        "convert a matrix to f32; tensors of other dimensions are not quantised");
  }
  out.write(options.output);
  progress.clear();
  if (!options.json.replaces_text()) {
    table.print();
    fmt::print("\n{}: {} matrices as {}\n", options.output, json["tensors"].size(), describe(desc));
  }
  options.json.write(json);
  return kExitOk;
}

}  // namespace

void add_quantize(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand("quantize", "Quantise the matrices of a file");
  command->add_option("input", options->input, "safetensors or npy file")->required()->check(file_name());
  command->add_option("output", options->output, "safetensors file; other tensors are copied into it")
      ->required()
      ->check(file_name());
  command->add_option("--scheme", options->scheme, "As scalegemm schemes lists them")->required();
  command->add_option("--tensor", options->tensors, "Only these tensors; default: every float matrix")
      ->allow_extra_args(false);
  command->add_option("--side", options->side, "Quantise like operand a (activations) or b (weights)")
      ->check(one_of(kSides))
      ->capture_default_str();
  command->add_option("--scale-rounding", options->rounding, "Of e8m0 scales: floor, even, ceil")
      ->check(one_of(harness::kScaleRoundings))
      ->capture_default_str();
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
