#include "describe.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

namespace scalegemm::python {
namespace {

// Types by the name that NumPy (with ml_dtypes), JAX and torch share.
struct NamedType {
  const char* name;
  int32_t dtype;  // NONE: raw bytes
  Storage storage;
  uint8_t item_bytes;
};
constexpr NamedType kTypes[] = {
    {"float32", SCALEGEMM_F32, Storage::kPlain, 4},
    {"float16", SCALEGEMM_F16, Storage::kPlain, 2},
    {"bfloat16", SCALEGEMM_BF16, Storage::kPlain, 2},
    {"float8_e4m3fn", SCALEGEMM_E4M3, Storage::kPlain, 1},
    {"float8_e4m3fnuz", SCALEGEMM_E4M3_FNUZ, Storage::kPlain, 1},
    {"float8_e5m2", SCALEGEMM_E5M2, Storage::kPlain, 1},
    {"float8_e5m2fnuz", SCALEGEMM_E5M2_FNUZ, Storage::kPlain, 1},
    {"float8_e8m0fnu", SCALEGEMM_E8M0, Storage::kPlain, 1},
    {"int8", SCALEGEMM_INT8, Storage::kPlain, 1},
    {"int32", SCALEGEMM_INT32, Storage::kPlain, 4},
    {"float4_e2m1fn_x2", SCALEGEMM_E2M1, Storage::kPlain, 1},
    {"float4_e2m1fn", SCALEGEMM_E2M1, Storage::kUnpacked, 1},
    {"int4", SCALEGEMM_INT4, Storage::kUnpacked, 1},
    {"uint4", SCALEGEMM_UINT4, Storage::kUnpacked, 1},
    {"uint8", SCALEGEMM_DTYPE_NONE, Storage::kRaw, 1},
    {"uint16", SCALEGEMM_DTYPE_NONE, Storage::kRaw, 2},
};

// What was learnt of Python objects that live on: types of arrays, and dtypes. Held, so that no other object
// takes their address; bounded, because a program can make dtypes without end. Used under the GIL.
template <class Value>
class Memory {
 public:
  const Value* find(PyObject* key) const {
    for (const auto& [known, value] : entries_) {
      if (known == key) {
        return &value;
      }
    }
    return nullptr;
  }
  void add(PyObject* key, Value value) {
    if (entries_.size() < kMost) {
      Py_INCREF(key);
      entries_.emplace_back(key, value);
    }
  }

 private:
  static constexpr size_t kMost = 64;
  std::vector<std::pair<PyObject*, Value>> entries_;
};

// Names of attributes, made once.
struct Names {
  PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
  PyObject* stride = PyUnicode_InternFromString("stride");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* dtype = PyUnicode_InternFromString("dtype");
  PyObject* is_cuda = PyUnicode_InternFromString("is_cuda");
  PyObject* is_cpu = PyUnicode_InternFromString("is_cpu");
  PyObject* get_device = PyUnicode_InternFromString("get_device");
  PyObject* cuda_interface = PyUnicode_InternFromString("__cuda_array_interface__");
};
const Names& names() {
  static const Names instance;
  return instance;
}

nb::object get(nb::handle object, PyObject* name) {
  PyObject* value = PyObject_GetAttr(object.ptr(), name);
  if (value == nullptr) {
    nb::raise_python_error();
  }
  return nb::steal(value);
}

nb::object call(nb::handle object, PyObject* name) {
  PyObject* value = PyObject_CallMethodNoArgs(object.ptr(), name);
  if (value == nullptr) {
    nb::raise_python_error();
  }
  return nb::steal(value);
}

int64_t integer(PyObject* object) {
  const int64_t value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    nb::raise_python_error();
  }
  return value;
}

std::string type_text(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type()));
}

const NamedType& type_of(nb::handle array, const char* name) {
  static Memory<const NamedType*> memory;
  const nb::object dtype = get(array, names().dtype);
  if (const auto* known = memory.find(dtype.ptr())) {
    return **known;
  }
  std::string text = nb::cast<std::string>(nb::str(dtype));  // "torch.float32", "float32", ">f4"
  text.erase(0, text.rfind('.') + 1);
  for (const NamedType& type : kTypes) {
    if (text == type.name) {
      memory.add(dtype.ptr(), &type);
      return type;
    }
  }
  std::string known;
  for (const NamedType& type : kTypes) {
    known += known.empty() ? "" : ", ";
    known += type.name;
  }
  refuse(std::string(name) + ": dtype must be one of " + known + ", got " +
         nb::cast<std::string>(nb::str(dtype)));
}

// The extent of the memory that shape and strides span: a library's view lies within its storage.
void set_extent(View* view) {
  scalegemm_tensor& t = view->tensor;
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    last += static_cast<uint64_t>(std::max<int64_t>(t.shape[i] - 1, 0)) *
            static_cast<uint64_t>(std::max<int64_t>(t.stride[i], 0));
  }
  t.bytes = (last + 1) * view->item_bytes;
}

// Fills shape and strides (in elements) of up to three dimensions from the right.
template <class Shape, class Stride>
void set_dims(View* view, int ndim, const char* name, const Shape& shape, const Stride& stride) {
  if (ndim > 3) {
    refuse(std::string(name) + ": must have at most 3 dimensions (batch, rows, columns), got " +
           std::to_string(ndim));
  }
  scalegemm_tensor& t = view->tensor;
  view->ndim = ndim;
  for (int i = 0; i < 3; ++i) {
    const int from = i - (3 - ndim);
    t.shape[i] = from < 0 ? 1 : shape(from);
    t.stride[i] = from < 0 ? (i == 2 ? 1 : 0) : stride(from);
    if (t.shape[i] == 0) {
      refuse(std::string(name) + ": has no elements");
    }
  }
  set_extent(view);
}

void describe_numpy(nb::handle array, const char* name, View* view) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_STRIDES) != 0) {
    nb::raise_python_error();
  }
  view->tensor.data = buffer.buf;
  view->read_only = buffer.readonly != 0;
  const int64_t item = view->item_bytes;
  bool whole = true;
  for (int i = 0; i < buffer.ndim; ++i) {
    whole = whole && buffer.strides[i] % item == 0;
  }
  const int ndim = buffer.ndim;
  std::array<int64_t, 3> shape{};
  std::array<int64_t, 3> stride{};
  for (int i = 0; i < std::min(ndim, 3); ++i) {
    shape[static_cast<size_t>(i)] = buffer.shape[i];
    stride[static_cast<size_t>(i)] = buffer.strides[i] / item;
  }
  PyBuffer_Release(&buffer);  // the caller's reference keeps the memory
  if (!whole) {
    refuse(std::string(name) + ": strides must be whole elements");
  }
  set_dims(
      view, ndim, name, [&](int i) { return shape[static_cast<size_t>(i)]; },
      [&](int i) { return stride[static_cast<size_t>(i)]; });
}

void describe_torch(nb::handle array, const char* name, View* view) {
  const nb::object pointer = call(array, names().data_ptr);
  view->tensor.data = PyLong_AsVoidPtr(pointer.ptr());
  const nb::object shape = get(array, names().shape);
  const nb::object stride = call(array, names().stride);
  set_dims(
      view, static_cast<int>(PyTuple_GET_SIZE(shape.ptr())), name,
      [&](int i) { return integer(PyTuple_GET_ITEM(shape.ptr(), i)); },
      [&](int i) { return integer(PyTuple_GET_ITEM(stride.ptr(), i)); });
  if (get(array, names().is_cuda).ptr() == Py_True) {
    view->device = {.cuda = true,
                    .index = static_cast<int32_t>(integer(call(array, names().get_device).ptr()))};
  } else if (get(array, names().is_cpu).ptr() != Py_True) {
    refuse(std::string(name) + ": is on a device that scalegemm does not know: " +
           nb::cast<std::string>(nb::str(nb::object(array.attr("device")))));
  }
}

// https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
void describe_cuda(nb::handle array, const char* name, View* view) {
  const nb::dict interface = nb::cast<nb::dict>(get(array, names().cuda_interface));
  const nb::tuple data = nb::cast<nb::tuple>(interface["data"]);
  view->tensor.data = PyLong_AsVoidPtr(nb::handle(data[0]).ptr());
  view->read_only = nb::cast<bool>(data[1]);
  view->device.cuda = true;
  if (nb::hasattr(array, "device")) {  // CuPy: a Device with an id; others have one device
    const nb::object device = array.attr("device");
    if (nb::hasattr(device, "id")) {
      view->device.index = nb::cast<int32_t>(device.attr("id"));
    }
  }
  const nb::tuple shape = nb::cast<nb::tuple>(interface["shape"]);
  const int ndim = static_cast<int>(shape.size());
  std::array<int64_t, 3> extent{};
  std::array<int64_t, 3> step{};
  nb::object strides = nb::none();
  if (interface.contains("strides")) {
    strides = interface["strides"];
  }
  int64_t next = 1;
  for (int i = std::min(ndim, 3) - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    extent[at] = nb::cast<int64_t>(shape[at]);
    step[at] = strides.is_none() ? next : nb::cast<int64_t>(strides[at]) / view->item_bytes;
    next *= extent[at];
  }
  set_dims(
      view, ndim, name, [&](int i) { return extent[static_cast<size_t>(i)]; },
      [&](int i) { return step[static_cast<size_t>(i)]; });
}

void describe_dlpack(nb::handle array, const char* name, View* view) {
  if (nb::hasattr(array, "block_until_ready")) {  // JAX
    array.attr("block_until_ready")();
  }
  nb::ndarray<nb::ro> imported;
  if (!nb::try_cast(array, imported)) {
    refuse(std::string(name) + ": must be an array (NumPy, torch, CuPy, DLPack) or a scalegemm.Tensor, got " +
           type_text(array));
  }
  // The exporter's memory lives as long as `array`, which the caller holds.
  view->tensor.data = const_cast<void*>(imported.data());
  view->read_only = true;  // what comes by DLPack alone (JAX) is taken as immutable
  if (imported.device_type() == nb::device::cuda::value) {
    view->device = {.cuda = true, .index = imported.device_id()};
  } else if (imported.device_type() != nb::device::cpu::value) {
    refuse(std::string(name) + ": is on a device that scalegemm does not know");
  }
  set_dims(
      view, static_cast<int>(imported.ndim()), name,
      [&](int i) { return static_cast<int64_t>(imported.shape(static_cast<size_t>(i))); },
      [&](int i) { return imported.stride(static_cast<size_t>(i)); });
}

Library library_of(nb::handle array, const char* name) {
  static Memory<Library> memory;
  PyObject* type = array.type().ptr();
  if (const Library* known = memory.find(type)) {
    return *known;
  }
  Library library = Library::kDlpack;
  if (nb::hasattr(array, "data_ptr") && nb::hasattr(array, "is_cuda")) {
    library = Library::kTorch;
  } else if (PyObject_CheckBuffer(array.ptr()) != 0 && nb::hasattr(array, "__array_interface__")) {
    library = Library::kNumpy;
  } else if (nb::hasattr(array, "__cuda_array_interface__")) {
    library = Library::kCudaInterface;
  } else if (!nb::hasattr(array, "__dlpack__") || !nb::hasattr(array, "dtype")) {
    refuse(std::string(name) + ": must be an array (NumPy, torch, CuPy, DLPack) or a scalegemm.Tensor, got " +
           type_text(array));
  }
  // Of a JAX array it depends on the array whether it is on a GPU.
  if (library == Library::kTorch || library == Library::kNumpy) {
    memory.add(type, library);
  }
  return library;
}

}  // namespace

int32_t dtype_argument(const std::string& text, const char* name) {
  const int32_t dtype = scalegemm_dtype_from_name(text.c_str());
  if (dtype == SCALEGEMM_DTYPE_NONE) {
    std::string known;
    for (int32_t i = 1; scalegemm_dtype_name(i) != nullptr; ++i) {
      known += i > 1 ? ", " : "";
      known += scalegemm_dtype_name(i);
    }
    refuse(std::string(name) + ": must be one of " + known + ", got '" + text + "'");
  }
  return dtype;
}

std::string dtype_text(int32_t dtype) {
  const char* text = scalegemm_dtype_name(dtype);
  return text != nullptr ? text : "none";
}

bool is_packed4(int32_t dtype) {
  return scalegemm_dtype_bits(dtype) == 4;
}

int64_t storage_bytes(int32_t dtype) {
  return std::max(1, scalegemm_dtype_bits(dtype) / 8);
}

nb::dict library_names() {
  nb::dict out;
  for (const NamedType& type : kTypes) {
    if (type.dtype != SCALEGEMM_DTYPE_NONE && std::strstr(type.name, "_x2") == nullptr) {
      out[scalegemm_dtype_name(type.dtype)] = type.name;
    }
  }
  return out;
}

View describe(nb::handle array, const char* name) {
  if (const auto* tensor = instance<Tensor>(array)) {
    return tensor->view;
  }
  View view;
  view.library = library_of(array, name);
  const NamedType& type = type_of(array, name);
  view.tensor.dtype = type.dtype;
  view.storage = type.storage;
  view.item_bytes = type.item_bytes;
  switch (view.library) {
    case Library::kNumpy:
      describe_numpy(array, name, &view);
      break;
    case Library::kTorch:
      describe_torch(array, name, &view);
      break;
    case Library::kCudaInterface:
      describe_cuda(array, name, &view);
      break;
    case Library::kDlpack:
      describe_dlpack(array, name, &view);
      break;
  }
  return view;
}

void require_device(const View& view, const char* name, Device device) {
  if (view.device != device) {
    refuse(std::string(name) + ": must be on " + device.name() + ", is on " + view.device.name());
  }
}

scalegemm_tensor argument(const View& view, const char* name, Role role, int32_t dtype) {
  scalegemm_tensor t = view.tensor;
  if (view.storage == Storage::kRaw) {
    if (dtype == SCALEGEMM_DTYPE_NONE) {
      refuse(std::string(name) +
             ": unsigned integers are bytes of any type: say which with scalegemm.view()");
    }
    if (storage_bytes(dtype) != view.item_bytes) {
      refuse(std::string(name) + ": " + dtype_text(dtype) + " has elements of " +
             std::to_string(storage_bytes(dtype)) + " bytes, the array of " +
             std::to_string(view.item_bytes));
    }
    t.dtype = dtype;
  }
  if (role == Role::kOutput && view.read_only) {
    refuse(std::string(name) + ": must be writable, is read-only");
  }
  if (is_packed4(t.dtype) && role != Role::kZeros) {
    if (view.storage == Storage::kUnpacked) {
      refuse(std::string(name) + ": this array holds one " + dtype_text(t.dtype) +
             " a byte, needed are two: scalegemm.pack4() makes them");
    }
    t.shape[2] *= 2;
  }
  return t;
}

scalegemm_tensor argument(nb::handle array, const char* name, Role role, Device device) {
  if (array.is_none()) {
    return {};
  }
  const View view = describe(array, name);
  require_device(view, name, device);
  return argument(view, name, role, SCALEGEMM_DTYPE_NONE);
}

float* global_argument(nb::handle array, const char* name, Device device) {
  if (array.is_none()) {
    return nullptr;
  }
  const View view = describe(array, name);
  require_device(view, name, device);
  const scalegemm_tensor& t = view.tensor;
  if (t.dtype != SCALEGEMM_F32 || t.shape[0] * t.shape[1] * t.shape[2] != 1) {
    refuse(std::string(name) + ": must be an array of one f32");
  }
  return static_cast<float*>(t.data);
}

Tensor view_as(nb::object array, const std::string& dtype) {
  const int32_t wanted = dtype_argument(dtype, "dtype");
  Tensor out{array, describe(array, "array")};
  View& view = out.view;
  if (view.storage == Storage::kRaw) {
    if (storage_bytes(wanted) != view.item_bytes) {
      refuse("array: " + dtype + " has elements of " + std::to_string(storage_bytes(wanted)) +
             " bytes, the array of " + std::to_string(view.item_bytes));
    }
    view.tensor.dtype = wanted;
    view.storage = Storage::kPlain;
  } else if (view.tensor.dtype != wanted) {
    refuse("array: must be uint8 or uint16 (bytes of any type) or already " + dtype + ", is " +
           dtype_text(view.tensor.dtype));
  }
  return out;
}

nb::object arrays_function(const char* name) {
  return nb::module_::import_("scalegemm._arrays").attr(name);
}

void* current_stream(nb::handle array, const View& view) {
  if (!view.device.cuda) {
    return nullptr;
  }
  const nb::object stream = arrays_function("current_stream")(array, view.device.index);
  return PyLong_AsVoidPtr(stream.ptr());
}

void bind_tensor(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor", "An array and what its bytes are: scalegemm.view().")
      .def_prop_ro("dtype", [](const Tensor& t) { return dtype_text(t.view.tensor.dtype); })
      .def_prop_ro("device", [](const Tensor& t) { return t.view.device.name(); })
      .def_prop_ro("array", [](const Tensor& t) { return t.array; })
      .def("__repr__", [](const Tensor& t) {
        const auto& s = t.view.tensor;
        std::string text;
        for (int i = 3 - t.view.ndim; i < 3; ++i) {
          text += (text.empty() ? "" : ", ") + std::to_string(s.shape[i]);
        }
        return "scalegemm.Tensor(" + dtype_text(s.dtype) + ", stored (" + text + "), " +
               t.view.device.name() + ")";
      });
  m.def("view", &view_as, nb::arg("array"), nb::arg("dtype"));
  m.def("dtype_of", [](nb::handle array, const std::string& name) {
    return dtype_text(describe(array, name.c_str()).tensor.dtype);
  });
  m.def("library_names", &library_names);
}

}  // namespace scalegemm::python
