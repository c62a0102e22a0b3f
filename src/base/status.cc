#include "base/status.h"

namespace scalegemm {

const char* to_string(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kNotBuilt:
      return "not built";
    case Code::kNoDevice:
      return "no device";
    case Code::kCompileFailed:
      return "compile failed";
    case Code::kLaunchFailed:
      return "launch failed";
    case Code::kOutOfMemory:
      return "out of memory";
    case Code::kIoError:
      return "i/o error";
    case Code::kCorruptData:
      return "corrupt data";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown status";
}

}  // namespace scalegemm
