#include "problem_flags.h"

namespace scalegemm::cli {

void ProblemFlags::add_to(CLI::App& command, Sizes sizes) {
  const struct {
    const char* name;
    int64_t* value;
    const char* text;
  } rows[] = {{"--m", &case_.m, "Rows of A and D"},
              {"--n", &case_.n, "Columns of D, rows of the weight B (N x K)"},
              {"--k", &case_.k, "Length of the sums; even for 4-bit types"}};
  for (const auto& row : rows) {
    *row.value = 0;
    command.add_option(row.name, *row.value, row.text)
        ->required(sizes == Sizes::kRequired)
        ->check(positive_integer());
  }
  command.add_option("--scheme", case_.scheme, "As scalegemm schemes lists them")->required();
  command.add_option("--layout", case_.layout, "Layouts of A, B, D: rcr, rrr, crr or ccr")
      ->check(one_of(harness::kLayouts))
      ->capture_default_str();
  command.add_option("--batch", case_.batch, "Problems of this shape, strided")
      ->check(positive_integer())
      ->capture_default_str();
  command.add_option("--out-type", out_type_, "Type of D: " + list_of(harness::kOutputTypes))
      ->check(one_of(harness::kOutputTypes))
      ->capture_default_str();
  command.add_option("--packing", packing_, "How B is given: " + list_of(harness::kPackings))
      ->check(one_of(harness::kPackings))
      ->capture_default_str();
  command.add_option("--accuracy", accuracy_, list_of(harness::kAccuracies))
      ->check(one_of(harness::kAccuracies))
      ->capture_default_str();
  command.add_option("--seed", case_.seed, "Of the random operands")
      ->check(non_negative_integer())
      ->capture_default_str();
}

void ProblemFlags::add_epilogue_to(CLI::App& command) {
  command.add_option("--alpha", case_.epilogue.alpha, "Factor of the product")->capture_default_str();
  command.add_option("--beta", case_.epilogue.beta, "Factor of C")->capture_default_str();
  command.add_option("--c-type", c_type_, "Type of C: " + list_of(harness::kVectorTypes))
      ->check(one_of(harness::kVectorTypes))
      ->capture_default_str();
  command.add_option("--bias-type", bias_type_, "Type of the bias: " + list_of(harness::kVectorTypes))
      ->check(one_of(harness::kVectorTypes))
      ->capture_default_str();
  command.add_option("--activation", activation_, list_of(harness::kActivations))
      ->check(one_of(harness::kActivations))
      ->capture_default_str();
  command.add_option("--clamp", clamp_, "Least and greatest value of D")->expected(2)->type_name("MIN MAX");
}

void ProblemFlags::add_memory_to(CLI::App& command) {
  command.add_option("--strides", strides_, "Rows next to each other, or with poisoned room: dense, padded")
      ->check(one_of(harness::kStrideWords))
      ->capture_default_str();
  command.add_option("--place", place_, "Where buffers lie: aligned, misaligned, flush-end")
      ->check(one_of(harness::kPlaces))
      ->capture_default_str();
}

harness::Case ProblemFlags::make_case() const {
  harness::Case c = case_;
  c.d_dtype = value_of(harness::kOutputTypes, out_type_);
  c.packing = value_of(harness::kPackings, packing_);
  c.accuracy = value_of(harness::kAccuracies, accuracy_);
  c.epilogue.c_dtype = value_of(harness::kVectorTypes, c_type_);
  c.epilogue.bias_dtype = value_of(harness::kVectorTypes, bias_type_);
  c.epilogue.activation = value_of(harness::kActivations, activation_);
  c.strides = static_cast<harness::Strides>(value_of(harness::kStrideWords, strides_));
  c.place = static_cast<harness::Place>(value_of(harness::kPlaces, place_));
  if (!clamp_.empty()) {
    c.epilogue.has_clamp = 1;
    c.epilogue.clamp_min = clamp_[0];
    c.epilogue.clamp_max = clamp_[1];
  }
  return c;
}

}  // namespace scalegemm::cli
