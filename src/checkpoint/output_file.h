// A file that appears complete or not at all, written piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/files.h"
#include "base/status.h"

namespace scalegemm::checkpoint {

// Writes to a new file beside `path` and renames it over `path` at the end. Whatever fails, and also when the
// object goes away unpublished, `path` keeps its old content and no file is left behind. The result has the
// permissions that the user's umask gives, as other output files have.
class OutputFile {
 public:
  // Refused with Code::kIoError: a folder that is missing or not writable, a `path` that exists and is not a
  // regular file (publishing would replace a device or a pipe).
  static Result<OutputFile> create(const std::string& path);

  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  // Writes `bytes` at `offset` from the start; places never written hold zeros.
  Status write_at(uint64_t offset, std::span<const std::byte> bytes);

  // Flushes to the disk and renames. Once, and last.
  Status publish();

 private:
  OutputFile(std::string path, std::string unfinished, base::UniqueFd fd);

  std::string path_;
  std::string unfinished_;  // empty once there is nothing to remove
  base::UniqueFd fd_;
};

}  // namespace scalegemm::checkpoint
