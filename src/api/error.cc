#include "api/error.h"

#include <cstring>

namespace scalegemm::api {
namespace {

// A fixed buffer, so that reporting "out of memory" needs no memory.
thread_local char g_message[4096] = "";

}  // namespace

scalegemm_status report(scalegemm_status code, const char* message) noexcept {
  std::strncpy(g_message, message, sizeof g_message - 1);
  g_message[sizeof g_message - 1] = '\0';
  return code;
}

scalegemm_status report(const Status& status) noexcept {
  static_assert(static_cast<int>(Code::kInternal) == SCALEGEMM_INTERNAL);
  static_assert(static_cast<int>(Code::kCorruptData) == SCALEGEMM_CORRUPT_DATA);
  static_assert(static_cast<int>(Code::kNotBuilt) == SCALEGEMM_NOT_BUILT);
  if (status.ok()) {
    return SCALEGEMM_OK;
  }
  return report(static_cast<scalegemm_status>(status.code()), status.message().c_str());
}

const char* last_error() noexcept {
  return g_message;
}

}  // namespace scalegemm::api
