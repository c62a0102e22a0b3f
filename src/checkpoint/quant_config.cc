#include "checkpoint/quant_config.h"

#include <nlohmann/json.hpp>

#include "checkpoint/printable.h"

namespace scalegemm::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxBlock = int64_t{1} << 31;

Result<Json> parse_object(std::string_view text) {
  // The parser takes a zero byte for the end of the text.
  Json json = text.find('\0') == std::string_view::npos
                  ? Json::parse(text.begin(), text.end(), nullptr, false)
                  : Json(Json::value_t::discarded);
  if (!json.is_object()) {
    return corrupt("needs to be a JSON object");
  }
  return json;
}

// The object under that key, or null where there is none (or null stands there).
const Json* find(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Status read_text(const Json& object, const char* key, std::string* out) {
  const Json* value = find(object, key);
  if (value == nullptr) {
    return ok_status();
  }
  if (!value->is_string()) {
    return corrupt("{}: needs a text", key);
  }
  *out = value->get<std::string>();
  return ok_status();
}

Result<int64_t> block_of(const Json& value, const char* key) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() == 0 || value.get<uint64_t>() > kMaxBlock) {
    return corrupt("{}: needs whole numbers from 1 to 2^31", key);
  }
  return value.get<int64_t>();
}

Status read_blocks(const Json& object, const char* key, QuantConfig& config) {
  const Json* value = find(object, key);
  if (value == nullptr) {
    return ok_status();
  }
  if (!value->is_array() || value->size() != 2) {
    return corrupt("{}: needs two numbers", key);
  }
  SCALEGEMM_ASSIGN_OR_RETURN(config.block_n, block_of((*value)[0], key));
  SCALEGEMM_ASSIGN_OR_RETURN(config.block_k, block_of((*value)[1], key));
  return ok_status();
}

void note_activations(const Json& group, const char* key, QuantConfig& config) {
  if (!group.is_object() || config.quantised_activations == Tristate::kYes) {
    return;
  }
  config.quantised_activations = find(group, key) != nullptr ? Tristate::kYes : Tristate::kNo;
}

// compressed-tensors, and ModelOpt's form of it: a group of layers names weights and activations.
Status read_groups(const Json& json, QuantConfig& config) {
  const Json* groups = find(json, "config_groups");
  if (groups == nullptr || !groups->is_object()) {
    return ok_status();
  }
  for (const Json& group : *groups) {
    note_activations(group, "input_activations", config);
    if (const Json* weights = find(group, "weights")) {
      SCALEGEMM_RETURN_IF_ERROR(read_blocks(*weights, "block_structure", config));
    }
  }
  return ok_status();
}

Status read_facts(const Json& json, QuantConfig& config) {
  SCALEGEMM_RETURN_IF_ERROR(read_text(json, "quant_method", &config.method));
  for (const char* key : {"format", "checkpoint_format", "version", "quant_algo"}) {
    if (config.format.empty()) {
      SCALEGEMM_RETURN_IF_ERROR(read_text(json, key, &config.format));
    }
  }
  const char* bits_key = find(json, "bits") != nullptr ? "bits" : "w_bit";
  if (const Json* bits = find(json, bits_key)) {
    SCALEGEMM_ASSIGN_OR_RETURN(config.bits, block_of(*bits, bits_key));
  }
  SCALEGEMM_RETURN_IF_ERROR(read_blocks(json, "weight_block_size", config));
  if (const Json* global = find(json, "global_quant_config")) {  // Quark
    note_activations(*global, "input_tensors", config);
  }
  return read_groups(json, config);
}

}  // namespace

Result<QuantConfig> parse_quant_config(std::string_view text, std::string_view file) {
  SCALEGEMM_ASSIGN_OR_RETURN(const Json json, parse_object(text));
  QuantConfig config;
  config.where = file;
  if (file == "config.json") {
    const Json* section = find(json, "quantization_config");
    if (section == nullptr) {
      return QuantConfig{};
    }
    SCALEGEMM_RETURN_IF_ERROR(read_facts(*section, config));
    if (config.method.empty()) {
      return corrupt("quantization_config: needs a quant_method");
    }
    return config;
  }
  if (file == "hf_quant_config.json") {
    config.method = "modelopt";
    const Json* section = find(json, "quantization");
    SCALEGEMM_RETURN_IF_ERROR(read_facts(section != nullptr ? *section : json, config));
    return config;
  }
  SCALEGEMM_RETURN_IF_ERROR(read_facts(json, config));
  if (config.method.empty()) {
    config.method = find(json, "zero_point") != nullptr || find(json, "w_bit") != nullptr ? "awq" : "gptq";
  }
  return config;
}

Result<std::map<std::string, std::string>> parse_index(std::string_view text) {
  SCALEGEMM_ASSIGN_OR_RETURN(const Json json, parse_object(text));
  const Json* files = find(json, "weight_map");
  if (files == nullptr || !files->is_object()) {
    return corrupt("weight_map: needs an object of tensor and file");
  }
  std::map<std::string, std::string> map;
  for (const auto& [name, file] : files->items()) {
    if (!file.is_string()) {
      return corrupt("weight_map: tensor {}: needs the name of a file", printable(name));
    }
    std::string path = file.get<std::string>();
    if (!path.ends_with(".safetensors") || path.find_first_of(std::string_view("/\\\0", 3)) != path.npos) {
      return corrupt("weight_map: tensor {}: needs a plain name that ends in .safetensors, has {}",
                     printable(name), printable(path));
    }
    map.emplace(name, std::move(path));
  }
  return map;
}

}  // namespace scalegemm::checkpoint
