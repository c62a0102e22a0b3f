// Runs a program and captures what it says. Used for compilers; never through a shell.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace scalegemm::base {

struct Command {
  std::vector<std::string> argv;              // argv[0] is the path of the program
  std::string working_folder = {};            // empty: that of this process
  std::vector<std::string> environment = {};  // "NAME=value", added to or replacing those of this process
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  size_t max_output = size_t{1} << 20;  // bytes kept of what it prints; the rest is read and dropped
};

struct Finished {
  int exit_code = 0;       // of a normal exit; 128 + signal number otherwise, as a shell reports it
  std::string output;      // stdout and stderr in the order they arrived
  bool truncated = false;  // more than max_output was printed

  bool succeeded() const { return exit_code == 0; }
};

// Waits for the program to end. A program that cannot be started (message names it and the reason) or that
// exceeds its timeout (it and its children are killed) is kIoError; one that runs and fails is a Finished
// with its exit code. The child gets /dev/null as stdin, default signal handling and no descriptor of ours.
// Thread-safe.
Result<Finished> run(const Command& command);

// The path of a program: `name` itself when it has a '/', else the first match in $PATH.
std::optional<std::string> find_program(const std::string& name);

}  // namespace scalegemm::base
