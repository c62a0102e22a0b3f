#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

namespace scalegemm::base {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kUmaskMode = 0666;  // less what the umask takes
constexpr mode_t kFolderMode = 0700;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<UniqueFd> open_regular(const std::string& path, struct stat* info) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return errno_status("open", path);
  }
  if (::fstat(fd.get(), info) != 0) {
    return errno_status("stat", path);
  }
  if (!S_ISREG(info->st_mode)) {
    return make_error(Code::kIoError, "{}: needs a regular file, is something else", path);
  }
  return fd;
}

UniqueFd create_new(const std::string& path, mode_t mode) {
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void UniqueFd::reset() {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

Status errno_status(std::string_view what, std::string_view path) {
  return make_error(Code::kIoError, "cannot {} {}: {}", what, path, std::generic_category().message(errno));
}

Result<std::string> read_file(const std::string& path, uint64_t max_bytes) {
  struct stat info {};
  SCALEGEMM_ASSIGN_OR_RETURN(const UniqueFd fd, open_regular(path, &info));
  const auto size = static_cast<uint64_t>(info.st_size);
  const auto too_large = [&](uint64_t bytes) {
    return make_error(Code::kIoError, "{}: at most {} bytes are accepted, the file has {}", path, max_bytes,
                      bytes);
  };
  if (size > max_bytes) {
    return too_large(size);
  }
  // Files of /proc and /sys report size 0, so the end is what read() says it is.
  std::string content;
  content.resize(static_cast<size_t>(size) + 1);
  size_t used = 0;
  while (true) {
    if (used == content.size()) {
      content.resize(content.size() * 2);
    }
    const ssize_t got = ::read(fd.get(), content.data() + used, content.size() - used);
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno_status("read", path);
    }
    if (got == 0) {
      break;
    }
    used += static_cast<size_t>(got);
    if (used > max_bytes) {
      return too_large(used);
    }
  }
  content.resize(used);
  return content;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  struct stat info {};
  SCALEGEMM_ASSIGN_OR_RETURN(const UniqueFd fd, open_regular(path, &info));
  MappedFile file;
  if (info.st_size == 0) {
    return file;  // mmap refuses a length of 0
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    return errno_status("map", path);
  }
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Status write_all(int fd, std::string_view bytes, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno_status("write", path);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return ok_status();
}

Status write_new_file(const std::string& path, std::string_view content) {
  const UniqueFd fd = create_new(path, kFileMode);
  if (!fd) {
    return errno_status("create", path);
  }
  return write_all(fd.get(), content, path);
}

OutputFile::OutputFile(std::string path, std::string unfinished, UniqueFd fd)
    : path_(std::move(path)), unfinished_(std::move(unfinished)), fd_(std::move(fd)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      unfinished_(std::exchange(other.unfinished_, {})),
      fd_(std::move(other.fd_)),
      log_(std::move(other.log_)),
      marks_(std::move(other.marks_)),
      unflushed_bytes_(other.unflushed_bytes_) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(unfinished_, other.unfinished_);
  std::swap(fd_, other.fd_);
  std::swap(log_, other.log_);
  std::swap(marks_, other.marks_);
  std::swap(unflushed_bytes_, other.unflushed_bytes_);
  return *this;
}

OutputFile::~OutputFile() {
  if (log_) {
    (void)flush_marks();
  } else if (!unfinished_.empty()) {
    ::unlink(unfinished_.c_str());
  }
}

Result<OutputFile> OutputFile::create(const std::string& path, Access access) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return make_error(Code::kIoError, "{}: needs a regular file or none, is something else", path);
  }
  // Unique within the host: process, and a count within the process. Killed writers may have left some.
  static std::atomic<uint64_t> counter{0};
  constexpr int kNames = 1000;
  for (int tried = 0; tried < kNames; ++tried) {
    std::string unfinished = fmt::format("{}{}{}-{}", path, kUnfinishedMarker, ::getpid(),
                                         counter.fetch_add(1, std::memory_order_relaxed));
    UniqueFd fd = create_new(unfinished, access == Access::kUmask ? kUmaskMode : kFileMode);
    if (fd) {
      return OutputFile(path, std::move(unfinished), std::move(fd));
    }
    if (errno != EEXIST) {
      return errno_status("create", path);
    }
  }
  return make_error(Code::kIoError, "{}: {} unfinished files are beside it already; remove {}{}*", path,
                    kNames, path, kUnfinishedMarker);
}

Result<OutputFile> OutputFile::resume(const std::string& path, Access access, std::string_view fingerprint,
                                      std::vector<uint64_t>* marked) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return make_error(Code::kIoError, "{}: needs a regular file or none, is something else", path);
  }
  const mode_t mode = access == Access::kUmask ? kUmaskMode : kFileMode;
  const std::string partial = path + ".partial";
  const std::string log_path = partial + ".log";
  UniqueFd log(::open(log_path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!log) {
    return errno_status("create", log_path);
  }
  if (::flock(log.get(), LOCK_EX | LOCK_NB) != 0) {
    return make_error(Code::kIoError, "{}: another process is writing this file", path);
  }
  UniqueFd fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd) {
    return errno_status("create", partial);
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string old, read_file(log_path, uint64_t{1} << 30));
  const std::string begin = std::string(fingerprint) + "\n";
  if (old.empty()) {
    SCALEGEMM_RETURN_IF_ERROR(write_all(log.get(), begin, log_path));
  } else if (!old.starts_with(begin)) {
    return make_error(
        Code::kIoError,
        "{}: was begun from another input or with other options; finish that, or remove it and {}", partial,
        log_path);
  } else {
    // A mark that was cut short at the end is none.
    for (size_t at = begin.size(); at + sizeof(uint64_t) <= old.size(); at += sizeof(uint64_t)) {
      uint64_t item = 0;
      std::memcpy(&item, old.data() + at, sizeof item);
      marked->push_back(item);
    }
    const auto whole = static_cast<off_t>(begin.size() + marked->size() * sizeof(uint64_t));
    if (::ftruncate(log.get(), whole) != 0) {
      return errno_status("write", log_path);
    }
  }
  OutputFile file(path, partial, std::move(fd));
  file.log_ = std::move(log);
  return file;
}

Status OutputFile::mark(uint64_t item) {
  constexpr uint64_t kFlushBytes = 16 << 20;
  marks_.push_back(item);
  return unflushed_bytes_ < kFlushBytes ? ok_status() : flush_marks();
}

Status OutputFile::flush_marks() {
  if (marks_.empty()) {
    return ok_status();
  }
  if (::fdatasync(fd_.get()) != 0) {
    return errno_status("flush", unfinished_);
  }
  const std::string_view bytes(reinterpret_cast<const char*>(marks_.data()),
                               marks_.size() * sizeof(uint64_t));
  SCALEGEMM_RETURN_IF_ERROR(write_all(log_.get(), bytes, path_));
  marks_.clear();
  unflushed_bytes_ = 0;
  return ok_status();
}

Status OutputFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno_status("write", path_);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
    unflushed_bytes_ += static_cast<uint64_t>(written);
  }
  return ok_status();
}

Status OutputFile::publish() {
  if (::fsync(fd_.get()) != 0) {
    return errno_status("flush", path_);
  }
  if (::rename(unfinished_.c_str(), path_.c_str()) != 0) {
    return errno_status("publish", path_);
  }
  if (log_) {
    ::unlink((unfinished_ + ".log").c_str());
    log_.reset();
  }
  unfinished_.clear();
  fd_.reset();
  // The rename itself reaches the disk only with its folder. Some file systems cannot flush a folder; the
  // content is complete and visible either way, so this is not a failure.
  const UniqueFd folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) {
    ::fsync(folder.get());
  }
  return ok_status();
}

Status atomic_publish(const std::string& path, std::span<const std::string_view> parts, Access access) {
  SCALEGEMM_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path, access));
  uint64_t offset = 0;
  for (const std::string_view part : parts) {
    SCALEGEMM_RETURN_IF_ERROR(file.write_at(offset, std::as_bytes(std::span(part))));
    offset += part.size();
  }
  return file.publish();
}

Status make_dirs(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    return S_ISDIR(info.st_mode) ? ok_status()
                                 : make_error(Code::kIoError, "{}: needs a folder, is something else", path);
  }
  const std::string parent = folder_of(path);
  if (parent != path && parent != ".") {
    SCALEGEMM_RETURN_IF_ERROR(make_dirs(parent));
  }
  // Another process may have made it since.
  if (::mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return errno_status("create folder", path);
  }
  return ok_status();
}

Result<FileLock> FileLock::acquire(const std::string& path, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto pause = std::chrono::milliseconds(1);
  constexpr auto kLongestPause = std::chrono::milliseconds(20);
  while (true) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kFileMode));
    if (!fd) {
      return errno_status("open lock", path);
    }
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      // A former holder may have removed the file after we opened it: then our lock guards nothing.
      struct stat held {};
      struct stat named {};
      if (::fstat(fd.get(), &held) == 0 && ::stat(path.c_str(), &named) == 0 && same_file(held, named)) {
        return FileLock(path, std::move(fd));
      }
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return errno_status("lock", path);
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return make_error(Code::kIoError, "{}: still locked by another process after {} ms", path,
                        timeout.count());
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

void FileLock::remove_file() {
  if (fd_) {
    ::unlink(path_.c_str());
  }
}

Result<TempDir> TempDir::make(std::string_view prefix) {
  const char* base = std::getenv("TMPDIR");
  std::string pattern =
      fmt::format("{}/{}-XXXXXX", base != nullptr && base[0] != '\0' ? base : "/tmp", prefix);
  if (::mkdtemp(pattern.data()) == nullptr) {
    return errno_status("create temporary folder", pattern);
  }
  return TempDir(std::move(pattern));
}

TempDir::~TempDir() {
  if (!path_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

}  // namespace scalegemm::base
