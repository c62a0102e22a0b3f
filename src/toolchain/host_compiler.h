// The host's C++ compiler (g++ or clang++), run as a program.
//
// Sources and headers are written to a private temporary folder and named relative to it, so that neither
// the code nor the messages contain a path of this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "toolchain/compiler.h"

namespace scalegemm::toolchain {

struct HostCompilerOptions {
  CodeKind output = CodeKind::kSharedObject;  // or kObject
  std::string program = {};  // path or name; empty: $SCALEGEMM_CXX, $CXX, then g++, clang++, c++ in $PATH
};

// kNotBuilt when there is none: the message says what was tried and what to install. A program that was
// named explicitly and does not work is an error, never skipped.
Result<std::unique_ptr<Compiler>> find_host_compiler(const HostCompilerOptions& options = {});

// The ISA flags of a CPU target, as GCC and Clang spell them; empty for a GPU.
std::vector<std::string> isa_flags(spec::Target target);

}  // namespace scalegemm::toolchain
