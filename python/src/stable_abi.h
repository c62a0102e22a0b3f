// Macros and shorthands of Python that its stable ABI (from 3.12 on: python/CMakeLists.txt) has as functions
// of another name.
#pragma once

#include <Python.h>

#ifdef Py_LIMITED_API

inline PyObject* PyObject_CallMethodNoArgs(PyObject* object, PyObject* name) {
  PyObject* arguments[] = {object};
  return PyObject_VectorcallMethod(name, arguments, 1, nullptr);
}

// Of tuples, with an index inside.
#define PyTuple_GET_SIZE(tuple) PyTuple_Size(tuple)
#define PyTuple_GET_ITEM(tuple, index) PyTuple_GetItem(tuple, index)

#endif
