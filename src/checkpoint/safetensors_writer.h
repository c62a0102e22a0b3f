// Writes safetensors files tensor by tensor, so that a model larger than memory can be converted.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "checkpoint/safetensors.h"

namespace scalegemm::checkpoint {

// A tensor to be written.
struct TensorSpec {
  std::string name;
  std::string_view type;       // the format's name: "F32", "F8_E4M3", "U8", ... (safetensors_name)
  std::vector<int64_t> shape;  // elements, outermost first
};

// All tensors are named first, then each is written once, in any order, then the file is finished. Until then
// nothing is visible at `path`; an object that goes away unfinished leaves no file. For one thread.
//
// The data is laid out by element size, largest first, and the header is padded to kDataAlignment bytes, so
// every tensor is aligned to its element in the file and in a map of it.
class SafetensorsWriter {
 public:
  static constexpr size_t kDataAlignment = 64;

  // Code::kInvalidArgument for an unknown type, a bad shape (tensor_bytes), a name twice, empty or reserved
  // ("__metadata__"), or text that is not UTF-8; Code::kIoError as base::OutputFile.
  static Result<SafetensorsWriter> create(const std::string& path, const std::vector<TensorSpec>& tensors,
                                          const std::map<std::string, std::string>& metadata);

  // The same for a file that takes long (base::OutputFile::resume): a call after an interruption, with the
  // same tensors, metadata and `fingerprint`, goes on with what was marked before, which `marked` then holds.
  static Result<SafetensorsWriter> resume(const std::string& path, const std::vector<TensorSpec>& tensors,
                                          const std::map<std::string, std::string>& metadata,
                                          std::string_view fingerprint, std::vector<uint64_t>* marked);

  // All bytes of one tensor, little-endian and row-major. Code::kInvalidArgument for an unknown name, a
  // second time, or a wrong number of bytes.
  Status write(std::string_view name, std::span<const std::byte> bytes);

  // Of a writer to resume: the tensors of `item`, by the caller's count, are written. Those of items marked
  // before are not to be written again: `skip` says that they are there.
  Status mark(uint64_t item) { return file_.mark(item); }
  Status skip(std::string_view name);

  // Publishes the file. Code::kInvalidArgument when a tensor was never written.
  Status finish();

 private:
  struct Slot {
    uint64_t offset = 0;  // in the file
    uint64_t bytes = 0;
    bool written = false;
  };

  using Open = std::function<Result<base::OutputFile>(const std::string& header)>;
  static Result<SafetensorsWriter> make(const std::vector<TensorSpec>& tensors,
                                        const std::map<std::string, std::string>& metadata, const Open& open);
  Result<Slot*> slot(std::string_view name);

  SafetensorsWriter(base::OutputFile file, std::map<std::string, Slot, std::less<>> slots)
      : file_(std::move(file)), slots_(std::move(slots)) {}

  base::OutputFile file_;
  std::map<std::string, Slot, std::less<>> slots_;  // by tensor name
};

}  // namespace scalegemm::checkpoint
