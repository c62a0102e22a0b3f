#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "checkpoint/printable.h"

namespace scalegemm::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

struct Placed {
  const TensorSpec* spec = nullptr;
  const SafetensorsType* type = nullptr;
  uint64_t begin = 0;
  uint64_t end = 0;
};

Result<std::vector<Placed>> place(const std::vector<TensorSpec>& tensors) {
  std::vector<Placed> placed;
  for (const TensorSpec& spec : tensors) {
    const SafetensorsType* type = find_safetensors_type(spec.type);
    if (type == nullptr) {
      return invalid_argument("tensor {}: type: needs a type of the format, given {}", printable(spec.name),
                              printable(spec.type));
    }
    const Result<int64_t> bytes = tensor_bytes(*type, spec.shape);
    if (!bytes.ok()) {
      return bytes.status().with_context("tensor " + printable(spec.name));
    }
    placed.push_back({.spec = &spec, .type = type, .begin = 0, .end = static_cast<uint64_t>(*bytes)});
  }
  std::ranges::stable_sort(placed, std::greater<>(), [](const Placed& p) { return p.type->bits; });
  uint64_t next = 0;
  for (Placed& tensor : placed) {
    tensor.begin = next;
    // A tensor has less than 2^60 bytes and a vector of them fewer than 2^58 elements, but their sum may
    // wrap.
    if (__builtin_add_overflow(next, tensor.end, &next)) {
      return invalid_argument("tensors: need less than 2^64 bytes altogether");
    }
    tensor.end = next;
  }
  return placed;
}

// The JSON text of the header, padded.
Result<std::string> header_of(const std::vector<Placed>& placed,
                              const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) {
    json["__metadata__"] = metadata;
  }
  for (const Placed& tensor : placed) {
    json[tensor.spec->name] = Json{{"dtype", tensor.type->name},
                                   {"shape", tensor.spec->shape},
                                   {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text;
  try {
    text = json.dump();  // throws on text that is not UTF-8
  } catch (const Json::exception&) {
    return invalid_argument("tensors: names and metadata need to be UTF-8");
  }
  constexpr size_t kAlign = SafetensorsWriter::kDataAlignment;
  const size_t length_bytes = sizeof(uint64_t);
  text.append((kAlign - (text.size() + length_bytes) % kAlign) % kAlign, ' ');
  if (text.size() > kMaxHeaderBytes) {
    return invalid_argument("tensors: need a header of at most {} bytes, theirs has {}", kMaxHeaderBytes,
                            text.size());
  }
  return text;
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    const std::vector<TensorSpec>& tensors,
                                                    const std::map<std::string, std::string>& metadata) {
  return make(tensors, metadata,
              [&](const std::string&) { return base::OutputFile::create(path, base::Access::kUmask); });
}

Result<SafetensorsWriter> SafetensorsWriter::resume(const std::string& path,
                                                    const std::vector<TensorSpec>& tensors,
                                                    const std::map<std::string, std::string>& metadata,
                                                    std::string_view fingerprint,
                                                    std::vector<uint64_t>* marked) {
  return make(tensors, metadata, [&](const std::string& header) {
    base::Hasher hasher;
    hasher.add(fingerprint);
    hasher.add(header);
    return base::OutputFile::resume(path, base::Access::kUmask, hasher.finish().hex(), marked);
  });
}

Result<SafetensorsWriter> SafetensorsWriter::make(const std::vector<TensorSpec>& tensors,
                                                  const std::map<std::string, std::string>& metadata,
                                                  const Open& open) {
  std::map<std::string, Slot, std::less<>> slots;
  for (const TensorSpec& spec : tensors) {
    if (spec.name.empty() || spec.name == "__metadata__") {
      return invalid_argument("tensors: need a name that is neither empty nor reserved, given {}",
                              printable(spec.name));
    }
    if (!slots.emplace(spec.name, Slot{}).second) {
      return invalid_argument("tensors: need names that differ, given {} twice", printable(spec.name));
    }
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const std::vector<Placed> placed, place(tensors));
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string text, header_of(placed, metadata));
  SCALEGEMM_ASSIGN_OR_RETURN(base::OutputFile file, open(text));
  const uint64_t length = text.size();
  SCALEGEMM_RETURN_IF_ERROR(file.write_at(0, std::as_bytes(std::span(&length, 1))));
  SCALEGEMM_RETURN_IF_ERROR(file.write_at(sizeof length, std::as_bytes(std::span(text))));
  for (const Placed& tensor : placed) {
    slots.find(tensor.spec->name)->second = {.offset = sizeof length + length + tensor.begin,
                                             .bytes = tensor.end - tensor.begin};
  }
  return SafetensorsWriter(std::move(file), std::move(slots));
}

Result<SafetensorsWriter::Slot*> SafetensorsWriter::slot(std::string_view name) {
  const auto found = slots_.find(name);
  if (found == slots_.end()) {
    return invalid_argument("name: {} is not a tensor of this file", printable(name));
  }
  if (found->second.written) {
    return invalid_argument("name: {} was written before", printable(name));
  }
  return &found->second;
}

Status SafetensorsWriter::skip(std::string_view name) {
  SCALEGEMM_ASSIGN_OR_RETURN(Slot* const found, slot(name));
  found->written = true;
  return ok_status();
}

Status SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  SCALEGEMM_ASSIGN_OR_RETURN(Slot* const found, slot(name));
  if (bytes.size() != found->bytes) {
    return invalid_argument("bytes: tensor {} needs {}, given {}", printable(name), found->bytes,
                            bytes.size());
  }
  SCALEGEMM_RETURN_IF_ERROR(file_.write_at(found->offset, bytes));
  found->written = true;
  return ok_status();
}

Status SafetensorsWriter::finish() {
  const auto missing = std::ranges::find_if(slots_, [](const auto& entry) { return !entry.second.written; });
  if (missing != slots_.end()) {
    return invalid_argument("finish: the tensor {} was not written", printable(missing->first));
  }
  return file_.publish();
}

}  // namespace scalegemm::checkpoint
