#include "problem.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <cstring>
#include <functional>
#include <iterator>
#include <variant>

#include "describe.h"

namespace scalegemm::python {
namespace {

// Words of the enumerations, by value from 0 on.
constexpr const char* kActivations[] = {"none", "relu", "gelu_tanh", "gelu_erf", "silu"};
constexpr const char* kAccuracies[] = {"promoted", "fast", "exact"};

template <size_t kCount>
int32_t word_value(const char* const (&words)[kCount], const std::string& word, const char* name) {
  std::string known;
  for (size_t i = 0; i < kCount; ++i) {
    if (word == words[i]) {
      return static_cast<int32_t>(i);
    }
    known += i > 0 ? ", " : "";
    known += words[i];
  }
  refuse(std::string(name) + ": must be one of " + known + ", got '" + word + "'");
}

int32_t optional_dtype(const std::optional<std::string>& text, const char* name) {
  return text ? dtype_argument(*text, name) : SCALEGEMM_DTYPE_NONE;
}

std::optional<std::string> optional_text(int32_t dtype) {
  return dtype == SCALEGEMM_DTYPE_NONE ? std::nullopt : std::optional(dtype_text(dtype));
}

Operand make_operand(const std::string& dtype, const std::optional<std::string>& scale,
                     std::pair<int64_t, int64_t> block, const std::optional<std::string>& zero,
                     bool has_global) {
  Operand out;
  out.desc.dtype = dtype_argument(dtype, "dtype");
  out.desc.scale.dtype = optional_dtype(scale, "scale");
  out.desc.scale.zero_dtype = optional_dtype(zero, "zero");
  out.desc.scale.has_global = has_global ? 1 : 0;
  if (scale) {
    out.desc.scale.block_rows = block.first;
    out.desc.scale.block_k = block.second;
  }
  return out;
}

struct ProblemKeywords {
  std::string layout;
  int64_t batch;
  std::string out_dtype;
  std::optional<std::string> bias_dtype, c_dtype;
  bool packed;
  Epilogue epilogue;
};

Problem make_problem(const std::variant<std::string, std::pair<Operand, Operand>>& scheme, int64_t m,
                     int64_t n, int64_t k, const ProblemKeywords& keywords) {
  Problem out;
  out.c.struct_size = sizeof out.c;
  const auto* operands = std::get_if<1>(&scheme);
  const char* text = operands != nullptr ? "none" : std::get<0>(scheme).c_str();
  check(scalegemm_problem_init(&out.c, text, keywords.layout.c_str(), m, n, k));
  if (operands != nullptr) {
    const int32_t layout_a = out.c.a.layout;
    const int32_t layout_b = out.c.b.layout;
    out.c.a = operands->first.desc;
    out.c.b = operands->second.desc;
    out.c.a.layout = layout_a;
    out.c.b.layout = layout_b;
  }
  out.c.batch = keywords.batch;
  out.c.d_dtype = dtype_argument(keywords.out_dtype, "out_dtype");
  out.c.bias_dtype = optional_dtype(keywords.bias_dtype, "bias_dtype");
  out.c.c_dtype = optional_dtype(keywords.c_dtype, "c_dtype");
  out.c.b_packing = keywords.packed ? SCALEGEMM_PACKED : SCALEGEMM_RAW;
  apply(keywords.epilogue, &out.c);
  return out;
}

std::string block_text(int64_t extent) {
  return extent == 0 ? "all" : std::to_string(extent);
}

std::string problem_text(const scalegemm_problem& c) {
  return "scalegemm.Problem(m=" + std::to_string(c.m) + ", n=" + std::to_string(c.n) +
         ", k=" + std::to_string(c.k) + (c.batch != 1 ? ", batch=" + std::to_string(c.batch) : "") + ", " +
         operand_text(c.a) + " x " + operand_text(c.b) + " -> " + dtype_text(c.d_dtype) +
         (c.b_packing != SCALEGEMM_RAW ? ", packed" : "") + ")";
}

template <class T>
Py_hash_t hash_bits(const T& value) {
  return static_cast<Py_hash_t>(
      std::hash<std::string_view>()({reinterpret_cast<const char*>(&value), sizeof value}));
}

}  // namespace

void apply(const Epilogue& epilogue, scalegemm_problem* problem) {
  problem->activation = word_value(kActivations, epilogue.activation, "activation");
  problem->accuracy = word_value(kAccuracies, epilogue.accuracy, "accuracy");
  problem->batch_invariant = epilogue.batch_invariant ? 1 : 0;
  if (epilogue.clamp) {
    problem->has_clamp = 1;
    problem->clamp_min = epilogue.clamp->first;
    problem->clamp_max = epilogue.clamp->second;
  }
}

std::pair<Operand, Operand> scheme_operands(const std::string& scheme) {
  scalegemm_problem problem{};
  problem.struct_size = sizeof problem;
  // Any size will do; K is even for the 4-bit types.
  check(scalegemm_problem_init(&problem, scheme.c_str(), "rcr", 1, 1, 2));
  problem.a.layout = problem.b.layout = 0;
  return {Operand{problem.a}, Operand{problem.b}};
}

bool same_quantisation(const scalegemm_operand_desc& x, const scalegemm_operand_desc& y) {
  return x.dtype == y.dtype && std::memcmp(&x.scale, &y.scale, sizeof x.scale) == 0;
}

std::string operand_text(const scalegemm_operand_desc& desc) {
  const scalegemm_scale_desc& s = desc.scale;
  std::string text = dtype_text(desc.dtype);
  if (s.dtype != SCALEGEMM_DTYPE_NONE) {
    text.append("*").append(dtype_text(s.dtype));
    text.append("[").append(block_text(s.block_rows)).append("x").append(block_text(s.block_k)).append("]");
    if (s.zero_dtype != SCALEGEMM_DTYPE_NONE) {
      text.append("-").append(dtype_text(s.zero_dtype));
    }
    text += s.has_global != 0 ? "*f32" : "";
  }
  return text;
}

std::pair<int64_t, int64_t> grid_of(const scalegemm_scale_desc& scale, int64_t rows, int64_t k) {
  const auto blocks = [](int64_t extent, int64_t block) {
    return block <= 0 ? 1 : extent / block + (extent % block != 0 ? 1 : 0);
  };
  return {blocks(rows, scale.block_rows), blocks(k, scale.block_k)};
}

void bind_problem(nb::module_& m) {
  nb::class_<Operand>(
      m, "Operand",
      "How A or B is quantised.\n\ndtype: of the codes. scale: type of the scales (f32, f16, bf16, "
      "e8m0, e4m3), None: there are none. block:\nrows and K that one scale serves, 0: all. zero: type "
      "of the zero points (int8, int4, uint4). has_global: one\nmore f32 factor.")
      .def(
          "__init__",
          [](Operand* self, const std::string& dtype, const std::optional<std::string>& scale,
             std::pair<int64_t, int64_t> block, const std::optional<std::string>& zero,
             bool has_global) { new (self) Operand(make_operand(dtype, scale, block, zero, has_global)); },
          nb::arg("dtype"), nb::kw_only(), nb::arg("scale") = nb::none(),
          nb::arg("block") = std::pair<int64_t, int64_t>(1, 0), nb::arg("zero") = nb::none(),
          nb::arg("has_global") = false)
      .def_prop_ro("dtype", [](const Operand& o) { return dtype_text(o.desc.dtype); })
      .def_prop_ro("scale", [](const Operand& o) { return optional_text(o.desc.scale.dtype); })
      .def_prop_ro("block",
                   [](const Operand& o) { return std::pair(o.desc.scale.block_rows, o.desc.scale.block_k); })
      .def_prop_ro("zero", [](const Operand& o) { return optional_text(o.desc.scale.zero_dtype); })
      .def_prop_ro("has_global", [](const Operand& o) { return o.desc.scale.has_global != 0; })
      .def(
          "__eq__",
          [](const Operand& x, nb::handle y) {
            return nb::isinstance<Operand>(y) && same_quantisation(x.desc, nb::inst_ptr<Operand>(y)->desc);
          },
          nb::arg("other").none())
      .def("__hash__", [](const Operand& o) { return hash_bits(o.desc); })
      .def("__repr__", [](const Operand& o) { return "scalegemm.Operand(" + operand_text(o.desc) + ")"; });

  nb::class_<Problem>(m, "Problem",
                      "What is asked of a plan: scalegemm.problem(). Equal problems are one key.")
      .def_prop_ro("m", [](const Problem& p) { return p.c.m; })
      .def_prop_ro("n", [](const Problem& p) { return p.c.n; })
      .def_prop_ro("k", [](const Problem& p) { return p.c.k; })
      .def_prop_ro("batch", [](const Problem& p) { return p.c.batch; })
      .def_prop_ro("a",
                   [](const Problem& p) {
                     Operand o{p.c.a};
                     o.desc.layout = 0;
                     return o;
                   })
      .def_prop_ro("b",
                   [](const Problem& p) {
                     Operand o{p.c.b};
                     o.desc.layout = 0;
                     return o;
                   })
      .def_prop_ro("out_dtype", [](const Problem& p) { return dtype_text(p.c.d_dtype); })
      .def_prop_ro("packed", [](const Problem& p) { return p.c.b_packing != SCALEGEMM_RAW; })
      .def(
          "__eq__",
          [](const Problem& x, nb::handle y) {
            return nb::isinstance<Problem>(y) && x.bits() == nb::inst_ptr<Problem>(y)->bits();
          },
          nb::arg("other").none())
      .def("__hash__", [](const Problem& p) { return hash_bits(p.c); })
      .def("__repr__", [](const Problem& p) { return problem_text(p.c); });

  m.def(
      "problem",
      [](const std::variant<std::string, std::pair<Operand, Operand>>& scheme, int64_t rows, int64_t n,
         int64_t k, const std::string& layout, int64_t batch, const std::string& out_dtype,
         const std::optional<std::string>& bias_dtype, const std::optional<std::string>& c_dtype,
         const std::string& activation, const std::optional<std::pair<float, float>>& clamp,
         const std::string& accuracy, bool batch_invariant, bool packed) {
        return make_problem(scheme, rows, n, k,
                            {.layout = layout,
                             .batch = batch,
                             .out_dtype = out_dtype,
                             .bias_dtype = bias_dtype,
                             .c_dtype = c_dtype,
                             .packed = packed,
                             .epilogue = {activation, accuracy, clamp, batch_invariant}});
      },
      nb::arg("scheme"), nb::arg("m"), nb::arg("n"), nb::arg("k"), nb::kw_only(), nb::arg("layout") = "rcr",
      nb::arg("batch") = 1, nb::arg("out_dtype") = "f32", nb::arg("bias_dtype") = nb::none(),
      nb::arg("c_dtype") = nb::none(), nb::arg("activation") = "none", nb::arg("clamp") = nb::none(),
      nb::arg("accuracy") = "promoted", nb::arg("batch_invariant") = false, nb::arg("packed") = false);
  m.def("operands", &scheme_operands, nb::arg("scheme"));
  m.def("schemes", [] {
    nb::list out;
    for (int32_t i = 0; i < scalegemm_scheme_count(); ++i) {
      scalegemm_scheme_info info;
      check(scalegemm_scheme(i, &info));
      out.append(nb::make_tuple(info.name, info.description, info.bits_per_weight, info.is_preset != 0));
    }
    return out;
  });
}

}  // namespace scalegemm::python
