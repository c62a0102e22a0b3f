#include "checkpoint/convert.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "base/thread_pool.h"
#include "checkpoint/compressed_tensors.h"
#include "checkpoint/printable.h"
#include "checkpoint/quant_config.h"
#include "quant/dequantize.h"

namespace scalegemm::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using num::DType;

constexpr std::string_view kSuffix = ".safetensors";

// `pattern` with * for any text.
bool matches(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) {
    return pattern == text;
  }
  if (!text.starts_with(pattern.substr(0, star))) {
    return false;
  }
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= text.size(); ++at) {
    if (matches(rest, text.substr(at))) {
      return true;
    }
  }
  return false;
}

bool is_narrow(const spec::Scheme& scheme) {
  return scheme.a.scale.has_value();
}

// One unit of work.
struct Item {
  const Layer* layer = nullptr;          // null: a tensor that is no weight
  const StoredTensor* tensor = nullptr;  // to be copied
  int64_t member = 0;
  CtFormat format = CtFormat::kDense;
  CompressedShape shape;
  std::vector<TensorSpec> tensors;
  Converted report;
};

struct Work {
  std::vector<Item> items;
  std::vector<CompressedGroup> groups;
  std::vector<std::string> ignored;
};

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const ConvertOptions& options)
      : checkpoint_(checkpoint), options_(options) {}

  Result<Work> run() {
    for (const Layer& layer : checkpoint_.layers()) {
      if (!layer.problem.empty()) {
        return unsupported("{}", layer.problem);
      }
      SCALEGEMM_RETURN_IF_ERROR(add(layer).with_context("layer " + printable(layer.name)));
    }
    for (const LeftOut& left : checkpoint_.left_out()) {
      Item item;
      item.tensor = left.tensor;
      item.tensors = {{std::string(left.tensor->name),
                       left.tensor->type,
                       {left.tensor->shape.begin(), left.tensor->shape.end()}}};
      item.report.name = left.tensor->name;
      item.report.to = format_word(CtFormat::kDense);
      work_.items.push_back(std::move(item));
    }
    return std::move(work_);
  }

 private:
  bool is_ignored(const Layer& layer) const {
    return std::ranges::any_of(options_.ignore, [&](const std::string& p) { return matches(p, layer.name); });
  }

  Status add(const Layer& layer) {
    const bool dense =
        !layer.operand.scale && layer.operand.type != DType::kE4m3 && layer.operand.type != DType::kE5m2;
    const bool stays = dense && (!options_.scheme || is_ignored(layer));
    if (stays) {
      Item item;
      item.layer = &layer;
      item.tensor = layer.source.codes;
      item.tensors = {{std::string(item.tensor->name),
                       item.tensor->type,
                       {item.tensor->shape.begin(), item.tensor->shape.end()}}};
      item.report.name = layer.name;
      item.report.from = layer.format;
      item.report.to = format_word(CtFormat::kDense);
      work_.items.push_back(std::move(item));
      work_.ignored.push_back(layer.name);
      return ok_status();
    }
    spec::OperandSpec target = layer.operand;
    bool narrow = false;
    if (options_.scheme) {
      target = options_.scheme->b;
      narrow = is_narrow(*options_.scheme);
    } else if (const auto own = spec::parse_scheme(layer.scheme); own.ok()) {
      narrow = is_narrow(*own);
    }
    const bool carried = same_codes(layer.operand, target, layer.k);
    if (carried) {
      target = layer.operand;  // with the scale type that it has
    }
    target.layout = spec::Layout::kCol;
    SCALEGEMM_ASSIGN_OR_RETURN(const CtFormat format, compressed_format(target, layer.n, layer.k));
    SCALEGEMM_RETURN_IF_ERROR(quant::output_sizes(target, layer.n, layer.k).status());
    for (int64_t member = 0; member < layer.count; ++member) {
      Item item;
      item.layer = &layer;
      item.member = member;
      item.format = format;
      item.shape.name = layer.count == 1 ? layer.name : fmt::format("{}.{}", layer.name, member);
      item.shape.operand = target;
      item.shape.n = layer.n;
      item.shape.k = layer.k;
      item.shape.act_order = carried && layer.source.group_of_k != nullptr;
      item.tensors = compressed_tensors(format, item.shape);
      item.report.name = item.shape.name;
      item.report.from = layer.format;
      item.report.to = format_word(format);
      item.report.how = carried ? Conversion::kCarried : Conversion::kQuantised;
      group_of({.format = format,
                .operand = target,
                .narrow = narrow,
                .act_order = item.shape.act_order,
                .layers = {}})
          .layers.push_back(item.shape.name);
      work_.items.push_back(std::move(item));
    }
    return ok_status();
  }

  // Equal but for the float type of scales, and for blocks that reach the end of K anyhow.
  static bool same_codes(const spec::OperandSpec& from, const spec::OperandSpec& to, int64_t k) {
    if (from.type != to.type || from.scale.has_value() != to.scale.has_value()) {
      return false;
    }
    if (!from.scale) {
      return true;
    }
    const auto reach = [k](int64_t block) { return block == spec::kAll ? k : std::min(block, k); };
    const bool floats = num::info(from.scale->type).bits > 8 && num::info(to.scale->type).bits > 8;
    return (from.scale->type == to.scale->type || floats) && from.scale->block_rows == to.scale->block_rows &&
           reach(from.scale->block_k) == reach(to.scale->block_k) &&
           from.scale->zero_type == to.scale->zero_type && from.scale->global == to.scale->global;
  }

  CompressedGroup& group_of(CompressedGroup wanted) {
    for (CompressedGroup& group : work_.groups) {
      if (group.same_kind(wanted)) {
        return group;
      }
    }
    return work_.groups.emplace_back(std::move(wanted));
  }

  const Checkpoint& checkpoint_;
  const ConvertOptions& options_;
  Work work_;
};

// The numbers of a weight, its columns where the weight has them.
Result<std::vector<float>> numbers(const LayerData& data) {
  std::vector<float> values(static_cast<size_t>(data.n * data.k));
  const quant::QuantizedView view = {.rows = data.n,
                                     .k = data.k,
                                     .codes = data.codes,
                                     .scales = data.scales,
                                     .zeros = data.zeros,
                                     .global = &data.global};
  SCALEGEMM_RETURN_IF_ERROR(
      quant::dequantize(data.operand, view, quant::Destination<float>{values.data(), data.k, 1}));
  if (data.columns.empty()) {
    return values;
  }
  std::vector<float> row(static_cast<size_t>(data.k));
  for (int64_t n = 0; n < data.n; ++n) {
    float* at = values.data() + n * data.k;
    std::copy_n(at, data.k, row.begin());
    for (int64_t j = 0; j < data.k; ++j) {
      at[data.columns[static_cast<size_t>(j)]] = row[static_cast<size_t>(j)];
    }
  }
  return values;
}

// What a reader makes of the tensors of one layer.
Result<std::vector<float>> read_back(const Item& item, const std::vector<std::vector<std::byte>>& bytes,
                                     bool narrow) {
  std::vector<StoredTensor> tensors;
  for (size_t i = 0; i < item.tensors.size(); ++i) {
    const TensorSpec& spec = item.tensors[i];
    const SafetensorsType* type = find_safetensors_type(spec.type);
    tensors.push_back({spec.name, spec.type, type->dtype, spec.shape, bytes[i]});
  }
  QuantConfig config;
  config.method = item.format == CtFormat::kDense ? "" : "compressed-tensors";
  config.format = format_word(item.format);
  if (const auto& scale = item.shape.operand.scale; scale && scale->block_rows > 1) {
    config.block_n = scale->block_rows, config.block_k = scale->block_k;
  }
  config.quantised_activations = narrow ? Tristate::kYes : Tristate::kNo;
  SCALEGEMM_ASSIGN_OR_RETURN(const TensorStore store, TensorStore::of(std::move(tensors), std::move(config)));
  const Contents contents = detect(store);
  if (contents.layers.size() != 1 || !contents.left_out.empty()) {
    return make_error(Code::kInternal, "{}: what was made of it is not one layer",
                      printable(item.shape.name));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const LayerData data, read_layer(contents.layers[0], 0));
  return numbers(data);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double sqnr_db(const std::vector<float>& reference, const std::vector<float>& values) {
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = reference[i];
    const double error = x - values[i];
    signal += x * x, noise += error * error;
  }
  return noise == 0 ? HUGE_VAL : 10 * std::log10(signal / noise);
}

// Carries or quantises one matrix; the bytes of its tensors, and `report` filled in.
Result<std::vector<std::vector<std::byte>>> make_tensors(const Item& item, const ConvertOptions& options,
                                                         Converted* report) {
  SCALEGEMM_ASSIGN_OR_RETURN(LayerData data, read_layer(*item.layer, item.member));
  SCALEGEMM_ASSIGN_OR_RETURN(std::vector<float> wanted, numbers(data));
  quant::QuantizedMatrix made;
  if (item.report.how == Conversion::kQuantised) {
    SCALEGEMM_ASSIGN_OR_RETURN(
        made, quant::quantize(item.shape.operand,
                              {.data = wanted.data(), .rows = data.n, .k = data.k, .stride_r = data.k},
                              {options.scale_rounding}));
    data.operand = made.operand;
    data.grid = made.grid;
    data.codes = made.codes;
    data.scales = made.scales;
    data.zeros = made.zeros;
    data.global = item.format == CtFormat::kNvfp4 ? stored_factor(made.global) : made.global;
    data.columns.clear();
    SCALEGEMM_ASSIGN_OR_RETURN(std::vector<float> decoded, numbers(data));
    report->sqnr_db = sqnr_db(wanted, decoded);
    wanted = std::move(decoded);
  }
  std::vector<std::vector<std::byte>> bytes = compressed_bytes(item.format, data);
  SCALEGEMM_ASSIGN_OR_RETURN(const std::vector<float> found,
                             read_back(item, bytes, options.scheme && is_narrow(*options.scheme)));
  report->exact = same_bits(found, wanted);
  return bytes;
}

// What must be the same for a conversion to be taken up again.
std::string fingerprint(const Checkpoint& checkpoint, const ConvertOptions& options) {
  base::Hasher hasher;
  hasher.add(options.scheme ? options.scheme->text : "");
  hasher.add(quant::name(options.scale_rounding));
  for (const std::string& pattern : options.ignore) {
    hasher.add(pattern);
  }
  std::error_code error;
  const auto add_file = [&](const fs::path& path) {
    hasher.add(path.filename().string());
    hasher.add(std::to_string(fs::file_size(path, error)));
    hasher.add(std::to_string(fs::last_write_time(path, error).time_since_epoch().count()));
  };
  const fs::path path(checkpoint.store().path());
  if (fs::is_directory(path, error)) {
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      files.insert(entry.path());
    }
    for (const fs::path& file : files) {
      add_file(file);
    }
  } else {
    add_file(path);
  }
  return hasher.finish().hex();
}

// Does a file beside the weights go with the model? A folder is the model's own; beside a single file
// anything may lie, so only what models are known to have.
bool goes_along(const std::string& name, bool folder) {
  constexpr std::array<std::string_view, 12> kKnown = {"config.json",         "generation_config.json",
                                                       "tokenizer.json",      "tokenizer_config.json",
                                                       "tokenizer.model",     "special_tokens_map.json",
                                                       "added_tokens.json",   "vocab.json",
                                                       "vocab.txt",           "merges.txt",
                                                       "chat_template.jinja", "preprocessor_config.json"};
  if (std::ranges::find(kKnown, name) != kKnown.end()) {
    return true;
  }
  constexpr std::array<std::string_view, 6> kEndings = {".json", ".txt", ".model", ".jinja", ".py", ".md"};
  return folder && !name.ends_with(".safetensors.index.json") && name != "hf_quant_config.json" &&
         name != "quantize_config.json" &&
         std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// The files beside the weights: config.json with the new quantization_config, the others as they are.
Status write_folder(const std::string& source, const fs::path& folder, const std::string& config_text) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  std::error_code error;
  const fs::path from = fs::is_directory(source, error) ? fs::path(source) : fs::path(source).parent_path();
  Json config = Json::object();
  for (const auto& entry : fs::directory_iterator(from.empty() ? "." : from, error)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file(error) || !goes_along(name, fs::is_directory(source, error))) {
      continue;
    }
    SCALEGEMM_ASSIGN_OR_RETURN(const std::string text, base::read_file(entry.path().string(), kMostBytes));
    if (name == "config.json") {
      config = Json::parse(text, nullptr, false);
      if (!config.is_object()) {
        return corrupt("{}: needs a JSON object", entry.path().string());
      }
      continue;
    }
    const std::string_view part = text;
    SCALEGEMM_RETURN_IF_ERROR(
        base::atomic_publish((folder / name).string(), std::span(&part, 1), base::Access::kUmask));
  }
  config["quantization_config"] = Json::parse(config_text);
  const std::string text = config.dump(2) + "\n";
  const std::string_view part = text;
  return base::atomic_publish((folder / "config.json").string(), std::span(&part, 1), base::Access::kUmask);
}

// What all threads share; the lock is for the writer and the caller's report.
struct Progress {
  std::mutex mutex;
  Status status;
  bool stopped = false;
  int64_t done = 0;
};

}  // namespace

Result<bool> convert(const Checkpoint& checkpoint, const std::string& output, const ConvertOptions& options,
                     const ConvertReport& report) {
  SCALEGEMM_ASSIGN_OR_RETURN(Work work, Planner(checkpoint, options).run());
  const bool file = output.ends_with(kSuffix);
  std::error_code error;
  const fs::path folder = file ? fs::path(output).parent_path() : fs::path(output);
  const std::string path = file ? output : (folder / "model.safetensors").string();
  const fs::path source(checkpoint.store().path());
  if (fs::equivalent(path, source, error) || fs::equivalent(folder, source, error)) {
    return invalid_argument("output: needs a place of its own, given that of the input, {}", output);
  }
  if (!file) {
    SCALEGEMM_RETURN_IF_ERROR(base::make_dirs(output));
  }
  const std::string config = compressed_config(work.groups, work.ignored);
  std::vector<TensorSpec> tensors;
  for (const Item& item : work.items) {
    tensors.insert(tensors.end(), item.tensors.begin(), item.tensors.end());
  }
  std::vector<uint64_t> marked;
  SCALEGEMM_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::resume(path, tensors,
                                {{"format", "pt"}, {"quantization_config", Json::parse(config).dump()}},
                                fingerprint(checkpoint, options), &marked));

  Progress progress;
  const auto total = static_cast<int64_t>(work.items.size());
  const auto finish = [&](Converted&& converted) {
    progress.stopped = progress.stopped || !report(converted, ++progress.done, total);
  };
  const std::set<uint64_t> before(marked.begin(), marked.end());
  const auto convert_one = [&](uint64_t index) -> Status {
    const Item& item = work.items[index];
    Converted converted = item.report;
    const bool again = !before.contains(index);
    std::vector<std::vector<std::byte>> made;
    if (again && item.tensor == nullptr) {
      SCALEGEMM_ASSIGN_OR_RETURN(made, make_tensors(item, options, &converted));
    }
    const std::lock_guard lock(progress.mutex);
    for (size_t i = 0; i < item.tensors.size(); ++i) {
      const std::string& name = item.tensors[i].name;
      const std::span<const std::byte> bytes = item.tensor != nullptr ? item.tensor->bytes
                                               : again                ? std::span<const std::byte>(made[i])
                                                                      : std::span<const std::byte>();
      SCALEGEMM_RETURN_IF_ERROR(again ? writer.write(name, bytes) : writer.skip(name));
      converted.bytes += bytes.size();
    }
    if (again) {
      SCALEGEMM_RETURN_IF_ERROR(writer.mark(index));
    }
    converted.resumed = !again;
    finish(std::move(converted));
    return ok_status();
  };
  base::ThreadPool pool(options.threads);
  pool.parallel_for(total, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      {
        const std::lock_guard lock(progress.mutex);
        if (progress.stopped || !progress.status.ok()) {
          return;
        }
      }
      if (const Status status = convert_one(static_cast<uint64_t>(i)); !status.ok()) {
        const std::lock_guard lock(progress.mutex);
        progress.status = progress.status.ok() ? status : progress.status;
      }
    }
  });
  SCALEGEMM_RETURN_IF_ERROR(progress.status);
  if (progress.stopped) {
    return false;
  }
  if (!file) {
    SCALEGEMM_RETURN_IF_ERROR(write_folder(checkpoint.store().path(), folder, config));
  }
  SCALEGEMM_RETURN_IF_ERROR(writer.finish());
  return true;
}

}  // namespace scalegemm::checkpoint
