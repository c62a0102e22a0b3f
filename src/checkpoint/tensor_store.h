// The tensors of a model, whatever files they are in: one safetensors or GGUF file, or a folder of
// safetensors files with or without an index, and the facts of the JSON files beside them. Files are mapped,
// never copied, so a model may be larger than memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/gguf.h"
#include "checkpoint/quant_config.h"
#include "checkpoint/safetensors.h"
#include "num/dtype.h"

namespace scalegemm::checkpoint {

// A tensor; everything lives as long as the store.
struct StoredTensor {
  std::string_view name;
  std::string_view type;  // the format's word: "F8_E4M3", "Q4_0"
  std::optional<num::DType> dtype;
  std::span<const int64_t> shape;  // elements, outermost first
  std::span<const std::byte> bytes;
};

// "F8_E4M3 [576, 7168]", for messages.
std::string describe(const StoredTensor& tensor);

// Const after opening: any number of threads may read.
class TensorStore {
 public:
  // `path` is a file, or a folder that holds *.safetensors. With an index (*.safetensors.index.json, at most
  // one) exactly the tensors that it lists are taken, each from its file; without, all tensors of all files.
  // Beside a file and in a folder the facts of parse_quant_config are read. Code::kIoError, kCorruptData,
  // kUnsupported as the readers; kCorruptData also for a tensor twice or one that the index gives to a file
  // without it.
  static Result<TensorStore> open(const std::string& path);

  // A store over tensors that the caller keeps. Names must differ.
  static Result<TensorStore> of(std::vector<StoredTensor> tensors, QuantConfig config);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // sorted by name
  const StoredTensor* find(std::string_view name) const;                 // null: none of that name
  const QuantConfig& config() const { return config_; }
  const std::string& path() const { return path_; }
  bool is_gguf() const { return gguf_.has_value(); }

 private:
  Status open_file(const std::string& path);
  Status open_folder(const std::string& folder);
  Status open_indexed(const std::string& folder, const std::string& index);
  Status read_config(const std::string& folder);
  Status finish();
  void add_shard(Safetensors shard, const std::map<std::string, std::string>* wanted,
                 const std::string& file);

  std::string path_;
  std::vector<Safetensors> shards_;
  std::optional<Gguf> gguf_;
  QuantConfig config_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace scalegemm::checkpoint
