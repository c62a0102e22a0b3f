// Reads GGUF files (versions 2 and 3, little-endian): named tensors over one read-only map of the file.
//
// The format (github.com/ggml-org/ggml, docs/gguf.md): "GGUF", u32 version, u64 tensors, u64 entries; the
// entries (key, type, value); of each tensor its name, dimensions (innermost first), type and offset; then
// the data at a multiple of "general.alignment" (32 when there is none). Strings are a u64 length and bytes.
//
// Nothing in a file is trusted: lengths and counts are checked against what is left of the file before they
// are used, and every tensor must lie in the data, aligned, without overlap. Entries are skipped but for the
// alignment. Types that cannot be multiplied here are listed all the same, with their sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "num/dtype.h"

namespace scalegemm::checkpoint {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr size_t kMaxGgufRank = 4;

// A type of the format: blocks of `block` elements along the innermost dimension, `bytes` each.
struct GgufType {
  uint32_t id;
  std::string_view name;
  int64_t block;
  int64_t bytes;
  std::optional<num::DType> dtype;  // ours, of types whose blocks are one element
};

// The type of that number, or null.
const GgufType* find_gguf_type(uint32_t id);

struct GgufTensor {
  std::string name;
  const GgufType* type = nullptr;  // never null, lives for ever
  std::vector<int64_t> shape;      // elements, outermost first (the reverse of the file)
  uint64_t begin = 0;              // bytes from the start of the file
  uint64_t end = 0;
};

// The checked tensors of a whole file in memory, in the order of their data. Code::kCorruptData, or
// Code::kUnsupported for another version, a big-endian file, or an unknown tensor type.
Result<std::vector<GgufTensor>> parse_gguf(std::string_view file);

// An open file; const, so any number of threads may read. Spans live as long as the object.
class Gguf {
 public:
  static Result<Gguf> open(const std::string& path);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  std::span<const std::byte> bytes(const GgufTensor& tensor) const {
    return file_.bytes().subspan(tensor.begin, tensor.end - tensor.begin);
  }

 private:
  base::MappedFile file_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace scalegemm::checkpoint
