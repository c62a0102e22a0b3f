// Compiler: source text -> machine code. The host's C++ compiler and NVRTC are the two kinds.
//
// A compiler is found once, describes itself without any path (identity), finds out by trial which flags it
// takes, and then compiles from memory to memory. All of it is thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "base/status.h"
#include "spec/target.h"

namespace scalegemm::toolchain {

enum class CodeKind : uint8_t {
  kSharedObject = 1,  // ELF shared object for this host; loaded with base::DynLib::open_bytes
  kObject = 2,        // ELF relocatable object for this host; for linking into the library
  kCubin = 3,         // NVIDIA
};

struct CodeObject {
  CodeKind kind = CodeKind::kSharedObject;
  std::string bytes;
  std::string log;    // warnings of the compiler, trimmed; usually empty
  int registers = 0;  // of a thread, kCubin only
};

struct CompileJob {
  std::string name;                        // of the kernel, for messages
  std::string_view text;                   // the translation unit
  std::vector<base::SourceFile> includes;  // what it may #include, by these paths; nothing else of ours
  spec::Target target;
  std::vector<std::string> extra_flags = {};  // after the target's own, not probed
  std::string_view instruction = {};          // PTX that the code must use, or it is refused; NVRTC only
};

// The flags for one target, as far as they are part of a kernel's identity (no path, no output name).
struct Flags {
  std::vector<std::string> accepted;
  std::vector<std::string> dropped;  // wanted but refused by this compiler; the code is right without them
};

class Compiler {
 public:
  virtual ~Compiler() = default;

  // Kind and version: "gcc (Debian 12.2.0-14) 12.2.0", "nvrtc 13.0". Equal identities and flags give
  // interchangeable code.
  virtual const std::string& identity() const = 0;

  // Where it was found on this machine: for people, never part of an id.
  virtual std::string location() const = 0;

  // Those that are not indispensable are probed at the first call for a target, then remembered. kUnsupported
  // when the target is not one of this compiler or when it refuses a flag that the target cannot do without
  // (the message names the flag).
  virtual Result<Flags> flags(spec::Target target) const = 0;

  // kCompileFailed with the compiler's first errors, kIoError when it could not be run.
  virtual Result<CodeObject> compile(const CompileJob& job) const = 0;
};

// The lines of a compiler's output that a person needs: at most `max_lines` from the first error on (from
// the start when there is none), each cut at a screen's width or two; says how much was left out.
std::string trim_log(std::string_view log, int max_lines = 20);

}  // namespace scalegemm::toolchain
