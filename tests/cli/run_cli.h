// Spawns the program and catches what it says.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace scalegemm::cli_test {

using Json = nlohmann::ordered_json;

struct Output {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

// Its own empty folder for each test, which is also the folder that the program runs in.
class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "scalegemm_cli_" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // `arguments` are shell words; `before` is put in front of the program, such as "env X=1".
  Output run(const std::string& arguments, const std::string& before = "env") const {
    const std::string command = "cd '" + folder_ + "' && SCALEGEMM_CACHE_DIR='" + folder_ + "/cache' " +
                                before + " '" + SCALEGEMM_CLI + "' " + arguments + " >'" + folder_ +
                                "/.out' 2>'" + folder_ + "/.err'";
    const int status = std::system(command.c_str());
    Output output;
    output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    output.out = read_file(path(".out"));
    output.err = read_file(path(".err"));
    return output;
  }

  Json run_json(const std::string& arguments) const {
    const Output output = run(arguments + " --json");
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return Json::parse(output.out, nullptr, false);
  }

  // The run fails with that code, and standard error holds each of the words.
  void expect_error(const std::string& arguments, int code, const std::vector<std::string>& words) const {
    const Output output = run(arguments);
    EXPECT_EQ(output.exit_code, code) << arguments << "\n" << output.out << output.err;
    EXPECT_EQ(output.err.rfind("error: ", 0), 0u) << arguments << "\n" << output.err;
    EXPECT_NE(output.err.find("\nfix:   "), std::string::npos) << arguments << "\n" << output.err;
    for (const std::string& word : words) {
      EXPECT_NE(output.err.find(word), std::string::npos) << arguments << ": " << word << "\n" << output.err;
    }
  }

 private:
  std::string folder_;
};

inline std::vector<std::string> keys_of(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  return keys;
}

}  // namespace scalegemm::cli_test
