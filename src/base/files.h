// Files as the library needs them: whole reads with a cap, read-only maps, atomic publishing, locks.
//
// Every failure is Code::kIoError with the path and the system's reason in the message. Files are created
// owner-only (0600) and folders 0700, whatever the umask, but for files that a user asks for
// (Access::kUmask). Descriptors are never inherited by children.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace scalegemm::base {

// Owns a file descriptor; -1 is none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// The failure of a system call on `path`, from errno.
Status errno_status(std::string_view what, std::string_view path);

// The content of a regular file. A file larger than `max_bytes` is refused (the message gives both sizes),
// so that a hostile or wrong file cannot take all memory.
Result<std::string> read_file(const std::string& path, uint64_t max_bytes);

// A whole regular file mapped read-only. The map stays valid when the file is renamed or removed. A file
// that another process truncates while it is mapped raises SIGBUS on access: map only files that are
// published by rename or belong to the user who asked.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes all of `bytes` to an open descriptor, through interruptions and short writes. `path` is for the
// message only.
Status write_all(int fd, std::string_view bytes, std::string_view path);

// Creates a file that must not exist yet, owner-only. Not flushed to the disk: for temporary files.
Status write_new_file(const std::string& path, std::string_view content);

// Who may read a file that is made: caches are the owner's alone, output files are as the umask says.
enum class Access : uint8_t { kOwnerOnly, kUmask };

// The marker in the names of files that are not finished yet (a killed writer leaves one).
inline constexpr std::string_view kUnfinishedMarker = ".tmp-";

// A file that appears complete or not at all: what is written goes to a new file beside `path`, which is
// flushed to the disk and renamed over `path` at the end, and the folder is flushed. Readers see the old
// content or the new, never a mixture. Whatever fails, and also when the object goes away unpublished,
// `path` keeps its old content and no file is left behind.
class OutputFile {
 public:
  // Refused: a folder that is missing or not writable, a `path` that exists and is not a regular file
  // (publishing would replace a device or a pipe).
  static Result<OutputFile> create(const std::string& path, Access access);

  // For files that take long: what is written stays in `path`.partial when the object goes away, and a later
  // call takes it up. `path`.partial.log holds `fingerprint` and what was marked, which is appended to
  // `marked`. Refused: a log with another fingerprint, and one that another process has open.
  static Result<OutputFile> resume(const std::string& path, Access access, std::string_view fingerprint,
                                   std::vector<uint64_t>* marked);

  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  // Writes `bytes` at `offset` from the start; places never written hold zeros.
  Status write_at(uint64_t offset, std::span<const std::byte> bytes);

  // Of a file to resume: everything that was written for `item` is in the file. Notes it once that is on the
  // disk, some items at a time.
  Status mark(uint64_t item);

  // Flushes to the disk and renames. Once, and last.
  Status publish();

 private:
  OutputFile(std::string path, std::string unfinished, UniqueFd fd);
  Status flush_marks();

  std::string path_;
  std::string unfinished_;  // empty once there is nothing to remove
  UniqueFd fd_;
  UniqueFd log_;  // of resume
  std::vector<uint64_t> marks_;
  uint64_t unflushed_bytes_ = 0;
};

// The parts, one after the other, as an OutputFile.
Status atomic_publish(const std::string& path, std::span<const std::string_view> parts,
                      Access access = Access::kOwnerOnly);

// Creates a folder and its missing parents. A folder that exists is fine.
Status make_dirs(const std::string& path);

// An exclusive lock between threads and processes: flock on a file made for the purpose. The kernel frees it
// when the holder dies, however it dies.
class FileLock {
 public:
  // Waits at most `timeout`; a lock that is still held then is an error that says so.
  static Result<FileLock> acquire(const std::string& path, std::chrono::milliseconds timeout);

  FileLock(FileLock&&) noexcept = default;
  FileLock& operator=(FileLock&&) noexcept = default;
  ~FileLock() = default;

  // Removes the lock file while it is held, so that locks leave nothing behind. A waiter notices and
  // starts over with a new file.
  void remove_file();

 private:
  FileLock(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

// A private folder under $TMPDIR (else /tmp) that is removed with everything in it.
class TempDir {
 public:
  static Result<TempDir> make(std::string_view prefix);

  ~TempDir();
  TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempDir& operator=(TempDir&& other) noexcept;

  const std::string& path() const { return path_; }

 private:
  explicit TempDir(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace scalegemm::base
