#include "runtime.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "quantized.h"

namespace scalegemm::python {
namespace {

// Prompts of every length make a plan each; a plan is small. At this many all are dropped and begun anew.
constexpr size_t kMostPlans = 4096;

scalegemm_plan_options plan_options(const std::string& device, const std::string& kernel, int32_t threads) {
  auto options = make<scalegemm_plan_options>();
  options.device = device.c_str();
  options.kernel = kernel.empty() ? nullptr : kernel.c_str();
  options.threads = threads;
  return options;
}

Device device_of(const std::string& name) {
  const size_t colon = name.find(':');
  if (name.substr(0, colon) != "cuda" || colon == std::string::npos) {
    return {};
  }
  return {.cuda = true, .index = std::stoi(name.substr(colon + 1))};  // the plan was made, so it is a number
}

const char* c_text(const std::optional<std::string>& text) {
  return text ? text->c_str() : nullptr;
}

std::shared_ptr<RuntimeObject> make_runtime(int32_t threads, bool jit,
                                            const std::optional<std::string>& cache_dir,
                                            const std::optional<std::string>& tuned_table,
                                            const std::optional<std::string>& cpu_target) {
  auto options = make<scalegemm_runtime_options>();
  options.threads = threads;
  options.jit = jit ? 0 : -1;
  options.cache_dir = c_text(cache_dir);
  options.tuned_table = c_text(tuned_table);
  options.cpu_target = c_text(cpu_target);
  const nb::gil_scoped_release unlocked;
  return std::make_shared<RuntimeObject>(options);
}

PackedObject finish_packed(Packed packed) {
  const scalegemm_packed_info info = packed.info();
  return {std::move(packed), info};
}

PackedObject pack(const RuntimeObject& runtime, const Problem& problem, const Quantized& b,
                  const std::string& device) {
  auto args = make<scalegemm_pack_args>();
  args.b = b.code_tensor;
  args.scale_b = b.scale_tensor;
  args.zero_b = b.zero_tensor;
  args.global_b = b.global;
  const scalegemm_plan_options options = plan_options(device, "", 0);
  const nb::gil_scoped_release unlocked;
  return finish_packed(Packed(runtime.runtime(), problem.c, args, &options));
}

nb::tuple shape_of(const scalegemm_packed_info& info) {
  return info.batch == 1 ? nb::make_tuple(info.n, info.k) : nb::make_tuple(info.batch, info.n, info.k);
}

// Into new NumPy arrays.
Quantized unpack(const PackedObject& packed) {
  const scalegemm_packed_info& info = packed.info;
  Operand operand{info.operand};
  operand.desc.layout = 0;
  const scalegemm_scale_desc& s = info.operand.scale;
  const auto grid = grid_of(s, info.n, info.k);
  const auto make_array = [&](int32_t dtype, int64_t rows, int64_t cols) -> nb::object {
    if (dtype == SCALEGEMM_DTYPE_NONE) {
      return nb::none();
    }
    const nb::tuple shape =
        info.batch == 1 ? nb::make_tuple(rows, cols) : nb::make_tuple(info.batch, rows, cols);
    return arrays_function("empty_storage")(nb::none(), shape, dtype_text(dtype));
  };
  nb::object global = nb::none();
  if (s.has_global != 0) {
    global = arrays_function("empty_storage")(nb::none(), nb::make_tuple(1), "f32");
  }
  Quantized out = make_quantized(
      make_array(info.operand.dtype, info.n, is_packed4(info.operand.dtype) ? info.k / 2 : info.k), operand,
      make_array(s.dtype, grid.first, grid.second), make_array(s.zero_dtype, grid.first, grid.second),
      global);
  auto args = make<scalegemm_pack_args>();
  args.b = out.code_tensor;
  args.scale_b = out.scale_tensor;
  args.zero_b = out.zero_tensor;
  // scalegemm_unpack writes the bytes as int8.
  args.zero_b.dtype = out.zero_tensor.data != nullptr ? SCALEGEMM_INT8 : SCALEGEMM_DTYPE_NONE;
  args.global_b = out.global;
  packed.packed.unpack(args);
  return out;
}

void bind_packed(nb::module_& m) {
  nb::class_<scalegemm_packed_info>(
      m, "PackedInfo",
      "N x K weights: layout (scalegemm_packing), operand, bytes in memory and in a "
      "file, digest of the contents.")
      .def_ro("layout", &scalegemm_packed_info::layout)
      .def_ro("n", &scalegemm_packed_info::n)
      .def_ro("k", &scalegemm_packed_info::k)
      .def_ro("batch", &scalegemm_packed_info::batch)
      .def_ro("bytes", &scalegemm_packed_info::bytes)
      .def_prop_ro("operand",
                   [](const scalegemm_packed_info& i) {
                     Operand operand{i.operand};
                     operand.desc.layout = 0;
                     return operand;
                   })
      .def_prop_ro("digest", [](const scalegemm_packed_info& i) { return std::string(i.digest); })
      .def("__repr__", [](const scalegemm_packed_info& i) {
        return "scalegemm.PackedInfo(" + operand_text(i.operand) + ", n=" + std::to_string(i.n) +
               ", k=" + std::to_string(i.k) + ", bytes=" + std::to_string(i.bytes) + ")";
      });
  nb::class_<PackedObject>(
      m, "Packed", "Weights in the order a kernel family reads them, scales included: scalegemm.pack().")
      .def(
          "info", [](const PackedObject& p) { return p.info; }, "What it holds.")
      .def_prop_ro("shape", [](const PackedObject& p) { return shape_of(p.info); })
      .def("unpack", &unpack, "Codes, scales and zero points as new NumPy arrays; exact.")
      .def(
          "save",
          [](const PackedObject& p, nb::handle path) {
            const auto text = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
            const nb::gil_scoped_release unlocked;
            p.packed.save(text);
          },
          nb::arg("path"), "Writes a file, which is complete or absent.")
      .def_static(
          "load",
          [](nb::handle path) {
            const auto text = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
            const nb::gil_scoped_release unlocked;
            return finish_packed(Packed::load(text));
          },
          nb::arg("path"), "Reads a file of save(); CorruptData when its digest is not that of its contents.")
      .def("__repr__", [](const PackedObject& p) {
        return "scalegemm.Packed(" + operand_text(p.info.operand) + ", " +
               nb::cast<std::string>(nb::repr(shape_of(p.info))) + ")";
      });
  // The problem of M = 1 for weights like `b` beside such an A; its B packed.
  m.def(
      "weight_problem",
      [](const Operand& a, const Quantized& b) {
        Problem out;
        out.c.struct_size = sizeof out.c;
        const int64_t* s = b.code_tensor.shape;
        check(scalegemm_problem_init(&out.c, "none", "rcr", 1, s[1], s[2]));
        out.c.batch = s[0];
        out.c.a = a.desc;
        out.c.b = b.operand.desc;
        out.c.b.layout = layout_of(b.code_tensor, Side::kB);
        out.c.b_packing = SCALEGEMM_PACKED;
        return out;
      },
      nb::arg("a"), nb::arg("b"));
}

void bind_device(nb::module_& m) {
  nb::class_<scalegemm_device_info>(m, "DeviceInfo", "A device: its name is what plans take.")
      .def_prop_ro("name", [](const scalegemm_device_info& d) { return std::string(d.name); })
      .def_prop_ro("model", [](const scalegemm_device_info& d) { return std::string(d.model); })
      .def_prop_ro("target", [](const scalegemm_device_info& d) { return std::string(d.target); })
      .def_prop_ro("features", [](const scalegemm_device_info& d) { return std::string(d.features); })
      .def_ro("cores", &scalegemm_device_info::cores)
      .def_ro("memory_bytes", &scalegemm_device_info::memory_bytes)
      .def("__repr__", [](const scalegemm_device_info& d) {
        return "scalegemm.DeviceInfo(" + std::string(d.name) + ", " + d.model + ", " + d.target + ")";
      });
  nb::class_<scalegemm_support>(m, "Support", "Can a problem run; true when it can.")
      .def_prop_ro("supported", [](const scalegemm_support& s) { return s.supported != 0; })
      .def_prop_ro("needs_compiler", [](const scalegemm_support& s) { return s.needs_compiler != 0; })
      .def_prop_ro("kernel", [](const scalegemm_support& s) { return std::string(s.kernel); })
      .def_prop_ro("reason", [](const scalegemm_support& s) { return std::string(s.reason); })
      .def("__bool__", [](const scalegemm_support& s) { return s.supported != 0; })
      .def("__repr__", [](const scalegemm_support& s) {
        return "scalegemm.Support(" + std::string(s.supported != 0 ? s.kernel : s.reason) + ")";
      });
}

}  // namespace

std::shared_ptr<PlanObject> RuntimeObject::plan(const Problem& problem, const PlanRequest& request) {
  std::string key(problem.bits());
  key += request.device + '\n' + request.kernel + '\n' + std::to_string(request.threads);
  if (const auto found = plans_.find(key); found != plans_.end()) {
    return found->second;
  }
  std::shared_ptr<PlanObject> made;
  {
    const nb::gil_scoped_release unlocked;  // it may compile
    const scalegemm_plan_options options = plan_options(request.device, request.kernel, request.threads);
    Plan plan(runtime_, problem.c, &options);
    const uint64_t bytes = plan.workspace_bytes();
    made =
        std::make_shared<PlanObject>(PlanObject{std::move(plan), problem, device_of(request.device), bytes});
  }
  if (plans_.size() >= kMostPlans) {
    plans_.clear();
  }
  return plans_.emplace(std::move(key), std::move(made)).first->second;
}

const Quantizer& RuntimeObject::quantizer(const scalegemm_quantizer_desc& desc, const std::string& device) {
  std::string key(reinterpret_cast<const char*>(&desc), sizeof desc);
  key += device;
  if (const auto found = quantizers_.find(key); found != quantizers_.end()) {
    return found->second;
  }
  const scalegemm_plan_options options = plan_options(device, "", 0);
  std::unique_ptr<Quantizer> made;
  {
    const nb::gil_scoped_release unlocked;
    made = std::make_unique<Quantizer>(runtime_, desc, &options);
  }
  return quantizers_.emplace(std::move(key), std::move(*made)).first->second;
}

void bind_runtime(nb::module_& m) {
  bind_device(m);
  bind_packed(m);
  nb::class_<RuntimeObject>(
      m, "Runtime",
      "Threads, kernels, the disk cache, and the plans made so far. One a process is enough: "
      "scalegemm.runtime().\n\nthreads: of the CPU; 0: one a core. jit: compile kernels that "
      "are not built in. cache_dir: of compiled kernels. tuned_table: a CSV. cpu_target: a cap, "
      "as \"x86-64-v3\".")
      .def(nb::new_(&make_runtime), nb::kw_only(), nb::arg("threads") = 0, nb::arg("jit") = true,
           nb::arg("cache_dir") = nb::none(), nb::arg("tuned_table") = nb::none(),
           nb::arg("cpu_target") = nb::none())
      .def(
          "devices", [](const RuntimeObject& r) { return r.runtime().devices(); }, "Devices of this machine.")
      .def(
          "plan",
          [](RuntimeObject& r, const Problem& problem, const std::string& device,
             const std::optional<std::string>& kernel, int32_t threads) {
            return r.plan(problem, {.device = device, .kernel = kernel.value_or(""), .threads = threads});
          },
          nb::arg("problem"), nb::kw_only(), nb::arg("device") = "cpu", nb::arg("kernel") = nb::none(),
          nb::arg("threads") = 0, "The plan of a problem, made once and kept: scalegemm.plan().")
      .def(
          "query",
          [](const RuntimeObject& r, const Problem& problem, const std::string& device,
             const std::optional<std::string>& kernel) {
            const scalegemm_plan_options options = plan_options(device, kernel.value_or(""), 0);
            return r.runtime().query(problem.c, &options);
          },
          nb::arg("problem"), nb::kw_only(), nb::arg("device") = "cpu", nb::arg("kernel") = nb::none(),
          "Can it run, with which kernel? Compiles nothing.")
      .def(
          "explain",
          [](const RuntimeObject& r, const Problem& problem, const std::string& device, bool json) {
            const scalegemm_plan_options options = plan_options(device, "", 0);
            return r.runtime().explain(problem.c, &options, json ? 1 : 0);
          },
          nb::arg("problem"), nb::kw_only(), nb::arg("device") = "cpu", nb::arg("json") = false,
          "scalegemm.explain().")
      .def("pack", &pack, nb::arg("problem"), nb::arg("b"), nb::kw_only(), nb::arg("device") = "cpu",
           "B of the problem, which must be a packed one, in the order of its kernels.")
      .def(
          "warnings", [](const RuntimeObject& r) { return r.runtime().warnings(); },
          "What stopped nothing and yet deserves a look, one a line.");
}

}  // namespace scalegemm::python
