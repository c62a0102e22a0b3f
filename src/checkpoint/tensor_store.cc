#include "checkpoint/tensor_store.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "checkpoint/printable.h"

namespace scalegemm::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr std::string_view kFileEnding = ".safetensors";
constexpr const char* kConfigFiles[] = {"config.json", "hf_quant_config.json", "quantize_config.json"};

// Names in a folder that end so, sorted.
Result<std::vector<std::string>> names_in(const std::string& folder, std::string_view ending) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(ending)) {
      names.push_back(std::move(name));
    }
  }
  if (error) {
    return make_error(Code::kIoError, "{}: {}", folder, error.message());
  }
  std::ranges::sort(names);
  return names;
}

bool is_gguf_file(const std::string& path) {
  const auto file = base::MappedFile::open(path);
  return file.ok() && file->text().starts_with(kGgufMagic);
}

}  // namespace

std::string describe(const StoredTensor& tensor) {
  return fmt::format("{} [{}]", tensor.type, fmt::join(tensor.shape, ", "));
}

void TensorStore::add_shard(Safetensors shard, const std::map<std::string, std::string>* wanted,
                            const std::string& file) {
  for (const TensorInfo& tensor : shard.tensors()) {
    const auto entry =
        wanted != nullptr ? wanted->find(tensor.name) : std::map<std::string, std::string>::const_iterator();
    if (wanted == nullptr || (entry != wanted->end() && entry->second == file)) {
      tensors_.push_back(
          {tensor.name, tensor.type->name, tensor.type->dtype, tensor.shape, shard.bytes(tensor)});
    }
  }
  shards_.push_back(std::move(shard));  // moving it keeps names, shapes and bytes where they are
}

Status TensorStore::open_file(const std::string& path) {
  if (path.ends_with(".gguf") || is_gguf_file(path)) {
    SCALEGEMM_ASSIGN_OR_RETURN(gguf_, Gguf::open(path));
    for (const GgufTensor& tensor : gguf_->tensors()) {
      tensors_.push_back(
          {tensor.name, tensor.type->name, tensor.type->dtype, tensor.shape, gguf_->bytes(tensor)});
    }
    return ok_status();
  }
  SCALEGEMM_ASSIGN_OR_RETURN(Safetensors shard, Safetensors::open(path));
  add_shard(std::move(shard), nullptr, path);
  return read_config(fs::path(path).parent_path().string());
}

Status TensorStore::open_indexed(const std::string& folder, const std::string& index) {
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string text, base::read_file(index, kMaxJsonBytes));
  const auto map = parse_index(text);
  if (!map.ok()) {
    return map.status().with_context(index);
  }
  std::set<std::string> files;
  for (const auto& [name, file] : *map) {
    files.insert(file);
  }
  for (const std::string& file : files) {
    SCALEGEMM_ASSIGN_OR_RETURN(Safetensors shard, Safetensors::open(fmt::format("{}/{}", folder, file)));
    add_shard(std::move(shard), &*map, file);
  }
  if (tensors_.size() != map->size()) {
    std::set<std::string_view> found;
    for (const StoredTensor& tensor : tensors_) {
      found.insert(tensor.name);
    }
    const auto missing =
        std::ranges::find_if(*map, [&](const auto& entry) { return !found.contains(entry.first); });
    return corrupt("{}: tensor {}: needs to be in {}, which does not have it", index,
                   printable(missing->first), missing->second);
  }
  return ok_status();
}

Status TensorStore::open_folder(const std::string& folder) {
  SCALEGEMM_ASSIGN_OR_RETURN(const auto indexes, names_in(folder, kIndexEnding));
  if (indexes.size() > 1) {
    return unsupported("{}: needs at most one index, has {}; name a file", folder, fmt::join(indexes, ", "));
  }
  if (indexes.size() == 1) {
    SCALEGEMM_RETURN_IF_ERROR(open_indexed(folder, folder + "/" + indexes[0]));
    return read_config(folder);
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const auto files, names_in(folder, kFileEnding));
  if (files.empty()) {
    return unsupported("{}: needs *.safetensors files, has none", folder);
  }
  for (const std::string& file : files) {
    SCALEGEMM_ASSIGN_OR_RETURN(Safetensors shard, Safetensors::open(fmt::format("{}/{}", folder, file)));
    add_shard(std::move(shard), nullptr, file);
  }
  return read_config(folder);
}

Status TensorStore::read_config(const std::string& folder) {
  for (const char* name : kConfigFiles) {
    const std::string path = folder.empty() ? name : folder + "/" + name;
    std::error_code error;
    if (!config_.method.empty() || !fs::exists(path, error)) {
      continue;
    }
    SCALEGEMM_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, kMaxJsonBytes));
    Result<QuantConfig> config = parse_quant_config(text, name);
    if (!config.ok()) {
      return config.status().with_context(path);
    }
    config_ = *std::move(config);
  }
  return ok_status();
}

Status TensorStore::finish() {
  std::ranges::sort(tensors_, {}, &StoredTensor::name);
  const auto twice = std::ranges::adjacent_find(tensors_, {}, &StoredTensor::name);
  return twice == tensors_.end() ? ok_status()
                                 : corrupt("{}: the tensor {} is there twice", path_, printable(twice->name));
}

Result<TensorStore> TensorStore::open(const std::string& path) {
  TensorStore store;
  store.path_ = path;
  std::error_code error;
  SCALEGEMM_RETURN_IF_ERROR(fs::is_directory(path, error) ? store.open_folder(path) : store.open_file(path));
  SCALEGEMM_RETURN_IF_ERROR(store.finish());
  return store;
}

Result<TensorStore> TensorStore::of(std::vector<StoredTensor> tensors, QuantConfig config) {
  TensorStore store;
  store.tensors_ = std::move(tensors);
  store.config_ = std::move(config);
  SCALEGEMM_RETURN_IF_ERROR(store.finish());
  return store;
}

const StoredTensor* TensorStore::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &StoredTensor::name);
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

}  // namespace scalegemm::checkpoint
