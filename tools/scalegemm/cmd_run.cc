// scalegemm run: one multiplication, with operands of files or random ones.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "app.h"
#include "harness/instance.h"
#include "harness/oracle.h"
#include "matrix.h"
#include "problem_flags.h"
#include "stored_layer.h"

namespace scalegemm::cli {
namespace {

struct Options {
  RuntimeFlags runtime;
  JsonFlag json;
  std::string a;
  std::string b;
  std::string model;  // with layer and member in place of b
  std::string layer;
  int64_t member = 0;
  std::string c;
  std::string bias;
  std::string output;
  std::string kernel;
  ProblemFlags problem;
  const CLI::Option* scheme = nullptr;  // of problem
  ProgressFlag progress;
};

void expect_shape(const std::string& option, std::pair<int64_t, int64_t> given, int64_t rows, int64_t cols) {
  if (given != std::pair(rows, cols)) {
    throw usage_error(option, fmt::format("a matrix of {} x {}", rows, cols),
                      fmt::format("{} x {}", given.first, given.second),
                      "A is M x K, B is N x K, C is M x N and the bias has N values");
  }
}

void expect_shape(const std::string& option, const Matrix& matrix, int64_t rows, int64_t cols) {
  expect_shape(option, {matrix.rows, matrix.cols}, rows, cols);
}

// A vector or matrix of a file, encoded in the type that the problem has for it.
std::vector<uint8_t> encode(const Matrix& matrix, int32_t dtype) {
  scalegemm_operand_desc desc{};
  desc.dtype = dtype;
  return harness::quantize(desc, matrix.values.data(), matrix.rows, matrix.cols).codes;
}

// The operands that files give: b or the layer of a model, not both.
struct Given {
  std::optional<Matrix> a;
  std::optional<Matrix> b;
  std::optional<StoredLayer> layer;
};

Given read_files(const Options& options) {
  Given given;
  if (!options.a.empty()) {
    given.a = load_matrix(options.a);
  }
  if (!options.b.empty()) {
    given.b = load_matrix(options.b);
  }
  if (!options.model.empty()) {
    given.layer = load_layer(options.model, options.layer, options.member);
  }
  return given;
}

// The scheme of the command line, else that of the layer.
harness::Case asked_case(const Options& options, const std::optional<StoredLayer>& layer) {
  harness::Case c = options.problem.make_case();
  if (options.scheme->count() != 0) {
    return c;
  }
  if (!layer) {
    throw usage_error("--scheme", "a scheme", "none",
                      "scalegemm schemes lists them; with --model the layer has one");
  }
  c.scheme = layer->scheme;
  return c;
}

// Sizes that the command line leaves out are those of the files.
harness::Case case_of(const Options& options, const Given& given) {
  harness::Case c = asked_case(options, given.layer);
  struct Size {
    int64_t rows, cols;
  };
  const auto size_of = [](const std::optional<Matrix>& matrix) {
    return matrix ? std::optional(Size{matrix->rows, matrix->cols}) : std::nullopt;
  };
  const auto a = size_of(given.a);
  const auto b =
      given.layer ? std::optional(Size{given.layer->weight.rows, given.layer->weight.k}) : size_of(given.b);
  const auto take = [](int64_t& size, const char* option, const std::optional<Size>& matrix, bool rows) {
    if (size == 0 && matrix) {
      size = rows ? matrix->rows : matrix->cols;
    }
    if (size == 0) {
      throw usage_error(option, "a size, or a file that has it", "neither",
                        fmt::format("add {} SIZE, or --a and --b FILE", option));
    }
  };
  take(c.m, "--m", a, true);
  take(c.n, "--n", b, true);
  take(c.k, "--k", a ? a : b, false);
  if (!options.c.empty() && c.epilogue.c_dtype == SCALEGEMM_DTYPE_NONE) {
    c.epilogue.c_dtype = SCALEGEMM_F32;
  }
  if (!options.bias.empty() && c.epilogue.bias_dtype == SCALEGEMM_DTYPE_NONE) {
    c.epilogue.bias_dtype = SCALEGEMM_F32;
  }
  return c;
}

// Columns of A in the order of the weight's codes.
void gather(Matrix& a, const std::vector<int32_t>& columns) {
  std::vector<float> row(columns.size());
  for (int64_t m = 0; m < a.rows; ++m) {
    float* values = a.values.data() + m * a.cols;
    for (size_t j = 0; j < columns.size(); ++j) {
      row[j] = values[columns[j]];
    }
    std::copy(row.begin(), row.end(), values);
  }
}

// B as it is stored, which the problem must take.
void use_layer(const Options& options, StoredLayer layer, harness::CaseData& data) {
  const harness::Case& c = data.c;
  expect_shape("--model", {layer.weight.rows, layer.weight.k}, c.n, c.k);
  const scalegemm_operand_desc& stored = layer.weight.desc;
  if (stored.dtype != data.problem.b.dtype ||
      std::memcmp(&stored.scale, &data.problem.b.scale, sizeof stored.scale) != 0) {
    throw usage_error("--scheme",
                      fmt::format("one with the weights of {}, as {} is stored", layer.scheme, options.layer),
                      c.scheme, "leave --scheme out");
  }
  data.b = std::move(layer.weight);
}

std::shared_ptr<harness::CaseData> load(const Options& options) {
  Given given = read_files(options);
  const harness::Case c = case_of(options, given);
  if (c.batch != 1 && (given.a || given.b || given.layer)) {
    throw usage_error("--batch", "1 with operands of files", std::to_string(c.batch), "leave --batch out");
  }
  // Where a size is a file's, so is the fault when the scheme cannot have it.
  const auto make = [&] { return std::make_shared<harness::CaseData>(harness::make_case_data(c)); };
  const harness::Case asked = options.problem.make_case();
  const bool all_asked = asked.m == c.m && asked.n == c.n && asked.k == c.k;
  const std::string& file = !options.a.empty()      ? options.a
                            : options.model.empty() ? options.b
                                                    : options.model;
  auto data = all_asked ? make() : with_contents_of(file, make);
  if (given.a) {
    expect_shape("--a", *given.a, c.m, c.k);
    if (given.layer && !given.layer->columns.empty()) {
      gather(*given.a, given.layer->columns);
    }
    data->a = harness::quantize(data->problem.a, given.a->values.data(), c.m, c.k);
  }
  if (given.b) {
    expect_shape("--b", *given.b, c.n, c.k);
    data->b = harness::quantize(data->problem.b, given.b->values.data(), c.n, c.k);
  }
  if (given.layer) {
    use_layer(options, std::move(*given.layer), *data);
  }
  if (!options.c.empty()) {
    const Matrix matrix = load_matrix(options.c);
    expect_shape("--c", matrix, c.m, c.n);
    data->c_values = encode(matrix, c.epilogue.c_dtype);
  }
  if (!options.bias.empty()) {
    const Matrix matrix = load_matrix(options.bias);
    expect_shape("--bias", matrix, 1, c.n);
    data->bias = encode(matrix, c.epilogue.bias_dtype);
  }
  return data;
}

Matrix output_of(harness::Instance& instance) {
  const harness::Case& c = instance.data().c;
  const std::vector<uint8_t> bytes = instance.output();
  Matrix d;
  d.rows = c.batch * c.m;
  d.cols = c.n;
  d.values.resize(static_cast<size_t>(d.rows * d.cols));
  for (size_t i = 0; i < d.values.size(); ++i) {
    d.values[i] = static_cast<float>(harness::output_value(bytes, c.d_dtype, static_cast<int64_t>(i)));
  }
  return d;
}

struct Statistics {
  double mean = 0;
  double deviation = 0;
  double largest = 0;
  int64_t not_finite = 0;
};

Statistics statistics_of(const std::vector<float>& values) {
  Statistics s;
  double sum = 0;
  double squares = 0;
  for (float value : values) {
    if (!std::isfinite(value)) {
      ++s.not_finite;
      continue;
    }
    const double x = static_cast<double>(value);
    sum += x;
    squares += x * x;
    s.largest = std::max(s.largest, std::abs(x));
  }
  const double count =
      std::max<double>(static_cast<double>(values.size()) - static_cast<double>(s.not_finite), 1);
  s.mean = sum / count;
  s.deviation = std::sqrt(std::max(squares / count - s.mean * s.mean, 0.0));
  return s;
}

int run(const Options& options) {
  Progress progress(options.progress.show(), 4);
  progress.step(0, "reading or making the operands");
  const auto data = load(options);
  const Runtime runtime = options.runtime.make_runtime();
  progress.step(1, "choosing the kernel and placing the operands");
  harness::Instance instance(runtime, data, {options.runtime.threads, options.kernel}, 0xFF);
  progress.step(2, "multiplying");
  instance.run();
  progress.step(3, "multiplying again, timed");
  const auto start = std::chrono::steady_clock::now();
  instance.run_again();
  const double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  progress.clear();
  const Matrix d = output_of(instance);
  const Statistics s = statistics_of(d.values);
  if (!options.output.empty()) {
    save_matrix(options.output, d);
  }
  if (!options.json.replaces_text()) {
    fmt::print("problem  {}\nkernel   {}\ntime     {} us (second run)\n", harness::to_string(data->c),
               instance.kernel(), short_number(us));
    fmt::print("D        {} x {}: mean {}, deviation {}, largest {}, not finite {}\n", d.rows, d.cols,
               short_number(s.mean), short_number(s.deviation), short_number(s.largest), s.not_finite);
    if (!options.output.empty()) {
      fmt::print("written  {} (as f32)\n", options.output);
    }
  }
  options.json.write({{"problem", harness::to_string(data->c)},
                      {"kernel", instance.kernel()},
                      {"us", us},
                      {"rows", d.rows},
                      {"cols", d.cols},
                      {"mean", s.mean},
                      {"deviation", s.deviation},
                      {"largest", s.largest},
                      {"not_finite", s.not_finite},
                      {"output", options.output}});
  return kExitOk;
}

}  // namespace

void add_run(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.root->add_subcommand("run", "Multiply once: D = act(alpha * A * B^T + beta * C + bias)");
  command->add_option("--a", options->a,
                      "M x K matrix: FILE.npy or FILE.safetensors:TENSOR; default: random");
  command->add_option("--b", options->b, "N x K matrix, the weight; default: random");
  CLI::Option* b = command->get_option("--b");
  CLI::Option* model =
      command->add_option("--model", options->model, "Checkpoint whose --layer is B, as it is stored")
          ->excludes(b);
  CLI::Option* layer =
      command->add_option("--layer", options->layer, "Name of the layer, as scalegemm inspect gives it")
          ->needs(model);
  model->needs(layer);
  command->add_option("--member", options->member, "Which matrix of the layer (experts)")
      ->needs(model)
      ->check(non_negative_integer())
      ->capture_default_str();
  command->add_option("--c", options->c, "M x N matrix that is added with factor --beta");
  command->add_option("--bias", options->bias, "N values that are added to each row");
  command->add_option("-o,--output", options->output, "Write D as f32 to FILE.npy or FILE.safetensors")
      ->check(file_name());
  command->add_option("--kernel", options->kernel, "A kernel name instead of the dispatcher's choice");
  options->problem.add_to(*command, ProblemFlags::Sizes::kOptional);
  options->scheme = command->get_option("--scheme")->required(false);  // a layer has one
  options->problem.add_epilogue_to(*command);
  options->runtime.add_to(*command);
  options->runtime.add_tuned_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
