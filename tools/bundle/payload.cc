#include "payload.h"

#include <cstddef>

extern "C" {
extern const char scalegemm_payload_core_begin[];
extern const char scalegemm_payload_core_end[];
extern const char scalegemm_payload_c_begin[];
extern const char scalegemm_payload_c_end[];
extern const char scalegemm_payload_cpp_begin[];
extern const char scalegemm_payload_cpp_end[];
}

namespace scalegemm::bundle {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

std::string_view core_object() {
  return between(scalegemm_payload_core_begin, scalegemm_payload_core_end);
}

std::string_view c_header() {
  return between(scalegemm_payload_c_begin, scalegemm_payload_c_end);
}

std::string_view cpp_header() {
  return between(scalegemm_payload_cpp_begin, scalegemm_payload_cpp_end);
}

std::string_view library_version() {
  return SCALEGEMM_VERSION;
}

}  // namespace scalegemm::bundle
