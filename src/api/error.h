// The error slot of a thread, and the wall that no exception passes.
#pragma once

#include <xmmintrin.h>

#include <exception>
#include <new>

#include "base/status.h"
#include "scalegemm/scalegemm.h"

namespace scalegemm::api {

// Records a failure's message for scalegemm_last_error; success leaves the slot alone.
scalegemm_status report(const Status& status) noexcept;
scalegemm_status report(scalegemm_status code, const char* message) noexcept;

const char* last_error() noexcept;

// Round to nearest even with subnormals, whatever the caller's thread is set to (a program linked with
// -ffast-math flushes them), for as long as the object lives.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(kDefault | (saved_ & kFlags)); }
  ~DefaultFloatMode() { _mm_setcsr(saved_ | (_mm_getcsr() & kFlags)); }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1f80;  // all exceptions masked (SDM vol. 1, 10.2.3)
  static constexpr unsigned kFlags = 0x3f;
  unsigned saved_;
};

// Runs the body of an entry point, which returns a Status.
template <class Body>
scalegemm_status guarded(Body&& body) noexcept {
  try {
    const DefaultFloatMode mode;
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(SCALEGEMM_OUT_OF_MEMORY, "the host is out of memory");
  } catch (const std::exception& error) {
    return report(SCALEGEMM_INTERNAL, error.what());
  } catch (...) {
    return report(SCALEGEMM_INTERNAL, "unknown exception");
  }
}

}  // namespace scalegemm::api
