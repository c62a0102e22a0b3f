// C structures <-> the library's own types.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "runtime/plan.h"
#include "runtime/tensor.h"
#include "scalegemm/scalegemm.h"
#include "spec/problem.h"

namespace scalegemm::api {

// Larger than any structure that will ever be: a struct_size beyond it is garbage, not a newer version.
inline constexpr uint64_t kMaxStructSize = 1 << 16;

inline Status require(const void* pointer, const char* name) {
  return pointer != nullptr ? ok_status() : invalid_argument("{}: must not be null", name);
}

inline Status check_struct_size(uint64_t size, size_t known, const char* name) {
  if (size < sizeof(uint64_t) || size > kMaxStructSize) {
    return invalid_argument("{}: struct_size must be sizeof the structure ({}), got {}", name, known, size);
  }
  return ok_status();
}

// Copies what the caller's version of the structure has; the rest of *out is zero. A newer caller may set
// nothing that this library does not know.
template <class T>
Status read_struct(const T* in, const char* name, T* out) {
  SCALEGEMM_RETURN_IF_ERROR(require(in, name));
  const uint64_t size = in->struct_size;
  SCALEGEMM_RETURN_IF_ERROR(check_struct_size(size, sizeof(T), name));
  const char* bytes = reinterpret_cast<const char*>(in);
  for (uint64_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return unsupported("{}: byte {} is set, but this library ({}) knows only the first {} bytes", name, i,
                         scalegemm_version(), sizeof(T));
    }
  }
  *out = T{};
  std::memcpy(static_cast<void*>(out), in, std::min<uint64_t>(size, sizeof(T)));
  out->struct_size = sizeof(T);
  return ok_status();
}

// Writes what the caller's version of the structure has room for.
template <class T>
Status write_struct(T value, const char* name, T* out) {
  SCALEGEMM_RETURN_IF_ERROR(require(out, name));
  const uint64_t size = out->struct_size;
  SCALEGEMM_RETURN_IF_ERROR(check_struct_size(size, sizeof(T), name));
  value.struct_size = size;
  std::memcpy(static_cast<void*>(out), &value, std::min<uint64_t>(size, sizeof(T)));
  return ok_status();
}

// Copies text into a fixed array, cut at its end.
template <size_t kSize>
void copy_text(char (&out)[kSize], std::string_view text) {
  const size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

// As scalegemm_explain says: copies into the caller's buffer of *size bytes, sets *size to what is needed.
Status write_text(std::string_view text, char* out, uint64_t* size);

// A field that must be 0.
Status check_reserved(int32_t value, std::string_view name);

Result<num::DType> to_dtype(int32_t value, const char* name);
Result<spec::OperandSpec> to_operand(const scalegemm_operand_desc& desc, const char* name);
Result<spec::Problem> to_problem(const scalegemm_problem* problem);
Result<runtime::PlanOptions> to_plan_options(const scalegemm_plan_options* options);
Result<runtime::Tensor> to_tensor(const scalegemm_tensor& tensor, std::string_view name);

scalegemm_operand_desc from_operand(const spec::OperandSpec& operand);

}  // namespace scalegemm::api
