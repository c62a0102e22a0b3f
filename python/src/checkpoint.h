// Models as others store them: layers, and their matrices as quantised arrays over the file.
#pragma once

#include <nanobind/nanobind.h>

namespace scalegemm::python {

namespace nb = nanobind;

void bind_checkpoint(nb::module_& m);

}  // namespace scalegemm::python
