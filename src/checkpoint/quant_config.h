// What a model's JSON files say: how it was quantised, and which file holds which tensor.
//
// Read are config.json (its "quantization_config"), hf_quant_config.json (ModelOpt) and quantize_config.json
// (older GPTQ and AWQ tools). Of these files only the facts below are used; none of them is needed where the
// tensors say it all, and nothing that they say is believed against the tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace scalegemm::checkpoint {

inline constexpr uint64_t kMaxJsonBytes = 100'000'000;

enum class Tristate : uint8_t { kUnknown, kNo, kYes };

struct QuantConfig {
  std::string method;  // "fp8", "compressed-tensors", "mxfp4", "modelopt", "quark", "gptq", "awq"; "": none
  std::string
      format;  // compressed-tensors: format; GPTQ: checkpoint_format; AWQ: version; ModelOpt: algorithm
  std::string where;    // the file that says so, for messages
  int64_t bits = 0;     // of GPTQ and AWQ weights; 0: not said
  int64_t block_n = 0;  // weight_block_size (fp8) or block_structure (compressed-tensors); 0: not said
  int64_t block_k = 0;
  Tristate quantised_activations = Tristate::kUnknown;
};

// Of one of the three files. Code::kCorruptData for what is no JSON object, or a fact of the wrong type.
Result<QuantConfig> parse_quant_config(std::string_view text, std::string_view file);

// The "weight_map" of a *.safetensors.index.json: tensor -> file. Refused: a file that is not a plain name
// (it could lead out of the folder).
Result<std::map<std::string, std::string>> parse_index(std::string_view text);

}  // namespace scalegemm::checkpoint
