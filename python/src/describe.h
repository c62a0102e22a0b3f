// Arrays of Python as tensors of the C ABI: nothing is copied, nothing is converted.
#pragma once

#include <nanobind/nanobind.h>
#include <scalegemm/scalegemm.h>

#include <cstdint>
#include <scalegemm/scalegemm.hpp>
#include <string>

#include "stable_abi.h"

namespace scalegemm::python {

namespace nb = nanobind;

// What an argument says when it is wrong.
[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(SCALEGEMM_INVALID_ARGUMENT, message);
}

enum class Library : uint8_t { kNumpy, kTorch, kCudaInterface, kDlpack };

struct Device {
  bool cuda = false;
  int32_t index = 0;

  bool operator==(const Device&) const = default;
  std::string name() const { return cuda ? "cuda:" + std::to_string(index) : "cpu"; }
};

// How an array's elements lie in memory.
enum class Storage : uint8_t {
  kPlain,    // as in the C ABI: 4-bit types two a byte
  kRaw,      // uint8 or uint16, which mean nothing yet; tensor.dtype is NONE
  kUnpacked  // a 4-bit type of NumPy, one value a byte
};

// A tensor as its library stores it: the shape of 4-bit codes counts bytes, not codes.
struct View {
  scalegemm_tensor tensor{};
  Device device;
  Library library = Library::kNumpy;
  Storage storage = Storage::kPlain;
  uint8_t item_bytes = 0;
  bool read_only = false;
  int ndim = 0;
};

// An array and what its bytes are: scalegemm.view().
struct Tensor {
  nb::object array;
  View view;
};

// What an argument is for.
enum class Role : uint8_t {
  kCodes,   // 4-bit types: two codes a byte along the last dimension
  kZeros,   // 4-bit types: one a byte
  kOutput,  // as kCodes, and written
};

// The object as an instance of ours, null where it is of another type; a TypeError where its __init__ never
// ran.
template <class T>
const T* instance(nb::handle object) {
  if (!nb::isinstance<T>(object)) {
    return nullptr;
  }
  if (!nb::inst_ready(object)) {
    throw nb::type_error("an object of scalegemm whose __init__ was not called");
  }
  return nb::inst_ptr<T>(object);
}

// NumPy, torch, __cuda_array_interface__, DLPack and Tensor. `name` is the argument, for messages.
View describe(nb::handle array, const char* name);

// The tensor of an argument of a call to `device`; absent for None.
scalegemm_tensor argument(nb::handle array, const char* name, Role role, Device device);
// The same of a view, with its dtype known where the bytes were raw (NONE: raw bytes are refused).
scalegemm_tensor argument(const View& view, const char* name, Role role, int32_t dtype);
// The one f32 of a global factor; nullptr for None.
float* global_argument(nb::handle array, const char* name, Device device);

void require_device(const View& view, const char* name, Device device);

// Tensor of `array`, whose bytes are of that type.
Tensor view_as(nb::object array, const std::string& dtype);

// scalegemm_dtype_from_name, or an error that names the argument.
int32_t dtype_argument(const std::string& text, const char* name);
// "e4m3", or "none".
std::string dtype_text(int32_t dtype);
// Bytes of one stored element.
int64_t storage_bytes(int32_t dtype);
bool is_packed4(int32_t dtype);

// What NumPy (with ml_dtypes) and torch call the type: {"e4m3": "float8_e4m3fn", ...}.
nb::dict library_names();

// The stream that the array's library uses now on that device.
void* current_stream(nb::handle array, const View& view);

// A function of scalegemm._arrays.
nb::object arrays_function(const char* name);

void bind_tensor(nb::module_& m);

}  // namespace scalegemm::python
