// Reads and writes .npy files of numbers (NumPy's format, versions 1 to 3).
//
// The format: "\x93NUMPY", major, minor, header length (2 bytes little-endian in version 1, 4 after), a
// Python dictionary literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, then the elements.
//
// Read: little-endian and one-byte numbers, in C or Fortran order, mapped and not copied. Refused with the
// reason: big-endian data, structured, object, text and raw ('V') types, a dictionary of any other form, a
// header over kMaxNpyHeader, a size that does not fit, and a file that is shorter or longer than header and
// elements.
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

inline constexpr size_t kMaxNpyHeader = 65535;

// An element type: NumPy's kind and bytes.
struct NpyType {
  std::string_view code;            // "f4", "i1", ... : the descr without its byte order
  int bytes;                        // of one element
  std::optional<num::DType> dtype;  // ours, where there is the same one
};

// Every type that is read and written.
std::span<const NpyType> npy_types();

// The type of that code, or null.
const NpyType* find_npy_type(std::string_view code);

struct NpyHeader {
  const NpyType* type = nullptr;  // never null after success, lives for ever
  std::vector<int64_t> shape;     // empty: one element
  bool fortran_order = false;     // true: the first index runs fastest
  uint64_t data_start = 0;        // where the elements begin in the file
  uint64_t data_bytes = 0;
};

// The checked header of a whole file in memory. Code::kCorruptData, or Code::kUnsupported for a sound file of
// a type that is not read.
Result<NpyHeader> parse_npy(std::string_view file);

// An open file; const, so any number of threads may read.
class Npy {
 public:
  // Code::kIoError when `path` cannot be opened or is not a regular file, else as parse_npy.
  static Result<Npy> open(const std::string& path);

  const NpyHeader& header() const { return header_; }

  // The elements in the order of the file, little-endian; lives as long as the object. NumPy aligns them to
  // 64 bytes, other writers need not: copy with memcpy, or check the pointer.
  std::span<const std::byte> bytes() const {
    return file_.bytes().subspan(header_.data_start, header_.data_bytes);
  }

 private:
  base::MappedFile file_;
  NpyHeader header_;
};

// Writes a file (version 1, C order, elements aligned to 64 bytes), complete or not at all. `code` is one of
// npy_types(); `bytes` are little-endian and row-major. Code::kInvalidArgument for an unknown code, a bad
// shape or a wrong number of bytes, Code::kIoError for the rest.
Status write_npy(const std::string& path, std::string_view code, std::span<const int64_t> shape,
                 std::span<const std::byte> bytes);

}  // namespace scalegemm::checkpoint
