#include "base/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/files.h"

namespace scalegemm::base {
namespace {

using namespace std::chrono_literals;

Result<Finished> shell(const std::string& script, std::chrono::milliseconds timeout = 20s) {
  return run({.argv = {"/bin/sh", "-c", script}, .timeout = timeout});
}

TEST(Subprocess, CapturesBothStreamsAndTheExitCode) {
  const auto done = shell("echo out; echo err >&2; exit 3");
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->output, "out\nerr\n");
  EXPECT_EQ(done->exit_code, 3);
  EXPECT_FALSE(done->succeeded());
  EXPECT_EQ(shell("kill -9 $$")->exit_code, 128 + 9);
}

TEST(Subprocess, ArgumentsAreNeverInterpreted) {
  const auto done = run({.argv = {"/bin/echo", "$HOME; `id` 'x'", ""}});
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->output, "$HOME; `id` 'x' \n");
}

TEST(Subprocess, AMissingProgramIsAnErrorThatNamesIt) {
  const auto done = run({.argv = {"/nonexistent/compiler"}});
  EXPECT_EQ(done.status().code(), Code::kIoError);
  EXPECT_NE(done.status().message().find("/nonexistent/compiler"), std::string::npos);
  EXPECT_EQ(run({}).status().code(), Code::kInvalidArgument);
}

TEST(Subprocess, OutputIsCappedWithoutBlockingTheProgram) {
  const auto done =
      run({.argv = {"/bin/sh", "-c", "head -c 3000000 /dev/zero; echo end >&2; exit 7"}, .max_output = 1000});
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->output.size(), 1000U);
  EXPECT_TRUE(done->truncated);
  EXPECT_EQ(done->exit_code, 7);
}

TEST(Subprocess, ATimeoutKillsTheProgramAndItsChildren) {
  const auto begin = std::chrono::steady_clock::now();
  const auto done = shell("sleep 30 & sleep 30; wait", 200ms);
  EXPECT_EQ(done.status().code(), Code::kIoError);
  EXPECT_NE(done.status().message().find("200 ms"), std::string::npos) << done.status().message();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  // Closing its output early does not hide a program from its timeout.
  EXPECT_FALSE(shell("exec >/dev/null 2>&1; sleep 30", 200ms).ok());
}

TEST(Subprocess, FolderAndEnvironment) {
  const auto done = run({.argv = {"/bin/sh", "-c", "pwd; echo $SCALEGEMM_TEST_A$HOME"},
                         .working_folder = "/usr",
                         .environment = {"SCALEGEMM_TEST_A=a", "HOME=b"}});
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->output, "/usr\nab\n");
}

TEST(Subprocess, ChildrenInheritNoDescriptor) {
  const UniqueFd leaky(::open("/dev/null", O_RDONLY));  // without O_CLOEXEC, as some host programs do
  ASSERT_TRUE(leaky);
  const auto done = shell("ls /proc/$$/fd");
  ASSERT_TRUE(done.ok());
  std::string listed = done->output;
  std::replace(listed.begin(), listed.end(), '\n', ' ');
  EXPECT_EQ(listed, "0 1 2 ") << "only stdin, stdout and stderr";
}

TEST(Subprocess, ManyAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 5; ++i) {
        const auto done = shell("echo " + std::to_string(t));
        ASSERT_TRUE(done.ok());
        EXPECT_EQ(done->output, std::to_string(t) + "\n");
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

TEST(Subprocess, FindsPrograms) {
  EXPECT_TRUE(find_program("sh"));
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  EXPECT_FALSE(find_program("scalegemm-no-such-program"));
  EXPECT_FALSE(find_program("/nonexistent/sh"));
  EXPECT_FALSE(find_program(""));
}

}  // namespace
}  // namespace scalegemm::base
