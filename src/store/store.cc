#include "store/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <tuple>

#include "base/files.h"
#include "store/entry.h"

namespace scalegemm::store {
namespace {

namespace fs = std::filesystem;
using base::Hash128;

constexpr std::string_view kEntrySuffix = ".sgk";
constexpr std::string_view kLockSuffix = ".lock";
constexpr uint64_t kLargestEntry = uint64_t{256} << 20;
constexpr size_t kHexDigits = 32;

// A leftover this old belongs to no builder that still runs: a compile ends after minutes.
constexpr int64_t kAbandonedSeconds = 3600;

enum class FileKind { kForeign, kEntry, kLock, kUnfinished };

// What a file of the folder is, by its name. Only the first three are ever removed.
FileKind kind_of(std::string_view file) {
  if (file.size() <= kHexDigits || !Hash128::from_hex(file.substr(0, kHexDigits))) {
    return FileKind::kForeign;
  }
  const std::string_view rest = file.substr(kHexDigits);
  if (rest == kEntrySuffix) {
    return FileKind::kEntry;
  }
  if (rest == kLockSuffix) {
    return FileKind::kLock;
  }
  const bool unfinished =
      rest.starts_with(kEntrySuffix) && rest.substr(kEntrySuffix.size()).starts_with(base::kUnfinishedMarker);
  return unfinished ? FileKind::kUnfinished : FileKind::kForeign;
}

struct FolderFile {
  std::string path;
  std::string name;
  FileKind kind = FileKind::kForeign;
  uint64_t bytes = 0;
  int64_t age_seconds = 0;
};

// The store's own files in a folder; files that disappear meanwhile are skipped.
Result<std::vector<FolderFile>> own_files(const std::string& folder) {
  std::vector<FolderFile> files;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory || folder.empty()) {
    return files;
  }
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    FolderFile file{.path = entry->path().string(), .name = entry->path().filename().string()};
    file.kind = kind_of(file.name);
    struct stat info {};
    if (file.kind == FileKind::kForeign || ::lstat(file.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      continue;
    }
    file.bytes = static_cast<uint64_t>(info.st_size);
    file.age_seconds = std::max<int64_t>(0, std::time(nullptr) - info.st_mtime);
    files.push_back(std::move(file));
  }
  if (error) {
    return make_error(Code::kIoError, "cannot read folder {}: {}", folder, error.message());
  }
  return files;
}

Status remove(const FolderFile& file, uint64_t* freed) {
  if (::unlink(file.path.c_str()) == 0) {
    *freed += file.bytes;
    return ok_status();
  }
  return errno == ENOENT ? ok_status() : base::errno_status("remove", file.path);
}

// Code is run from these files: whoever can write them can run code as us.
Status check_owner(const struct stat& info, const std::string& path) {
  const bool trusted_owner = info.st_uid == ::geteuid() || info.st_uid == 0;
  if (!trusted_owner || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return make_error(Code::kIoError,
                      "{}: needs to be writable by its owner only and owned by this user or root, has mode "
                      "{:o} and owner {}",
                      path, info.st_mode & 07777, info.st_uid);
  }
  return ok_status();
}

std::string absolute_or_empty(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

}  // namespace

std::string default_folder() {
  if (std::string own = absolute_or_empty("SCALEGEMM_CACHE_DIR"); !own.empty()) {
    return own;
  }
  if (const std::string xdg = absolute_or_empty("XDG_CACHE_HOME"); !xdg.empty()) {
    return xdg + "/scalegemm";
  }
  if (const std::string home = absolute_or_empty("HOME"); !home.empty()) {
    return home + "/.cache/scalegemm";
  }
  return "";
}

// One build in progress, shared by the threads that want it.
struct Store::Flight {
  std::mutex mutex;
  std::condition_variable landed;
  std::optional<Result<KernelCode>> result;  // under mutex
};

Store::Store(std::string folder, std::chrono::milliseconds lock_timeout)
    : folder_(std::move(folder)), lock_timeout_(lock_timeout) {}

Result<KernelCode> Store::get_or_build(const Hash128& id, std::string_view name, const Builder& build) {
  std::shared_ptr<Flight> flight;
  bool ours = false;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Flight>& slot = flights_[id];
    ours = slot == nullptr;
    if (ours) {
      slot = std::make_shared<Flight>();
    }
    flight = slot;
  }
  if (!ours) {
    std::unique_lock lock(flight->mutex);
    flight->landed.wait(lock, [&] { return flight->result.has_value(); });
    Result<KernelCode> shared = *flight->result;
    if (shared.ok()) {
      shared->origin = Origin::kShared;
    }
    return shared;
  }
  // Whatever happens, those who wait must be woken.
  Result<KernelCode> result = make_error(Code::kInternal, "kernel {}: the builder threw", name);
  try {
    result = get_or_build_on_disk(id, name, build);
  } catch (const std::bad_alloc&) {
    result = make_error(Code::kOutOfMemory, "kernel {}: out of memory while building", name);
  } catch (...) {  // the result says so already
  }
  {
    const std::lock_guard lock(mutex_);
    flights_.erase(id);
  }
  {
    const std::lock_guard lock(flight->mutex);
    flight->result = result;
  }
  flight->landed.notify_all();
  return result;
}

Result<KernelCode> Store::get_or_build_on_disk(const Hash128& id, std::string_view name,
                                               const Builder& build) {
  const auto from_disk = [&]() -> std::optional<KernelCode> {
    auto bytes = load(id);
    if (!bytes.ok()) {
      return std::nullopt;
    }
    return KernelCode{std::make_shared<const std::string>(*std::move(bytes)), Origin::kDisk, ok_status()};
  };
  Status usable = check_folder();
  if (usable.ok()) {
    if (auto code = from_disk()) {
      return *std::move(code);
    }
    if (Status made = base::make_dirs(folder_); !made.ok()) {
      usable = made;
    }
  }
  std::optional<base::FileLock> lock;
  if (usable.ok()) {
    auto acquired = base::FileLock::acquire(entry_path(id) + std::string(kLockSuffix), lock_timeout_);
    if (acquired.ok()) {
      lock = *std::move(acquired);
      if (auto code = from_disk()) {  // built by another process while we waited
        lock->remove_file();
        return *std::move(code);
      }
    } else {
      usable = acquired.status();
    }
  }
  auto bytes = build();
  if (bytes.ok() && usable.ok()) {
    usable = publish(id, name, *bytes);
  }
  if (lock) {
    lock->remove_file();
  }
  if (!bytes.ok()) {
    return bytes.status();
  }
  if (folder_.empty()) {
    usable = ok_status();  // no cache was asked for
  }
  return KernelCode{std::make_shared<const std::string>(*std::move(bytes)), Origin::kBuilt,
                    usable.with_context("kernel cache not used")};
}

std::string Store::entry_path(const Hash128& id) const {
  return fmt::format("{}/{}{}", folder_, id.hex(), kEntrySuffix);
}

// A folder that does not exist yet is fine.
Status Store::check_folder() const {
  if (folder_.empty()) {
    return make_error(Code::kIoError, "there is no cache folder");
  }
  struct stat info {};
  if (::stat(folder_.c_str(), &info) != 0) {
    return errno == ENOENT ? ok_status() : base::errno_status("use folder", folder_);
  }
  if (!S_ISDIR(info.st_mode)) {
    return make_error(Code::kIoError, "{}: needs a folder, is something else", folder_);
  }
  return check_owner(info, folder_);
}

Result<std::string> Store::load(const Hash128& id) const {
  const std::string path = entry_path(id);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return base::errno_status("read", path);
  }
  SCALEGEMM_RETURN_IF_ERROR(check_owner(info, path));
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string file, base::read_file(path, kLargestEntry));
  SCALEGEMM_ASSIGN_OR_RETURN(const EntryView view, decode(file, id));
  return std::string(view.payload);
}

// The caller holds the lock of this id, so an unfinished file of this id is a dead builder's.
Status Store::publish(const Hash128& id, std::string_view name, const std::string& bytes) const {
  const std::string path = entry_path(id);
  SCALEGEMM_ASSIGN_OR_RETURN(const std::vector<FolderFile> files, own_files(folder_));
  uint64_t freed = 0;
  for (const FolderFile& file : files) {
    if (file.kind == FileKind::kUnfinished && file.name.starts_with(id.hex())) {
      SCALEGEMM_RETURN_IF_ERROR(remove(file, &freed));
    }
  }
  const std::string prefix = encode_prefix(id, name, bytes);
  const std::string_view parts[] = {prefix, bytes};
  return base::atomic_publish(path, parts);
}

bool Store::contains(const Hash128& id) const {
  return !folder_.empty() && ::access(entry_path(id).c_str(), R_OK) == 0;
}

Status Store::check_writable() const {
  SCALEGEMM_RETURN_IF_ERROR(check_folder());
  // The nearest parent that exists decides.
  fs::path nearest = folder_;
  std::error_code error;
  while (!fs::exists(nearest, error) && nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  if (::access(nearest.c_str(), W_OK | X_OK) != 0) {
    return base::errno_status("write to", nearest.string());
  }
  return ok_status();
}

Result<std::vector<EntryInfo>> Store::list() const {
  SCALEGEMM_ASSIGN_OR_RETURN(const std::vector<FolderFile> files, own_files(folder_));
  std::vector<EntryInfo> entries;
  for (const FolderFile& file : files) {
    if (file.kind != FileKind::kEntry) {
      continue;
    }
    EntryInfo info{.id = *Hash128::from_hex(std::string_view(file.name).substr(0, kHexDigits)),
                   .name = {},
                   .bytes = file.bytes,
                   .age_seconds = file.age_seconds};
    if (const auto content = base::read_file(file.path, kLargestEntry); content.ok()) {
      if (const auto view = decode(*content, info.id); view.ok()) {
        info.name = view->name;
        info.valid = true;
      }
    }
    entries.push_back(std::move(info));
  }
  std::sort(entries.begin(), entries.end(), [](const EntryInfo& a, const EntryInfo& b) {
    return std::tie(a.name, a.id) < std::tie(b.name, b.id);
  });
  return entries;
}

Result<uint64_t> Store::clear() {
  SCALEGEMM_ASSIGN_OR_RETURN(const std::vector<FolderFile> files, own_files(folder_));
  uint64_t freed = 0;
  for (const FolderFile& file : files) {
    SCALEGEMM_RETURN_IF_ERROR(remove(file, &freed));
  }
  return freed;
}

Result<uint64_t> Store::prune(uint64_t max_bytes) {
  SCALEGEMM_ASSIGN_OR_RETURN(const std::vector<FolderFile> files, own_files(folder_));
  SCALEGEMM_ASSIGN_OR_RETURN(const std::vector<EntryInfo> entries, list());
  uint64_t freed = 0;
  for (const FolderFile& file : files) {
    if (file.kind != FileKind::kEntry && file.age_seconds >= kAbandonedSeconds) {
      SCALEGEMM_RETURN_IF_ERROR(remove(file, &freed));
    }
  }
  // Corrupt ones first, then the oldest.
  std::vector<EntryInfo> order = entries;
  std::sort(order.begin(), order.end(), [](const EntryInfo& a, const EntryInfo& b) {
    return a.valid != b.valid ? !a.valid : a.age_seconds > b.age_seconds;
  });
  uint64_t left = 0;
  for (const EntryInfo& entry : order) {
    left += entry.bytes;
  }
  for (const EntryInfo& entry : order) {
    if (entry.valid && left <= max_bytes) {
      break;
    }
    const FolderFile file{.path = entry_path(entry.id), .name = {}, .bytes = entry.bytes};
    SCALEGEMM_RETURN_IF_ERROR(remove(file, &freed));
    left -= entry.bytes;
  }
  return freed;
}

}  // namespace scalegemm::store
