#include "checkpoint/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace scalegemm::checkpoint {
namespace {

// Names tried before giving up; the numbers of other threads of this process and of killed ones may be taken.
constexpr int kNames = 1000;

}  // namespace

OutputFile::OutputFile(std::string path, std::string unfinished, base::UniqueFd fd)
    : path_(std::move(path)), unfinished_(std::move(unfinished)), fd_(std::move(fd)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      unfinished_(std::exchange(other.unfinished_, {})),
      fd_(std::move(other.fd_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(unfinished_, other.unfinished_);
  std::swap(fd_, other.fd_);
  return *this;
}

OutputFile::~OutputFile() {
  if (!unfinished_.empty()) {
    ::unlink(unfinished_.c_str());
  }
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return make_error(Code::kIoError, "{}: needs a regular file or none, is something else", path);
  }
  for (int number = 0; number < kNames; ++number) {
    std::string unfinished = fmt::format("{}{}{}-{}", path, base::kUnfinishedMarker, ::getpid(), number);
    base::UniqueFd fd(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd) {
      return OutputFile(path, std::move(unfinished), std::move(fd));
    }
    if (errno != EEXIST) {
      return base::errno_status("create", unfinished);
    }
  }
  return make_error(Code::kIoError, "{}: {} unfinished files are beside it already; remove {}{}*", path,
                    kNames, path, base::kUnfinishedMarker);
}

Status OutputFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return base::errno_status("write", path_);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return ok_status();
}

Status OutputFile::publish() {
  if (::fsync(fd_.get()) != 0) {
    return base::errno_status("flush", path_);
  }
  if (::rename(unfinished_.c_str(), path_.c_str()) != 0) {
    return base::errno_status("publish", path_);
  }
  unfinished_.clear();
  fd_.reset();
  return ok_status();
}

}  // namespace scalegemm::checkpoint
