// scalegemm._core: the C ABI for Python.
#include <nanobind/nanobind.h>

#include <exception>
#include <scalegemm/scalegemm.hpp>

#include "checkpoint.h"
#include "describe.h"
#include "problem.h"
#include "quantized.h"
#include "runtime.h"

namespace nb = nanobind;

namespace {

// A failed call as the exception class of its status (scalegemm/_errors.py).
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const scalegemm::Error& error) {
    const nb::object classes = nb::module_::import_("scalegemm._errors").attr("CLASSES");
    const nb::object type = classes[nb::int_(static_cast<int>(error.status()))];
    PyErr_SetString(type.ptr(), error.what());
  }
}

}  // namespace

NB_MODULE(_core, m) {
  nb::register_exception_translator(translate);
  m.def("version", &scalegemm_version);
  scalegemm::python::bind_tensor(m);
  scalegemm::python::bind_problem(m);
  scalegemm::python::bind_quantized(m);
  scalegemm::python::bind_runtime(m);
  scalegemm::python::bind_plan(m);
  scalegemm::python::bind_checkpoint(m);
}
