#include "harness/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/files.h"
#include "scalegemm/scalegemm.hpp"

namespace scalegemm::harness {
namespace {

void require_ok(const Status& status) {
  if (!status.ok()) {
    throw Error(static_cast<scalegemm_status>(status.code()), status.message());
  }
}

// A device or a pipe cannot be replaced by a rename.
bool is_device(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

Status write_device(const std::string& path, std::string_view contents) {
  const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd ? base::write_all(fd.get(), contents, path) : base::errno_status("write", path);
}

}  // namespace

void write_file(const std::string& path, std::string_view contents) {
  require_ok(is_device(path) ? write_device(path, contents)
                             : base::atomic_publish(path, std::span(&contents, 1), base::Access::kUmask));
}

void require_writable(const std::string& path) {
  if (!path.empty() && path != "-" && !is_device(path)) {
    require_ok(base::OutputFile::create(path, base::Access::kUmask).status());
  }
}

}  // namespace scalegemm::harness
