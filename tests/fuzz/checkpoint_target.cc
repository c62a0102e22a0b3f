// GGUF files and the JSON files beside a model.
#include <cstring>

#include "checkpoint/detect.h"
#include "checkpoint/gguf.h"
#include "checkpoint/quant_config.h"
#include "fuzz/target.h"

namespace scalegemm::fuzz {
namespace {

template <class T>
std::string number(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string text(std::string_view value) {
  return number<uint64_t>(value.size()).append(value);
}

std::string gguf_header(uint64_t tensors, uint64_t entries) {
  return "GGUF" + number<uint32_t>(3) + number(tensors) + number(entries);
}

// Two tensors, Q4_0 of 2 x 32 and F32 of 3, with entries of every kind before them.
std::string gguf_file() {
  std::string file = gguf_header(2, 4);
  file += text("general.alignment") + number<uint32_t>(4) + number<uint32_t>(32);
  file += text("a.text") + number<uint32_t>(8) + text("word");
  file +=
      text("a.list") + number<uint32_t>(9) + number<uint32_t>(8) + number<uint64_t>(2) + text("x") + text("");
  file += text("a.flag") + number<uint32_t>(7) + std::string(1, '\1');
  file += text("w") + number<uint32_t>(2) + number<uint64_t>(32) + number<uint64_t>(2) + number<uint32_t>(2) +
          number<uint64_t>(0);
  file += text("b") + number<uint32_t>(1) + number<uint64_t>(3) + number<uint32_t>(0) + number<uint64_t>(64);
  file.append((32 - file.size() % 32) % 32, '\0');
  return file.append(76, 'd');
}

void check_tensors(const std::vector<checkpoint::GgufTensor>& tensors, size_t file_bytes) {
  uint64_t next = 0;
  for (const checkpoint::GgufTensor& tensor : tensors) {
    require(tensor.type != nullptr, "a tensor has a type");
    require(tensor.begin >= next && tensor.end >= tensor.begin && tensor.end <= file_bytes,
            "tensors lie in the file, apart from each other");
    require(tensor.shape.size() <= checkpoint::kMaxGgufRank, "a rank is small");
    next = tensor.end;
  }
}

Verdict verdict(const Status& status) {
  if (status.ok()) {
    return {};
  }
  require(status.code() == Code::kCorruptData || status.code() == Code::kUnsupported,
          "a refusal is corrupt data or unsupported");
  require(!status.message().empty() && status.message().size() < 1000, "a message is short");
  return status.message();
}

// A tensor over the start of `memory`; without a name where there is no such tensor.
checkpoint::StoredTensor tensor_of(const std::string& name, std::string_view type,
                                   std::span<const int64_t> shape, std::span<const std::byte> memory) {
  const checkpoint::SafetensorsType* row = checkpoint::find_safetensors_type(type);
  if (row == nullptr) {
    return {};
  }
  const Result<int64_t> bytes = checkpoint::tensor_bytes(*row, shape);
  if (!bytes.ok() || static_cast<uint64_t>(*bytes) > memory.size()) {
    return {};
  }
  return {name, row->name, row->dtype, shape, memory.subspan(0, static_cast<size_t>(*bytes))};
}

struct Words {
  std::string method;
  std::vector<std::string> names;
  std::vector<std::string> types;
  std::vector<std::vector<int64_t>> shapes;
};

// "METHOD;NAME TYPE EXTENT EXTENT;..." with extents of one or two digits.
Words words_of(std::string_view input) {
  Words words;
  size_t field = 0;
  while (!input.empty() && words.names.size() < 12) {
    const size_t end = std::min(input.find(';'), input.size());
    std::vector<std::string> parts(1);
    for (const char c : input.substr(0, end)) {
      if (c == ' ') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    input.remove_prefix(std::min(end + 1, input.size()));
    if (field++ == 0) {
      words.method = parts[0];
    } else if (parts.size() >= 2) {
      words.names.push_back(parts[0]);
      words.types.push_back(parts[1]);
      words.shapes.emplace_back();
      for (size_t i = 2; i < parts.size(); ++i) {
        words.shapes.back().push_back(
            parts[i].empty() ? 0 : parts[i][0] - '0' + (parts[i].size() > 1 ? 16 * (parts[i][1] - '0') : 0));
      }
    }
  }
  return words;
}

Verdict detect_layers(std::string_view input, std::span<const std::byte> memory) {
  const Words words = words_of(input);
  std::vector<checkpoint::StoredTensor> tensors;
  for (size_t i = 0; i < words.names.size(); ++i) {
    const auto tensor = tensor_of(words.names[i], words.types[i], words.shapes[i], memory);
    if (!tensor.name.empty()) {
      tensors.push_back(tensor);
    }
  }
  checkpoint::QuantConfig config;
  config.method = words.method;
  const auto store = checkpoint::TensorStore::of(std::move(tensors), config);
  if (!store.ok()) {
    return store.status().message();
  }
  const checkpoint::Contents contents = checkpoint::detect(*store);
  Verdict last = contents.layers.empty() ? "no layer" : "";
  for (const checkpoint::Layer& layer : contents.layers) {
    if (!layer.problem.empty()) {
      last = "a problem";
      continue;
    }
    const Result<checkpoint::LayerData> data = checkpoint::read_layer(layer, layer.count - 1);
    if (!data.ok()) {
      last = verdict(data.status());
      continue;
    }
    require(static_cast<int64_t>(data->codes.size()) == layer.n * num::bytes_of(layer.operand.type, layer.k),
            "codes have their size");
    if (layer.operand.scale) {
      const int64_t grid = data->grid.rows * data->grid.cols;
      require(static_cast<int64_t>(data->scales.size()) == num::bytes_of(layer.operand.scale->type, grid),
              "scales have their size");
      require(static_cast<int64_t>(data->zeros.size()) == (layer.operand.scale->zero_type ? grid : 0),
              "zero points have their size");
    }
  }
  return last;
}

}  // namespace

Target layers_target() {
  return {
      .name = "layers",
      .seeds =
          {"fp8;x.weight F8_E4M3 04 06;x.weight_scale_inv F32 1 1",
           "mxfp4;x_blocks U8 2 3 2 01;x_scales U8 2 3 2",
           "gptq;x.qweight I32 2 8;x.qzeros I32 1 1;x.scales F16 1 8;x.g_idx I32 01",
           "awq;x.qweight I32 8 1;x.qzeros I32 1 1;x.scales F16 1 8",
           "compressed-tensors;x.weight_packed U8 2 8;x.weight_scale F8_E4M3 2 1;x.weight_global_scale F32 1",
           "compressed-tensors;x.weight_packed I32 2 2;x.weight_scale BF16 2 1;x.weight_shape I64 2;"
           "x.weight_zero_point I32 1 1",
           "modelopt;x.weight U8 2 8;x.weight_scale F8_E4M3 2 1;x.weight_scale_2 F32",
           ";a F32 2 3;x.weight U8 2 01;x.weight_scale U8 2 1"},
      .dictionary = {"x.weight", "x.weight_scale", "x.weight_scale_2", ".g_idx", " I32", " U8", " F8_E8M0",
                     " BF16", " F4", " 1", " 01", " 0", ";", "gptq"},
      .run = [](std::string_view input) -> Verdict {
        static const std::vector<std::byte> zeros(1 << 16), ones(1 << 16, std::byte{0x11});
        detect_layers(input, zeros);
        return detect_layers(input, ones);
      }};
}

Target gguf_target() {
  return {.name = "gguf",
          .seeds = {gguf_header(0, 0), gguf_file()},
          .dictionary = {"GGUF", "general.alignment", std::string_view("\x09\0\0\0", 4),
                         std::string_view("\x27\0\0\0", 4), "\xff\xff\xff\xff\xff\xff\xff\x7f",
                         "\xff\xff\xff\xff\xff\xff\xff\xff", std::string_view("\0\0\0\0\0\0\0\0", 8)},
          .run = [](std::string_view input) -> Verdict {
            const auto tensors = checkpoint::parse_gguf(input);
            if (tensors.ok()) {
              check_tensors(*tensors, input.size());
            }
            return verdict(tensors.status());
          }};
}

Target quant_config_target() {
  return {.name = "quant_config",
          .seeds =
              {R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})",
               R"({"quantization_config": {"quant_method": "compressed-tensors", "format": "x",)"
               R"("config_groups": {"group_0": {"weights": {"block_structure": [128, 128]},)"
               R"("input_activations": null}}}})",
               R"({"quantization": {"quant_algo": "NVFP4"}})",
               R"({"bits": 4, "checkpoint_format": "gptq_v2", "global_quant_config": {"input_tensors": {}}})",
               R"({"weight_map": {"a": "b.safetensors", "c": "b.safetensors"}})"},
          .dictionary = {R"("quant_method":)", R"("bits":)", R"("weight_block_size":)", R"("config_groups":)",
                         R"("weight_map":)", ".safetensors", "null", "[[[[", "{\"a\":", "1e9", "-1",
                         "18446744073709551615"},
          .run = [](std::string_view input) -> Verdict {
            for (const char* file : {"config.json", "hf_quant_config.json", "quantize_config.json"}) {
              const auto config = checkpoint::parse_quant_config(input, file);
              require(!config.ok() || (config->block_n >= 0 && config->block_k >= 0), "a block is positive");
              verdict(config.status());
            }
            const auto index = checkpoint::parse_index(input);
            if (index.ok()) {
              for (const auto& [tensor, file] : *index) {
                require(file.find('/') == std::string::npos, "a file stays in its folder");
              }
            }
            return verdict(checkpoint::parse_quant_config(input, "config.json").status());
          }};
}

}  // namespace scalegemm::fuzz
