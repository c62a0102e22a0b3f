// Reads safetensors files: a list of named tensors over one read-only map of the file.
//
// The format: 8 bytes little-endian header length H, H bytes of JSON
//   {"__metadata__": {text: text, ...}, NAME: {"dtype": "F32", "shape": [n, k], "data_offsets": [begin,
//   end]}, ...}
// (it may end in spaces), then the data; offsets count from the start of the data. Values are little-endian
// and row-major.
//
// Nothing in a file is trusted. A file is refused (Code::kCorruptData, the message names the file, the
// tensor, what was needed and what was found) unless
//   - the header is at most kMaxHeaderBytes, inside the file, starts with '{', and is valid UTF-8 JSON of
//   exactly
//     the shape above: no other fields, no deeper nesting, no tensor or field twice;
//   - every type is known, every shape has at most kMaxRank extents, and its size in bytes fits and equals
//     end - begin;
//   - the tensors cover the data without hole or overlap, to the last byte of the file.
// These are the rules of the format's own library. Opening reads only the header; a tensor's bytes are read
// from the disk when they are first touched, so files larger than memory are fine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "num/dtype.h"

namespace scalegemm::checkpoint {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as the format's own library has it
inline constexpr size_t kMaxRank = 32;

// A data type of the format.
struct SafetensorsType {
  std::string_view name;            // as in the header: "F32", "BF16", "F8_E4M3", ...
  int bits;                         // of one element; types under 8 bits are packed, lowest bits first
  std::optional<num::DType> dtype;  // ours, where there is the same one
};

// Every type of the format.
std::span<const SafetensorsType> safetensors_types();

// The type of that name, or null.
const SafetensorsType* find_safetensors_type(std::string_view name);

// The name in the format of one of our types, or nothing (int4 and uint4 have none: store them as U8).
std::optional<std::string_view> safetensors_name(num::DType dtype);

// Bytes of a tensor of that type and shape. Refused: negative extents, more than kMaxRank of them, a size
// over 2^63-1, a number of bits that is not whole bytes. An empty shape is one element (a scalar).
Result<int64_t> tensor_bytes(const SafetensorsType& type, std::span<const int64_t> shape);

struct TensorInfo {
  std::string name;
  const SafetensorsType* type = nullptr;  // never null, lives for ever
  std::vector<int64_t> shape;             // elements, also for packed types; outermost first
  uint64_t begin = 0;                     // bytes from the start of the data
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              // in the order of their data
  std::map<std::string, std::string> metadata;  // the entries of "__metadata__"
  uint64_t data_start = 0;                      // where the data begins in the file
};

// The checked header of a whole file in memory. Fails with Code::kCorruptData.
Result<SafetensorsHeader> parse_safetensors(std::string_view file);

// An open file. Const after opening: any number of threads may read. Spans live as long as the object; moving
// it keeps them valid.
class Safetensors {
 public:
  // Code::kIoError when `path` cannot be opened or is not a regular file, else as parse_safetensors.
  static Result<Safetensors> open(const std::string& path);

  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // The tensor of that name, or null.
  const TensorInfo* find(std::string_view name) const;

  // The bytes of one of tensors(). The format does not align them: copy with memcpy, or check the pointer,
  // before reading as wider elements.
  std::span<const std::byte> bytes(const TensorInfo& tensor) const;

 private:
  base::MappedFile file_;
  SafetensorsHeader header_;
  std::vector<uint32_t> by_name_;  // indices into tensors(), sorted by name
};

}  // namespace scalegemm::checkpoint
