#include "checkpoint.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <scalegemm/scalegemm.hpp>
#include <string>
#include <utility>
#include <vector>

#include "describe.h"
#include "quantized.h"

namespace scalegemm::python {
namespace {

// A layer's facts; the strings are the checkpoint's, which is held.
struct Layer {
  std::shared_ptr<const Checkpoint> checkpoint;
  int64_t index;
  scalegemm_layer_info info;

  Operand operand() const {
    Operand out{info.operand};
    out.desc.layout = 0;
    return out;
  }
};

// A file may hold a name that is no UTF-8: U+FFFD then stands for what is none.
nb::object text(const char* bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes, static_cast<Py_ssize_t>(std::strlen(bytes)), "replace"));
}

std::string layer_text(const Layer& layer) {
  const scalegemm_layer_info& i = layer.info;
  return "scalegemm.Layer(" + nb::cast<std::string>(nb::repr(text(i.name))) + ", " + i.format +
         (i.problem[0] != '\0' ? ", cannot be read" : ", " + std::string(i.scheme)) +
         ", n=" + std::to_string(i.n) + ", k=" + std::to_string(i.k) +
         (i.count != 1 ? ", count=" + std::to_string(i.count) : "") + ")";
}

struct CheckpointObject {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::vector<Layer> layers;

  explicit CheckpointObject(const std::string& path) {
    const nb::gil_scoped_release unlocked;
    checkpoint = std::make_shared<const Checkpoint>(path);
    const auto infos = checkpoint->layers();
    for (size_t i = 0; i < infos.size(); ++i) {
      layers.push_back({checkpoint, static_cast<int64_t>(i), infos[i]});
    }
  }

  const Layer& find(const std::string& name) const {
    const auto found = std::find_if(layers.begin(), layers.end(),
                                    [&](const Layer& layer) { return name == layer.info.name; });
    if (found == layers.end()) {
      refuse("layer: needed one of the " + std::to_string(layers.size()) + " that `layers` lists, got '" +
             name + "'");
    }
    return *found;
  }
};

// What arrays over a weight hold on to.
struct Held {
  std::shared_ptr<const Checkpoint> checkpoint;
  Weight weight;
};

// A read-only array over memory of the file or of the weight, in a type that NumPy has: bytes where it has
// none of its own, as quantize() makes them.
nb::object array_over(const std::shared_ptr<const Held>& held, void* data, int32_t dtype, int64_t rows,
                      int64_t cols) {
  auto* owner = new std::shared_ptr<const Held>(held);
  const nb::capsule capsule(owner,
                            [](void* p) noexcept { delete static_cast<std::shared_ptr<const Held>*>(p); });
  const auto as = [&](nb::dlpack::dtype type) {
    const size_t shape[] = {static_cast<size_t>(rows), static_cast<size_t>(cols)};
    return nb::cast(nb::ndarray<nb::numpy, nb::ro>(data, 2, shape, capsule, nullptr, type));
  };
  switch (dtype) {
    case SCALEGEMM_F32:
      return as(nb::dtype<float>());
    case SCALEGEMM_F16:
      return as({static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1});
    case SCALEGEMM_BF16:
      return as(nb::dtype<uint16_t>());
    case SCALEGEMM_INT8:
      return as(nb::dtype<int8_t>());
    case SCALEGEMM_INT32:
      return as(nb::dtype<int32_t>());
    default:
      return as(nb::dtype<uint8_t>());
  }
}

nb::object tensor_array(const std::shared_ptr<const Held>& held, const scalegemm_tensor& t, bool packed4) {
  if (t.data == nullptr) {
    return nb::none();
  }
  return array_over(held, t.data, t.dtype, t.shape[1], packed4 ? t.shape[2] / 2 : t.shape[2]);
}

nb::object flat(nb::object array) {
  return array.attr("reshape")(-1);
}

// (Quantized, columns or None).
nb::tuple read_weight(const Layer& layer, int64_t member) {
  if (layer.info.problem[0] == '\0' && (member < 0 || member >= layer.info.count)) {
    refuse("member: needed 0 to " + std::to_string(layer.info.count - 1) + ", got " + std::to_string(member));
  }
  std::shared_ptr<const Held> held;
  {
    const nb::gil_scoped_release unlocked;
    held =
        std::make_shared<const Held>(Held{layer.checkpoint, Weight(*layer.checkpoint, layer.index, member)});
  }
  const scalegemm_weight_view view = held->weight.view();
  Operand operand{view.operand};
  operand.desc.layout = 0;
  nb::object global = nb::none();
  if (view.global != nullptr) {
    global = flat(array_over(held, view.global, SCALEGEMM_F32, 1, 1));
  }
  nb::object columns = nb::none();
  if (view.columns != nullptr) {
    columns = flat(array_over(held, const_cast<int32_t*>(view.columns), SCALEGEMM_INT32, 1, view.k));
  }
  return nb::make_tuple(make_quantized(tensor_array(held, view.codes, is_packed4(view.operand.dtype)),
                                       operand, tensor_array(held, view.scales, false),
                                       tensor_array(held, view.zeros, false), std::move(global)),
                        columns);
}

// [(name, type and shape, reason)]
nb::list left_out(const CheckpointObject& checkpoint) {
  nb::list out;
  const auto visit = [](const char* name, const char* type, const char* reason, void* user) -> int32_t {
    static_cast<nb::list*>(user)->append(nb::make_tuple(text(name), text(type), text(reason)));
    return 0;
  };
  check(scalegemm_checkpoint_left_out(checkpoint.checkpoint->get(), visit, &out));
  return out;
}

}  // namespace

void bind_checkpoint(nb::module_& m) {
  nb::class_<Layer>(
      m, "Layer",
      "A weight of a Checkpoint, or `count` of one shape in one tensor (experts), of N x K "
      "each.\n\nformat: \"DeepSeek e4m3\", "
      "\"GPTQ v1\". scheme: what runs it, \"\" with a problem. note: what a user must know, as "
      "rows\nthat alternate. problem: why it cannot be read, \"\": it can. bytes: of its tensors "
      "in the file. operand: the B\nof the scheme, None with a problem.")
      .def_prop_ro("name", [](const Layer& l) { return text(l.info.name); })
      .def_prop_ro("format", [](const Layer& l) { return text(l.info.format); })
      .def_prop_ro("scheme", [](const Layer& l) { return text(l.info.scheme); })
      .def_prop_ro("note", [](const Layer& l) { return text(l.info.note); })
      .def_prop_ro("problem", [](const Layer& l) { return text(l.info.problem); })
      .def_prop_ro("n", [](const Layer& l) { return l.info.n; })
      .def_prop_ro("k", [](const Layer& l) { return l.info.k; })
      .def_prop_ro("count", [](const Layer& l) { return l.info.count; })
      .def_prop_ro("bytes", [](const Layer& l) { return l.info.bytes; })
      .def_prop_ro(
          "operand",
          [](const Layer& l) { return l.info.problem[0] != '\0' ? nb::none() : nb::cast(l.operand()); })
      .def("__repr__", &layer_text);

  nb::class_<CheckpointObject>(
      m, "Checkpoint",
      "A model as others store it, mapped read-only: a safetensors or GGUF file, or a folder of safetensors "
      "files with\ntheir config.json (docs/checkpoints.md lists the formats).\n\nRaises IoError, "
      "CorruptData, "
      "Unsupported (another kind of file). A layer that cannot be read is listed with its\n`problem`.")
      .def(
          "__init__",
          [](CheckpointObject* self, nb::handle path) {
            const auto file = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
            new (self) CheckpointObject(file);
          },
          nb::arg("path"))
      .def_ro("layers", &CheckpointObject::layers, "Every weight, in the order of the file.")
      .def_prop_ro("left_out", &left_out, "Tensors that are part of no layer: (name, type and shape, why).")
      .def(
          "weight",
          [](const CheckpointObject& c, const std::string& layer, int64_t member) {
            const nb::tuple parts = read_weight(c.find(layer), member);
            return nb::module_::import_("scalegemm._checkpoint")
                .attr("Weight")(parts[0], text(c.find(layer).info.scheme), parts[1]);
          },
          nb::arg("layer"), nb::arg("member") = 0,
          "Matrix `member` of the layer of that name, as a Weight. Where the file has the library's form the "
          "arrays "
          "lie\nover its map, read-only, and are read from it when used; they stay valid without the "
          "Checkpoint.\n\nRaises Unsupported with the layer's problem.")
      .def("__repr__", [](const CheckpointObject& c) {
        return "scalegemm.Checkpoint(" + std::to_string(c.layers.size()) + " layers)";
      });
}

}  // namespace scalegemm::python
