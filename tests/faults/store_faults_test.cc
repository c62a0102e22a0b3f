// The disk cache under attack: racing processes, killed builders, full and read-only disks.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <iostream>
#include <thread>

#include "base/files.h"
#include "store/store.h"

namespace scalegemm::store {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using base::Hash128;

constexpr Hash128 kId{0x0123456789abcdefU, 42};
constexpr uid_t kNobody = 65534;

// In a child: leaves it with a message when something is not as it should be.
#define CHILD_CHECK(condition)                                                     \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::cerr << __FILE__ << ':' << __LINE__ << ": " << #condition << std::endl; \
      ::_exit(1);                                                                  \
    }                                                                              \
  } while (false)

pid_t start(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  return child;
}

// The exit code, or 128 + signal.
int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class StoreFaults : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(base::make_dirs(folder()).ok()); }

  std::string folder() const { return dir_->path() + "/cache"; }
  std::string entry() const { return folder() + "/" + kId.hex() + ".sgk"; }
  // Files whose names contain `part`, and the size of one of them.
  size_t count(std::string_view part, uint64_t* size = nullptr) const {
    size_t found = 0;
    for (const auto& file : fs::directory_iterator(folder())) {
      if (file.path().filename().string().find(part) != std::string::npos) {
        ++found;
        std::error_code gone;
        const uint64_t bytes = file.file_size(gone);
        if (size != nullptr && !gone) {
          *size = bytes;
        }
      }
    }
    return found;
  }

  Result<base::TempDir> dir_ = base::TempDir::make("scalegemm-faults");
};

TEST_F(StoreFaults, EightProcessesOfEightThreadsBuildOnce) {
  const std::string log = dir_->path() + "/builds";
  for (int round = 0; round < 3; ++round) {
    const Hash128 id{7, static_cast<uint64_t>(round)};
    const auto ask = [&](Store* store) {
      const auto code = store->get_or_build(id, "kernel", [&]() -> Result<std::string> {
        const base::UniqueFd fd(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
        CHILD_CHECK(base::write_all(fd.get(), "x", log).ok());
        std::this_thread::sleep_for(100ms);
        return std::string(100000, 'c');
      });
      CHILD_CHECK(code.ok() && code->warning.ok());
      CHILD_CHECK(*code->bytes == std::string(100000, 'c'));
    };
    std::vector<pid_t> children;
    for (int p = 0; p < 8; ++p) {
      children.push_back(start([&] {
        Store store(folder());
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t) {
          threads.emplace_back([&] { ask(&store); });
        }
        for (std::thread& t : threads) {
          t.join();
        }
      }));
    }
    for (const pid_t child : children) {
      EXPECT_EQ(wait_for(child), 0);
    }
    EXPECT_EQ(fs::file_size(log), static_cast<uint64_t>(round + 1)) << "builds of all processes together";
  }
  EXPECT_EQ(count(""), 3U) << "entries only: no lock, no unfinished file";
}

TEST_F(StoreFaults, ABuilderKilledWhileItWritesLeavesNoEntry) {
  bool caught = false;
  for (int attempt = 0; attempt < 20 && !caught; ++attempt) {
    const pid_t child = start([&] {
      Store store(folder());
      const auto code = store.get_or_build(
          kId, "kernel", []() -> Result<std::string> { return std::string(size_t{64} << 20, 'k'); });
      CHILD_CHECK(code.ok());
    });
    uint64_t written = 0;
    while (!fs::exists(entry()) && (count(".tmp-", &written) == 0 || written < 4096)) {
      std::this_thread::yield();
    }
    ::kill(child, SIGKILL);
    caught = wait_for(child) == 128 + SIGKILL && !fs::exists(entry()) && count(".tmp-") == 1;
    fs::remove(entry());
  }
  ASSERT_TRUE(caught) << "never killed it in the middle";
  Store store(folder());
  int calls = 0;
  const auto code = store.get_or_build(kId, "kernel", [&]() -> Result<std::string> {
    ++calls;
    return std::string("good");
  });
  ASSERT_TRUE(code.ok());
  EXPECT_TRUE(code->warning.ok()) << code->warning.message();
  EXPECT_EQ(*code->bytes, "good");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(count(""), 1U) << "the killed builder's file and lock are gone";
}

TEST_F(StoreFaults, WaitersTakeOverFromAKilledBuilder) {
  const std::string building = dir_->path() + "/building";
  const pid_t builder = start([&] {
    Store store(folder());
    (void)store.get_or_build(kId, "kernel", [&]() -> Result<std::string> {
      CHILD_CHECK(base::write_new_file(building, "").ok());
      ::pause();
      return std::string("never");
    });
  });
  while (!fs::exists(building)) {
    std::this_thread::sleep_for(1ms);
  }
  const pid_t waiter = start([&] {
    Store store(folder());
    const auto code =
        store.get_or_build(kId, "kernel", []() -> Result<std::string> { return std::string("mine"); });
    CHILD_CHECK(code.ok() && code->warning.ok() && *code->bytes == "mine");
  });
  std::this_thread::sleep_for(50ms);
  ::kill(builder, SIGKILL);
  EXPECT_EQ(wait_for(builder), 128 + SIGKILL);
  EXPECT_EQ(wait_for(waiter), 0);
}

TEST_F(StoreFaults, AFullDiskMeansNoCacheNotNoKernel) {
  // In a child with mounts of its own, so that nothing stays mounted. Where it may not mount, a limit on the
  // size of files takes the place of the full disk.
  const pid_t child = start([&] {
    const bool full = ::unshare(CLONE_NEWNS) == 0 &&
                      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      ::mount("tmpfs", folder().c_str(), "tmpfs", 0, "size=256k,mode=0700") == 0;
    if (!full) {
      const rlimit limit = {256 << 10, 256 << 10};
      CHILD_CHECK(::setrlimit(RLIMIT_FSIZE, &limit) == 0 && ::signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    }
    Store store(folder());
    const std::string large(size_t{1} << 20, 'k');
    for (int i = 0; i < 2; ++i) {
      const auto code = store.get_or_build(kId, "kernel", [&]() -> Result<std::string> { return large; });
      CHILD_CHECK(code.ok() && *code->bytes == large);
      CHILD_CHECK(code->origin == Origin::kBuilt && code->warning.code() == scalegemm::Code::kIoError);
      CHILD_CHECK(code->warning.message().find(full ? "No space left" : "File too large") !=
                  std::string::npos);
      CHILD_CHECK(count("") == 0);
    }
    // What fits is kept.
    const auto small =
        store.get_or_build({1, 1}, "k", []() -> Result<std::string> { return std::string("s"); });
    CHILD_CHECK(small.ok() && small->warning.ok() && count("") == 1);
  });
  EXPECT_EQ(wait_for(child), 0);
}

TEST_F(StoreFaults, AReadOnlyFolderIsReadAndNotWritten) {
  ASSERT_TRUE(Store(folder())
                  .get_or_build(kId, "kernel", []() -> Result<std::string> { return std::string("old"); })
                  ->warning.ok());
  const bool root = ::geteuid() == 0;
  if (root) {  // root writes anywhere: give everything to an ordinary user and become that user
    for (const std::string& path : {dir_->path(), folder(), entry()}) {
      ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
    }
  }
  const pid_t child = start([&] {
    if (root) {
      CHILD_CHECK(::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
    }
    CHILD_CHECK(::chmod(folder().c_str(), 0500) == 0);
    Store store(folder());
    CHILD_CHECK(!store.check_writable().ok());
    const auto old =
        store.get_or_build(kId, "kernel", []() -> Result<std::string> { return std::string("new"); });
    CHILD_CHECK(old.ok() && *old->bytes == "old" && old->warning.ok());
    const auto fresh =
        store.get_or_build({1, 1}, "k", []() -> Result<std::string> { return std::string("new"); });
    CHILD_CHECK(fresh.ok() && *fresh->bytes == "new");
    CHILD_CHECK(fresh->warning.code() == scalegemm::Code::kIoError);
    CHILD_CHECK(fresh->warning.message().find("Permission denied") != std::string::npos);
    CHILD_CHECK(::chmod(folder().c_str(), 0700) == 0);
    CHILD_CHECK(store.check_writable().ok());
    CHILD_CHECK(count("") == 1);
  });
  EXPECT_EQ(wait_for(child), 0);
}

TEST_F(StoreFaults, ACorruptEntryInAReadOnlyFolderIsNotRun) {
  ASSERT_TRUE(base::write_new_file(entry(), "garbage").ok());
  const bool root = ::geteuid() == 0;
  if (root) {
    for (const std::string& path : {dir_->path(), folder(), entry()}) {
      ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
    }
  }
  const pid_t child = start([&] {
    if (root) {
      CHILD_CHECK(::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
    }
    CHILD_CHECK(::chmod(folder().c_str(), 0500) == 0);
    Store store(folder());
    const auto code =
        store.get_or_build(kId, "kernel", []() -> Result<std::string> { return std::string("good"); });
    CHILD_CHECK(code.ok() && *code->bytes == "good" && !code->warning.ok());
    CHILD_CHECK(::chmod(folder().c_str(), 0700) == 0);
  });
  EXPECT_EQ(wait_for(child), 0);
}

}  // namespace
}  // namespace scalegemm::store
