// Operands and problems as Python values: immutable, comparable, hashable.
#pragma once

#include <nanobind/nanobind.h>
#include <scalegemm/scalegemm.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace scalegemm::python {

namespace nb = nanobind;

// How one operand is quantised. The layout is no part of it: strides tell.
struct Operand {
  scalegemm_operand_desc desc{};
};

struct Problem {
  scalegemm_problem c{};

  // Every bit is a field: problems are made zeroed.
  std::string_view bits() const { return {reinterpret_cast<const char*>(&c), sizeof c}; }
};

// The operands of a scheme, with the layouts of "rcr".
std::pair<Operand, Operand> scheme_operands(const std::string& scheme);

// Equal but for the layout.
bool same_quantisation(const scalegemm_operand_desc& x, const scalegemm_operand_desc& y);

// "e2m1*e8m0[1x32]"
std::string operand_text(const scalegemm_operand_desc& desc);

// The scale grid of rows x k.
std::pair<int64_t, int64_t> grid_of(const scalegemm_scale_desc& scale, int64_t rows, int64_t k);

// Everything of a matmul that is no tensor.
struct Epilogue {
  std::string activation = "none";
  std::string accuracy = "promoted";
  std::optional<std::pair<float, float>> clamp;
  bool batch_invariant = false;
};
void apply(const Epilogue& epilogue, scalegemm_problem* problem);

void bind_problem(nb::module_& m);

}  // namespace scalegemm::python
