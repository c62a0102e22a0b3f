// Store: keeps compiled kernels on disk, keyed by id, and makes sure that each is built once.
//
// The id is a hash over everything that shapes the code (gen::kernel_id), so an entry never goes stale and
// the folder can be moved, shared or deleted at any time. One file an entry, named by the id; it appears by
// rename, complete and verified by its digest when read. Folders are 0700 and files 0600.
//
// A cache that cannot be used (read-only, full, owned by someone else, locked by a process that hangs) never
// fails a run: the kernel is built and used without it, and the reason comes back as a warning.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/status.h"

namespace scalegemm::store {

// $SCALEGEMM_CACHE_DIR, else $XDG_CACHE_HOME/scalegemm, else $HOME/.cache/scalegemm; empty (no disk cache)
// when none is set. Relative paths in these variables are ignored, as the XDG specification asks.
std::string default_folder();

enum class Origin : uint8_t {
  kBuilt,   // the builder of this call ran
  kShared,  // another thread of this process was building it; its result
  kDisk,    // read from the folder
};

struct KernelCode {
  std::shared_ptr<const std::string> bytes;  // never null
  Origin origin = Origin::kBuilt;
  Status warning;  // not ok: usable, but the cache could not be read or written, and why
};

struct EntryInfo {
  base::Hash128 id;
  std::string name;         // of the kernel; empty where the entry is corrupt
  uint64_t bytes = 0;       // of the file
  int64_t age_seconds = 0;  // since it was written
  bool valid = false;       // the digest matches
};

class Store {
 public:
  using Builder = std::function<Result<std::string>()>;

  // Touches no file. An empty folder means no disk cache.
  explicit Store(std::string folder, std::chrono::milliseconds lock_timeout = std::chrono::minutes(6));

  const std::string& folder() const { return folder_; }

  // The code of `id`: from the folder, else built and published. Of all threads and processes that ask at the
  // same time, one builds and the others wait for it. A corrupt entry is replaced. Fails only when the
  // builder does. Thread-safe; the builder must not ask for the same id.
  Result<KernelCode> get_or_build(const base::Hash128& id, std::string_view name, const Builder& build);

  // Is there an entry of this id? Looks for the file only; get_or_build verifies it.
  bool contains(const base::Hash128& id) const;

  // Could an entry be written now? Changes nothing; the reason when it could not.
  Status check_writable() const;

  // Every entry, verified, ordered by name; empty when the folder does not exist.
  Result<std::vector<EntryInfo>> list() const;

  // Removes every entry and everything that killed builders left; files that are not the store's stay.
  // Returns the bytes freed.
  Result<uint64_t> clear();

  // Removes corrupt entries and leftovers, then the oldest entries until at most `max_bytes` remain.
  Result<uint64_t> prune(uint64_t max_bytes);

 private:
  struct Flight;

  std::string entry_path(const base::Hash128& id) const;
  Result<KernelCode> get_or_build_on_disk(const base::Hash128& id, std::string_view name,
                                          const Builder& build);
  Result<std::string> load(const base::Hash128& id) const;
  Status publish(const base::Hash128& id, std::string_view name, const std::string& bytes) const;
  Status check_folder() const;

  std::string folder_;
  std::chrono::milliseconds lock_timeout_;
  std::mutex mutex_;
  std::map<base::Hash128, std::shared_ptr<Flight>> flights_;  // under mutex_: what is being built now
};

}  // namespace scalegemm::store
