// The error slot of a thread, and the wall that no exception passes.
#pragma once

#include <exception>
#include <new>

#include "base/status.h"
#include "scalegemm/scalegemm.h"

namespace scalegemm::api {

// Records a failure's message for scalegemm_last_error; success leaves the slot alone.
scalegemm_status report(const Status& status) noexcept;
scalegemm_status report(scalegemm_status code, const char* message) noexcept;

const char* last_error() noexcept;

// Runs the body of an entry point, which returns a Status.
template <class Body>
scalegemm_status guarded(Body&& body) noexcept {
  try {
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
