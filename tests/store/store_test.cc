#include "store/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "store/builtin.h"
#include "store/entry.h"

namespace scalegemm::store {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using base::Hash128;

constexpr Hash128 kId{0x1111222233334444U, 0x5555666677778888U};
constexpr Hash128 kOther{0x1111222233334444U, 0x5555666677778889U};

Store::Builder returns(std::string bytes, int* calls = nullptr) {
  return [bytes = std::move(bytes), calls]() -> Result<std::string> {
    if (calls != nullptr) {
      ++*calls;
    }
    return bytes;
  };
}

Store::Builder must_not_run() {
  return []() -> Result<std::string> {
    ADD_FAILURE() << "the builder ran";
    return make_error(Code::kInternal, "must not run");
  };
}

class StoreTest : public testing::Test {
 protected:
  std::string folder() const { return dir_->path() + "/cache"; }
  std::string entry_path(const Hash128& id = kId) const { return folder() + "/" + id.hex() + ".sgk"; }
  size_t file_count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()));
  }
  static void overwrite(const std::string& path, std::string_view content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }

  Result<base::TempDir> dir_ = base::TempDir::make("scalegemm-store");
};

TEST_F(StoreTest, BuildsOnceThenReads) {
  Store store(folder());
  int calls = 0;
  const auto built = store.get_or_build(kId, "kernel", returns("machine code", &calls));
  ASSERT_TRUE(built.ok()) << built.status().message();
  EXPECT_EQ(*built->bytes, "machine code");
  EXPECT_EQ(built->origin, Origin::kBuilt);
  EXPECT_TRUE(built->warning.ok()) << built->warning.message();
  Store other(folder());
  const auto read = other.get_or_build(kId, "kernel", must_not_run());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read->bytes, "machine code");
  EXPECT_EQ(read->origin, Origin::kDisk);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(file_count(), 1U) << "no lock and no unfinished file stays";
}

TEST_F(StoreTest, FoldersAndFilesAreTheOwnersOnly) {
  Store store(folder() + "/deep");
  ASSERT_TRUE(store.get_or_build(kId, "kernel", returns("x"))->warning.ok());
  struct stat info {};
  ASSERT_EQ(::stat((folder() + "/deep").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat((folder() + "/deep/" + kId.hex() + ".sgk").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(StoreTest, TheFolderCanMove) {
  Store store(folder());
  ASSERT_TRUE(store.get_or_build(kId, "kernel", returns("code")).ok());
  fs::rename(folder(), dir_->path() + "/moved");
  Store moved(dir_->path() + "/moved");
  EXPECT_EQ(*moved.get_or_build(kId, "kernel", must_not_run())->bytes, "code");
}

TEST_F(StoreTest, AFailedBuildIsTheCallersErrorAndLeavesNothing) {
  Store store(folder());
  const auto failed = store.get_or_build(
      kId, "kernel", [] { return Result<std::string>(make_error(Code::kCompileFailed, "no semicolon")); });
  EXPECT_EQ(failed.status().code(), Code::kCompileFailed);
  EXPECT_EQ(failed.status().message(), "no semicolon");
  EXPECT_EQ(file_count(), 0U);
  EXPECT_TRUE(store.get_or_build(kId, "kernel", returns("fixed")).ok()) << "the next call tries again";
}

TEST_F(StoreTest, WithoutAFolderItBuildsEachTimeAndDoesNotComplain) {
  Store store("");
  int calls = 0;
  for (int i = 0; i < 2; ++i) {
    const auto built = store.get_or_build(kId, "kernel", returns("x", &calls));
    ASSERT_TRUE(built.ok());
    EXPECT_TRUE(built->warning.ok());
  }
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(store.list()->empty());
  EXPECT_EQ(*store.clear(), 0U);
}

TEST_F(StoreTest, EightThreadsBuildOnce) {
  Store store(folder());
  for (int round = 0; round < 20; ++round) {
    const Hash128 id{static_cast<uint64_t>(round), 7};
    std::atomic<int> calls{0};
    std::atomic<int> built{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        const auto code = store.get_or_build(id, "kernel", [&]() -> Result<std::string> {
          ++calls;
          std::this_thread::sleep_for(2ms);
          return std::string("code");
        });
        ASSERT_TRUE(code.ok());
        EXPECT_EQ(*code->bytes, "code");
        built += code->origin == Origin::kBuilt ? 1 : 0;
      });
    }
    for (std::thread& t : threads) {
      t.join();
    }
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(built, 1);
  }
}

TEST_F(StoreTest, ThreadsShareAFailureAndDifferentIdsDoNotWait) {
  Store store(folder());
  std::atomic<bool> other_done{false};
  std::thread slow([&] {
    const auto code = store.get_or_build(kId, "slow", [&]() -> Result<std::string> {
      const auto deadline = std::chrono::steady_clock::now() + 30s;
      while (!other_done && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(1ms);
      }
      EXPECT_TRUE(other_done) << "a build of another id waited for this one";
      return make_error(Code::kCompileFailed, "slow and wrong");
    });
    EXPECT_EQ(code.status().code(), Code::kCompileFailed);
  });
  EXPECT_TRUE(store.get_or_build(kOther, "quick", returns("x")).ok());
  other_done = true;
  slow.join();
}

TEST_F(StoreTest, EveryFlippedByteAndEveryCutIsFoundAndHealed) {
  Store store(folder());
  ASSERT_TRUE(store.get_or_build(kId, "a_kernel_name", returns("the payload")).ok());
  const std::string good = *base::read_file(entry_path(), 1 << 20);
  ASSERT_EQ(good.size(), kEntryHeaderBytes + 13 + 11);
  const auto heals = [&](const std::string& bad) {
    overwrite(entry_path(), bad);
    int calls = 0;
    const auto code = store.get_or_build(kId, "a_kernel_name", returns("the payload", &calls));
    return code.ok() && *code->bytes == "the payload" && code->warning.ok() && calls == 1 &&
           *base::read_file(entry_path(), 1 << 20) == good;
  };
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    EXPECT_TRUE(heals(bad)) << "byte " << i;
    EXPECT_TRUE(heals(good.substr(0, i))) << "cut at " << i;
  }
  EXPECT_TRUE(heals(good + '\0')) << "a byte too many";
  EXPECT_TRUE(heals(std::string(good.size(), '\0')));
  EXPECT_TRUE(heals(std::string(good.size(), '\xff')));
}

TEST_F(StoreTest, AnotherEntrysFileIsNotTaken) {
  Store store(folder());
  ASSERT_TRUE(store.get_or_build(kOther, "kernel", returns("wrong code")).ok());
  fs::copy_file(entry_path(kOther), entry_path(kId));
  EXPECT_EQ(*store.get_or_build(kId, "kernel", returns("right code"))->bytes, "right code");
}

TEST_F(StoreTest, AFolderInPlaceOfAnEntryIsAWarning) {
  Store store(folder());
  fs::create_directories(entry_path());
  fs::permissions(folder(), fs::perms::owner_all);
  std::ofstream(entry_path() + "/file") << "x";
  const auto code = store.get_or_build(kId, "kernel", returns("code"));
  ASSERT_TRUE(code.ok());
  EXPECT_EQ(*code->bytes, "code");
  EXPECT_EQ(code->warning.code(), Code::kIoError);
}

TEST_F(StoreTest, AFileInPlaceOfTheFolderIsAWarning) {
  std::ofstream(folder()) << "x";
  Store store(folder());
  const auto code = store.get_or_build(kId, "kernel", returns("code"));
  ASSERT_TRUE(code.ok());
  EXPECT_EQ(code->warning.code(), Code::kIoError);
  EXPECT_NE(code->warning.message().find(folder()), std::string::npos) << code->warning.message();
}

TEST_F(StoreTest, AFolderThatOthersCanWriteIsNotTrusted) {
  Store store(folder());
  ASSERT_TRUE(store.get_or_build(kId, "kernel", returns("planted")).ok());
  ::chmod(folder().c_str(), 0777);
  const auto code = store.get_or_build(kId, "kernel", returns("own"));
  ASSERT_TRUE(code.ok());
  EXPECT_EQ(*code->bytes, "own");
  EXPECT_NE(code->warning.message().find("owner"), std::string::npos) << code->warning.message();
  ::chmod(folder().c_str(), 0700);
  // An entry that others can write is replaced.
  ::chmod(entry_path().c_str(), 0666);
  EXPECT_EQ(*store.get_or_build(kId, "kernel", returns("own"))->bytes, "own");
  EXPECT_EQ(*store.get_or_build(kId, "kernel", must_not_run())->bytes, "own");
}

TEST_F(StoreTest, AHungBuilderDoesNotHangEveryoneElse) {
  Store store(folder(), 50ms);
  ASSERT_TRUE(base::make_dirs(folder()).ok());
  const auto held = base::FileLock::acquire(entry_path() + ".lock", 1s);
  ASSERT_TRUE(held.ok());
  const auto code = store.get_or_build(kId, "kernel", returns("code"));
  ASSERT_TRUE(code.ok());
  EXPECT_EQ(*code->bytes, "code");
  EXPECT_NE(code->warning.message().find("locked"), std::string::npos) << code->warning.message();
  EXPECT_FALSE(fs::exists(entry_path())) << "who does not hold the lock does not publish";
}

TEST_F(StoreTest, ListsClearsAndLeavesForeignFilesAlone) {
  Store store(folder());
  EXPECT_TRUE(store.list()->empty());
  ASSERT_TRUE(store.get_or_build(kId, "b_kernel", returns("12345")).ok());
  ASSERT_TRUE(store.get_or_build(kOther, "a_kernel", returns("1")).ok());
  overwrite(folder() + "/README", "mine");
  overwrite(folder() + "/" + kId.hex() + ".sgk.tmp-1-2", "left by a killed builder");
  overwrite(folder() + "/" + Hash128{9, 9}.hex() + ".sgk", "corrupt");
  const auto entries = store.list();
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ((*entries)[0].id, (Hash128{9, 9}));
  EXPECT_FALSE((*entries)[0].valid);
  EXPECT_EQ((*entries)[1].name, "a_kernel");
  EXPECT_EQ((*entries)[2].name, "b_kernel");
  EXPECT_EQ((*entries)[2].bytes, kEntryHeaderBytes + 8 + 5);
  EXPECT_TRUE((*entries)[2].valid);
  EXPECT_EQ(*store.clear(), 2 * (kEntryHeaderBytes + 8) + 6 + 24 + 7);
  EXPECT_EQ(file_count(), 1U);
  EXPECT_TRUE(fs::exists(folder() + "/README"));
}

TEST_F(StoreTest, PrunesCorruptThenOldest) {
  Store store(folder());
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(store.get_or_build({0, i}, "k", returns(std::string(1000, 'x'))).ok());
    const utimbuf old{0, std::time(nullptr) - 1000 * static_cast<time_t>(i + 1)};
    ASSERT_EQ(::utime(entry_path({0, i}).c_str(), &old), 0);
  }
  overwrite(entry_path({1, 1}), "corrupt");
  overwrite(folder() + "/" + kId.hex() + ".sgk.tmp-1-2", "may belong to a running builder");
  overwrite(folder() + "/" + kOther.hex() + ".sgk.tmp-1-2", "cannot");
  const utimbuf old{0, std::time(nullptr) - 100000};
  ASSERT_EQ(::utime((folder() + "/" + kOther.hex() + ".sgk.tmp-1-2").c_str(), &old), 0);
  const uint64_t one = kEntryHeaderBytes + 1 + 1000;
  EXPECT_EQ(*store.prune(2 * one), 2 * one + 7 + 6);
  EXPECT_TRUE(fs::exists(entry_path({0, 0})));
  EXPECT_TRUE(fs::exists(entry_path({0, 1})));
  EXPECT_FALSE(fs::exists(entry_path({0, 2})));
  EXPECT_FALSE(fs::exists(entry_path({0, 3})));
  EXPECT_EQ(file_count(), 3U);
  EXPECT_EQ(*store.prune(0), 2 * one);
}

TEST(StoreFolder, EnvironmentInOrder) {
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  ::setenv("HOME", "/h", 1);
  ::unsetenv("SCALEGEMM_CACHE_DIR");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(default_folder(), "/h/.cache/scalegemm");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(default_folder(), "/x/scalegemm");
  ::setenv("SCALEGEMM_CACHE_DIR", "/own", 1);
  EXPECT_EQ(default_folder(), "/own");
  ::setenv("SCALEGEMM_CACHE_DIR", "relative", 1);
  EXPECT_EQ(default_folder(), "/x/scalegemm");
  ::unsetenv("SCALEGEMM_CACHE_DIR");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(default_folder(), "");
  ::setenv("HOME", home.c_str(), 1);
}

TEST(Entry, RefusesHostileSizes) {
  const std::string payload = "p";
  std::string file = encode_prefix(kId, "n", payload) + payload;
  ASSERT_TRUE(decode(file, kId).ok());
  for (const size_t offset : {12UL, 16UL}) {
    std::string bad = file;
    for (size_t i = 0; i < 4; ++i) {
      bad[offset + i] = '\xff';
    }
    const auto view = decode(bad, kId);
    EXPECT_EQ(view.status().code(), Code::kCorruptData);
  }
  EXPECT_NE(decode(file, kOther).status().message().find(kOther.hex()), std::string::npos);
  // Sizes that are right together only after wrapping.
  std::string wrapped = file;
  wrapped[12] = 2;
  for (size_t i = 16; i < 24; ++i) {
    wrapped[i] = '\0';
  }
  EXPECT_TRUE(decode(wrapped, kId).status().code() == Code::kCorruptData);
}

TEST(Builtin, FindsBySourceOnly) {
  const BuiltinKernel kernels[] = {{"a", {0, 1}, {5, 5}, nullptr}, {"b", {0, 2}, {6, 6}, nullptr}};
  EXPECT_EQ(find_builtin(kernels, {0, 2}), &kernels[1]);
  EXPECT_EQ(find_builtin(kernels, {0, 3}), nullptr);
  EXPECT_EQ(find_builtin(kernels, {5, 5}), nullptr);
  EXPECT_EQ(find_builtin({}, {0, 1}), nullptr);
}

}  // namespace
}  // namespace scalegemm::store
