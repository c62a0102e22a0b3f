#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace scalegemm::base {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Files : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_->path() + "/" + name; }
  static mode_t mode(const std::string& file) {
    struct stat info {};
    return ::stat(file.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
  }
  static Status publish(const std::string& file, std::string_view text) {
    const std::array<std::string_view, 1> parts = {text};
    return atomic_publish(file, parts);
  }
  size_t count() const {
    const fs::directory_iterator all(dir_->path());
    return static_cast<size_t>(std::distance(fs::begin(all), fs::end(all)));
  }

  Result<TempDir> dir_ = TempDir::make("scalegemm-files");
};

TEST_F(Files, PublishesPartsOwnerOnly) {
  const std::array<std::string_view, 3> parts = {"one ", "", "two"};
  ASSERT_TRUE(atomic_publish(path("a"), parts).ok());
  EXPECT_EQ(*read_file(path("a"), 100), "one two");
  EXPECT_EQ(mode(path("a")), 0600U);
  EXPECT_EQ(count(), 1U);
}

// Caches are the owner's alone; a file that a user asked for is as the umask says.
TEST_F(Files, PublishFollowsTheUmaskWhereItIsAsked) {
  const std::array<std::string_view, 1> parts = {"x"};
  const mode_t before = ::umask(027);
  EXPECT_TRUE(atomic_publish(path("a"), parts, Access::kUmask).ok());
  ::umask(before);
  EXPECT_EQ(mode(path("a")), 0640U);
}

TEST_F(Files, AnUnpublishedOutputFileLeavesNothing) {
  ASSERT_TRUE(OutputFile::create(path("a"), Access::kUmask).ok());
  EXPECT_EQ(count(), 0U);
  EXPECT_EQ(OutputFile::create("/dev/null", Access::kUmask).status().code(), Code::kIoError);
}

TEST_F(Files, PublishReplacesAndAFailureChangesNothing) {
  ASSERT_TRUE(publish(path("a"), "old").ok());
  ASSERT_TRUE(publish(path("a"), "new").ok());
  EXPECT_EQ(*read_file(path("a"), 100), "new");
  fs::create_directory(path("folder"));
  fs::create_directory(path("folder/inside"));
  const Status status = publish(path("folder"), "x");  // rename over a folder fails
  EXPECT_EQ(status.code(), Code::kIoError);
  EXPECT_NE(status.message().find(path("folder")), std::string::npos) << status.message();
  EXPECT_EQ(count(), 2U) << "an unfinished file was left";
}

TEST_F(Files, ReadersNeverSeeAMixture) {
  const std::string a(100000, 'a');
  const std::string b(70000, 'b');
  ASSERT_TRUE(publish(path("f"), a).ok());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(publish(path("f"), i % 2 != 0 ? a : b).ok());
    }
    stop = true;
  });
  int reads = 0;
  while (!stop || reads == 0) {
    const auto content = read_file(path("f"), 1 << 20);
    ASSERT_TRUE(content.ok()) << content.status().message();
    ASSERT_TRUE(*content == a || *content == b);
    ++reads;
  }
  writer.join();
}

TEST_F(Files, ReadHasACap) {
  ASSERT_TRUE(publish(path("a"), "12345").ok());
  EXPECT_TRUE(read_file(path("a"), 5).ok());
  const auto refused = read_file(path("a"), 4);
  EXPECT_EQ(refused.status().code(), Code::kIoError);
  EXPECT_NE(refused.status().message().find("5"), std::string::npos);
  EXPECT_FALSE(read_file("/dev/zero", 100).ok());
  EXPECT_FALSE(read_file(dir_->path(), 100).ok());
  EXPECT_FALSE(read_file(path("missing"), 100).ok());
  EXPECT_TRUE(read_file("/proc/self/status", 1 << 20).ok()) << "size 0 in stat, content all the same";
  EXPECT_FALSE(read_file("/proc/self/status", 10).ok());
}

TEST_F(Files, MapsAndSurvivesRemoval) {
  ASSERT_TRUE(publish(path("a"), "mapped").ok());
  auto file = MappedFile::open(path("a"));
  ASSERT_TRUE(file.ok());
  fs::remove(path("a"));
  MappedFile moved = *std::move(file);
  EXPECT_EQ(moved.text(), "mapped");
  ASSERT_TRUE(publish(path("empty"), "").ok());
  EXPECT_EQ(MappedFile::open(path("empty"))->text(), "");
  EXPECT_FALSE(MappedFile::open(path("missing")).ok());
  EXPECT_FALSE(MappedFile::open("/dev/zero").ok());
}

TEST_F(Files, MakesFoldersOwnerOnly) {
  ASSERT_TRUE(make_dirs(path("x/y/z")).ok());
  ASSERT_TRUE(make_dirs(path("x/y/z")).ok());
  EXPECT_EQ(mode(path("x")), 0700U);
  EXPECT_EQ(mode(path("x/y/z")), 0700U);
  ASSERT_TRUE(publish(path("file"), "").ok());
  EXPECT_EQ(make_dirs(path("file")).code(), Code::kIoError);
  EXPECT_EQ(make_dirs(path("file/below")).code(), Code::kIoError);
}

TEST_F(Files, LockTimesOutAndIsFreedByDeath) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto lock = FileLock::acquire(path("lock"), 1s);
    ::pause();
    ::_exit(lock.ok() ? 0 : 1);
  }
  while (!fs::exists(path("lock"))) {
    std::this_thread::sleep_for(1ms);
  }
  std::this_thread::sleep_for(20ms);
  const auto refused = FileLock::acquire(path("lock"), 30ms);
  EXPECT_EQ(refused.status().code(), Code::kIoError);
  EXPECT_NE(refused.status().message().find("30 ms"), std::string::npos);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(FileLock::acquire(path("lock"), 1s).ok());
}

TEST_F(Files, LockExcludesWhileItsFileComesAndGoes) {
  std::atomic<int> inside{0};  // atomic because tsan does not know flock
  std::atomic<int> overlaps{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        auto lock = FileLock::acquire(path("lock"), 20s);
        ASSERT_TRUE(lock.ok()) << lock.status().message();
        overlaps += inside.fetch_add(1) != 0 ? 1 : 0;
        std::this_thread::yield();
        inside.fetch_sub(1);
        lock->remove_file();
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(count(), 0U);
}

TEST_F(Files, TempDirRemovesItself) {
  std::string where;
  {
    auto dir = TempDir::make("scalegemm-gone");
    ASSERT_TRUE(dir.ok());
    where = dir->path();
    EXPECT_EQ(mode(where), 0700U);
    std::ofstream(where + "/file") << "x";
  }
  EXPECT_FALSE(fs::exists(where));
}

}  // namespace
}  // namespace scalegemm::base
