// scalegemm pack: weights in the order that kernels read; inspect and unpack such files.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "app.h"
#include "facts.h"
#include "matrix.h"
#include "stored_weight.h"

namespace scalegemm::cli {
namespace {

struct Options {
  RuntimeFlags runtime;
  JsonFlag json;
  ProgressFlag progress;
  std::string input;
  std::string output;
  std::string scheme;
  std::string tensor;
  std::string packing = "packed";
  bool inspect = false;
  bool unpack = false;
};

void print(const scalegemm_packed_info& info) {
  fmt::print("operand  {}\nsize     N {}, K {}, batch {}\nlayout   {}\nbytes    {}\ndigest   {}\n",
             describe(info.operand), info.n, info.k, info.batch,
             harness::word_of(harness::kPackings, info.layout), info.bytes, info.digest);
}

int inspect(const Options& options) {
  const scalegemm_packed_info info = Packed::load(options.input).info();
  if (!options.json.replaces_text()) {
    print(info);
  }
  options.json.write(json_of(info));
  return kExitOk;
}

void need_output(const Options& options) {
  if (options.output.empty()) {
    throw usage_error("--output", "a file to write", "nothing", "add --output FILE");
  }
}

int unpack(const Options& options) {
  need_output(options);
  const Packed packed = Packed::load(options.input);
  const scalegemm_packed_info info = packed.info();
  harness::OperandData data = harness::allocate_operand(info.operand, info.n, info.k, info.batch);
  auto out = make<scalegemm_pack_args>();
  out.b = data.codes_tensor();
  out.scale_b = data.scales_tensor();
  out.zero_b = data.zeros_tensor();
  out.zero_b.dtype = data.zeros.empty() ? out.zero_b.dtype : SCALEGEMM_INT8;  // as they are packed
  if (info.operand.scale.has_global != 0) {
    data.global = 1.0f;
    out.global_b = &*data.global;
  }
  packed.unpack(out);
  if (scalegemm_dtype_bits(info.operand.scale.zero_dtype) == 4) {  // stored as codes in the low nibble
    std::transform(data.zeros.begin(), data.zeros.end(), data.zeros.begin(),
                   [](uint8_t value) { return static_cast<uint8_t>(value & 0xF); });
  }
  WeightFile file;
  file.add("weight", std::move(data));
  file.write(options.output);
  if (!options.json.replaces_text()) {
    print(info);
    fmt::print("unpacked into {}\n", options.output);
  }
  options.json.write(json_of(info));
  return kExitOk;
}

// The tensor of the input that is to be packed: the one that --tensor names, or the only matrix.
std::string tensor_name(const Options& options, const std::vector<scalegemm_file_tensor>& tensors) {
  if (!options.tensor.empty()) {
    return find_tensor(tensors, options.tensor, options.input).name;
  }
  std::vector<std::string> matrices;
  for (const scalegemm_file_tensor& tensor : tensors) {
    const std::string name = tensor.name;
    if (tensor.rank == 2 && !name.ends_with(".scale") && !name.ends_with(".zero")) {
      matrices.push_back(name);
    }
  }
  if (matrices.size() != 1) {
    throw usage_error("--tensor", fmt::format("one of the matrices of {}", options.input),
                      fmt::format("none, and there are {}", matrices.size()), "add --tensor NAME");
  }
  return matrices.front();
}

harness::OperandData weight_of(const Options& options, const scalegemm_operand_desc& desc,
                               Progress& progress) {
  const File file = open_file(options.input);
  const auto tensors = file.tensors();
  const std::string name = tensor_name(options, tensors);
  const scalegemm_file_tensor& tensor = find_tensor(tensors, name, options.input);
  const bool quantised = desc.scale.dtype == SCALEGEMM_DTYPE_NONE
                             ? tensor.dtype == desc.dtype
                             : !is_float_matrix(tensor) || scalegemm_dtype_bits(tensor.dtype) == 8;
  if (quantised) {
    return load_weight(tensors, name, desc, options.input);
  }
  const Matrix matrix = to_matrix(tensor, options.input);
  progress.step(1, "quantising " + name);
  return harness::quantize(desc, matrix.values.data(), matrix.rows, matrix.cols);
}

int pack(const Options& options) {
  need_output(options);
  if (options.scheme.empty()) {
    throw usage_error("--scheme", "the scheme of the weights", "nothing", "scalegemm schemes lists them");
  }
  const scalegemm_operand_desc desc = make_problem(options.scheme, "rcr", 2, 2, 2).b;
  Progress progress(options.progress.show(), 4);
  progress.step(0, "reading " + options.input);
  harness::OperandData data =
      with_contents_of(options.input, [&] { return weight_of(options, desc, progress); });
  scalegemm_problem problem = with_contents_of(
      options.input, [&] { return make_problem(options.scheme, "rcr", 1, data.rows, data.k); });
  problem.b_packing = value_of(harness::kPackings, options.packing);
  const Runtime runtime = options.runtime.make_runtime();
  auto args = make<scalegemm_pack_args>();
  args.b = data.codes_tensor();
  args.scale_b = data.scales_tensor();
  args.zero_b = data.zeros_tensor();
  args.global_b = data.global ? &*data.global : nullptr;
  progress.step(2, "packing");
  const Packed packed(runtime, problem, args);
  progress.step(3, "writing " + options.output);
  packed.save(options.output);
  progress.clear();
  if (!options.json.replaces_text()) {
    print(packed.info());
    fmt::print("packed into {}\n", options.output);
  }
  options.json.write(json_of(packed.info()));
  return kExitOk;
}

int run(const Options& options) {
  if (options.inspect) {
    return inspect(options);
  }
  return options.unpack ? unpack(options) : pack(options);
}

}  // namespace

void add_pack(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.root->add_subcommand("pack", "Pack weights for the kernels; inspect and unpack packed files");
  command
      ->add_option("input", options->input,
                   "safetensors or npy file (float, or from scalegemm quantize); a packed file for "
                   "--inspect, --unpack")
      ->required()
      ->check(file_name());
  command->add_option("-o,--output", options->output, "The packed file, or the safetensors file of --unpack")
      ->check(file_name());
  command->add_option("--scheme", options->scheme, "Scheme whose operand B the weights are");
  command->add_option("--tensor", options->tensor, "Which tensor; default: the only matrix");
  command->add_option("--packing", options->packing, "packed: as the library prefers; or k1x32, k4x16")
      ->check(one_of(std::span(harness::kPackings).subspan(1)))
      ->capture_default_str();
  CLI::Option* inspect_flag =
      command->add_flag("--inspect", options->inspect, "Say what a packed file holds");
  command->add_flag("--unpack", options->unpack, "Write a packed file's codes and scales as safetensors")
      ->excludes(inspect_flag);
  options->runtime.add_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
