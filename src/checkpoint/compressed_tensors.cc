#include "checkpoint/compressed_tensors.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/form.h"
#include "checkpoint/safetensors.h"
#include "num/bulk.h"

namespace scalegemm::checkpoint {
namespace {

using num::DType;
using Bytes = std::vector<std::byte>;
using Json = nlohmann::ordered_json;

constexpr int64_t kMx = 32;
constexpr int64_t kNv = 16;
constexpr int64_t kNibbles = 8;            // of a word
constexpr std::byte kSignOfNibbles{0x88};  // q + 8 of both nibbles, two's complement or not

bool is_wide(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBf16;
}

bool spans_row(const spec::ScaleSpec& scale, int64_t k) {
  return scale.block_k == spec::kAll || scale.block_k >= k;
}

template <class T>
Bytes bytes_of_values(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// The codes with their columns where the weight has them.
Bytes in_order(const LayerData& data) {
  Bytes codes = copy(data.codes);
  if (data.columns.empty()) {
    return codes;
  }
  std::fill(codes.begin(), codes.end(), std::byte{0});
  for (int64_t n = 0; n < data.n; ++n) {
    const std::byte* from = data.codes.data() + n * data.k / 2;
    std::byte* to = codes.data() + n * data.k / 2;
    for (int64_t j = 0; j < data.k; ++j) {
      const int32_t at = data.columns[static_cast<size_t>(j)];
      to[at / 2] |= static_cast<std::byte>(num::load_code(DType::kUint4, from, j) << (at % 2 * 4));
    }
  }
  return codes;
}

// Rows of K/2 bytes to words: code j of a word at bits 4j.
Bytes words_along_k(const LayerData& data) {
  const Bytes codes = in_order(data);
  const auto row = static_cast<size_t>(data.k / 2);
  const auto stride = static_cast<size_t>(4 * ceil_div(data.k, kNibbles));
  Bytes words(static_cast<size_t>(data.n) * stride);
  const std::byte flip = data.operand.type == DType::kInt4 ? kSignOfNibbles : std::byte{0};
  for (size_t n = 0; n < static_cast<size_t>(data.n); ++n) {
    for (size_t i = 0; i < row; ++i) {
      words[n * stride + i] = codes[n * row + i] ^ flip;
    }
  }
  return words;
}

// Zero points of eight rows to a word.
Bytes words_along_n(const LayerData& data) {
  std::vector<uint32_t> words(static_cast<size_t>(ceil_div(data.n, kNibbles) * data.grid.cols));
  for (int64_t n = 0; n < data.n; ++n) {
    for (int64_t g = 0; g < data.grid.cols; ++g) {
      const auto zero = static_cast<uint32_t>(data.zeros[static_cast<size_t>(n * data.grid.cols + g)]);
      words[static_cast<size_t>(n / kNibbles * data.grid.cols + g)] |= zero << (4 * (n % kNibbles));
    }
  }
  return bytes_of_values(words);
}

Bytes group_of_k(const LayerData& data) {
  const int64_t group = data.operand.scale->block_k == spec::kAll ? data.k : data.operand.scale->block_k;
  std::vector<int32_t> groups(static_cast<size_t>(data.k));
  for (int64_t j = 0; j < data.k; ++j) {
    groups[static_cast<size_t>(data.columns[static_cast<size_t>(j)])] = static_cast<int32_t>(j / group);
  }
  return bytes_of_values(groups);
}

// The number whose rounded reciprocal is nearest to the factor: the factor itself where there is one.
float divisor_of(float factor) {
  const float first = 1 / factor;
  float best = first;
  for (const float candidate : {std::nextafter(first, 0.0f), std::nextafter(first, HUGE_VALF)}) {
    if (std::abs(1 / candidate - factor) < std::abs(1 / best - factor)) {
      best = candidate;
    }
  }
  return best;
}

std::string_view word_of(DType type) {
  return type == DType::kE8m0 ? "U8" : safetensors_name(type).value_or("");
}

// What the config says of a quantised matrix.
Json arguments(int bits, bool is_float, std::string_view strategy) {
  return {{"num_bits", bits},     {"type", is_float ? "float" : "int"},
          {"symmetric", true},    {"group_size", nullptr},
          {"strategy", strategy}, {"dynamic", false}};
}

Json weight_arguments(const CompressedGroup& group) {
  const spec::ScaleSpec& scale = *group.operand.scale;
  const bool is_float = group.format != CtFormat::kInt && group.format != CtFormat::kPack;
  const bool all_rows = scale.block_rows == spec::kAll;
  const bool all_k = scale.block_k == spec::kAll;
  Json json = arguments(num::info(group.operand.type).bits, is_float,
                        group.format == CtFormat::kNvfp4 ? "tensor_group"
                        : scale.block_rows > 1 && !all_k ? "block"
                        : !all_k                         ? "group"
                        : all_rows                       ? "tensor"
                                                         : "channel");
  json["symmetric"] = !scale.zero_type.has_value();
  if (json["strategy"] == "block") {
    json["block_structure"] = {scale.block_rows, scale.block_k};
  } else if (!all_k) {
    json["group_size"] = scale.block_k;
  }
  if (scale.type == DType::kE8m0) {
    json["scale_dtype"] = "torch.uint8";
  } else if (scale.type == DType::kE4m3) {
    json["scale_dtype"] = "torch.float8_e4m3fn";
  }
  if (scale.zero_type) {
    json["zp_dtype"] = "torch.int8";
  }
  if (group.act_order) {
    json["actorder"] = "group";
  }
  return json;
}

// Quantised as the library's schemes do: a token at a time, or a run of K of one.
Json input_arguments(const CompressedGroup& group) {
  const spec::ScaleSpec& scale = *group.operand.scale;
  const bool runs = scale.block_k != spec::kAll;
  Json json =
      arguments(num::info(group.operand.type).bits, group.format != CtFormat::kInt, runs ? "group" : "token");
  json["dynamic"] = true;
  if (runs) {
    json["group_size"] = scale.block_k;
  }
  if (scale.type == DType::kE8m0) {
    json["scale_dtype"] = "torch.uint8";
  }
  return json;
}

}  // namespace

float stored_factor(float factor) {
  return 1 / divisor_of(factor);
}

std::string_view format_word(CtFormat format) {
  switch (format) {
    case CtFormat::kFloat:
      return "float-quantized";
    case CtFormat::kInt:
      return "int-quantized";
    case CtFormat::kPack:
      return "pack-quantized";
    case CtFormat::kMxfp4:
      return "mxfp4-pack-quantized";
    case CtFormat::kNvfp4:
      return "nvfp4-pack-quantized";
    case CtFormat::kMxfp8:
      return "mxfp8-quantized";
    case CtFormat::kDense:
      break;
  }
  return "dense";
}

Result<CtFormat> compressed_format(const spec::OperandSpec& operand, int64_t n, int64_t k) {
  if (!operand.scale) {
    if (is_wide(operand.type)) {
      return CtFormat::kDense;
    }
  } else {
    const spec::ScaleSpec& scale = *operand.scale;
    const bool plain = !scale.zero_type && !scale.global;
    const bool of_rows = scale.block_rows == 1;
    if (is_wide(scale.type) && plain && operand.type == DType::kE4m3) {
      return CtFormat::kFloat;
    }
    if (is_wide(scale.type) && plain && operand.type == DType::kInt8 && spans_row(scale, k) &&
        (of_rows || scale.block_rows == spec::kAll)) {
      return CtFormat::kInt;
    }
    const bool four = (operand.type == DType::kInt4 && plain) ||
                      (operand.type == DType::kUint4 && scale.zero_type == DType::kUint4 && !scale.global);
    if (is_wide(scale.type) && four && of_rows) {
      if (!spans_row(scale, k) && k % scale.block_k != 0) {
        return unsupported("pack-quantized needs a K that is a multiple of its groups of {}, got {}",
                           scale.block_k, k);
      }
      return CtFormat::kPack;
    }
    if (of_rows && operand.type == DType::kE2m1 && scale.type == DType::kE8m0 && plain &&
        scale.block_k == kMx) {
      return CtFormat::kMxfp4;
    }
    if (of_rows && operand.type == DType::kE2m1 && scale.type == DType::kE4m3 && scale.global &&
        scale.block_k == kNv) {
      return CtFormat::kNvfp4;
    }
    if (of_rows && operand.type == DType::kE4m3 && scale.type == DType::kE8m0 && plain &&
        scale.block_k == kMx) {
      return CtFormat::kMxfp8;
    }
  }
  return unsupported(
      "compressed-tensors needs e4m3 with float scales or e8m0 scales of 32, int8 with a scale a row or one, "
      "int4 or "
      "uint4 with float scales of rows or of groups in them (and uint4 zero points), e2m1 with e8m0 scales "
      "of 32 or "
      "with e4m3 scales of 16 and a factor, or f32, f16, bf16; a weight of {} x {} is another",
      n, k);
}

std::vector<TensorSpec> compressed_tensors(CtFormat format, const CompressedShape& s) {
  const std::string weight = s.name + ".weight";
  if (format == CtFormat::kDense) {
    return {{weight, word_of(s.operand.type), {s.n, s.k}}};
  }
  const spec::ScaleSpec& scale = *s.operand.scale;
  const spec::Grid grid = spec::scale_grid(scale, s.n, s.k);
  const bool one = grid.rows == 1 && grid.cols == 1 && scale.block_rows == spec::kAll;
  const TensorSpec scales = {weight + "_scale", word_of(scale.type),
                             one ? std::vector<int64_t>{1} : std::vector<int64_t>{grid.rows, grid.cols}};
  switch (format) {
    case CtFormat::kPack: {
      std::vector<TensorSpec> list = {{weight + "_packed", "I32", {s.n, ceil_div(s.k, kNibbles)}},
                                      scales,
                                      {weight + "_shape", "I64", {2}}};
      if (scale.zero_type) {
        list.push_back({weight + "_zero_point", "I32", {ceil_div(s.n, kNibbles), grid.cols}});
      }
      if (s.act_order) {
        list.push_back({weight + "_g_idx", "I32", {s.k}});
      }
      return list;
    }
    case CtFormat::kMxfp4:
      return {{weight + "_packed", "U8", {s.n, s.k / 2}}, scales};
    case CtFormat::kNvfp4:
      return {{weight + "_packed", "U8", {s.n, s.k / 2}}, scales, {weight + "_global_scale", "F32", {1}}};
    default:
      return {{weight, word_of(s.operand.type), {s.n, s.k}}, scales};
  }
}

std::vector<std::vector<std::byte>> compressed_bytes(CtFormat format, const LayerData& data) {
  switch (format) {
    case CtFormat::kDense:
      return {copy(data.codes)};
    case CtFormat::kPack: {
      std::vector<Bytes> list = {words_along_k(data), copy(data.scales),
                                 bytes_of_values(std::vector<int64_t>{data.n, data.k})};
      if (data.operand.scale->zero_type) {
        list.push_back(words_along_n(data));
      }
      if (!data.columns.empty()) {
        list.push_back(group_of_k(data));
      }
      return list;
    }
    case CtFormat::kNvfp4:
      return {copy(data.codes), copy(data.scales),
              bytes_of_values(std::vector<float>{divisor_of(data.global)})};
    default:
      return {copy(data.codes), copy(data.scales)};
  }
}

std::string compressed_config(const std::vector<CompressedGroup>& groups,
                              const std::vector<std::string>& ignored) {
  bool mixed = false;
  for (const CompressedGroup& group : groups) {
    mixed = mixed || group.format != groups[0].format;
  }
  Json json = {{"quant_method", "compressed-tensors"},
               {"format", groups.empty() ? "dense"
                          : mixed        ? "mixed-precision"
                                         : format_word(groups[0].format)},
               {"quantization_status", "compressed"},
               {"config_groups", Json::object()},
               {"ignore", ignored},
               {"kv_cache_scheme", nullptr}};
  for (size_t i = 0; i < groups.size(); ++i) {
    const CompressedGroup& group = groups[i];
    Json& entry = json["config_groups"][fmt::format("group_{}", i)];
    // One kind alone is every linear layer but the ignored ones, as the tools of the format write it.
    entry["targets"] = groups.size() == 1 ? Json{"Linear"} : Json(group.layers);
    entry["format"] = format_word(group.format);
    entry["weights"] = weight_arguments(group);
    entry["input_activations"] = group.narrow ? input_arguments(group) : Json();
    entry["output_activations"] = nullptr;
  }
  return json.dump(2);
}

}  // namespace scalegemm::checkpoint
