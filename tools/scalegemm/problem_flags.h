// The options that describe one problem: --scheme, --layout, --m, --n, --k, ... as a harness case.
#pragma once

#include <string>

#include "app.h"
#include "harness/case.h"

namespace scalegemm::cli {

class ProblemFlags {
 public:
  // kOptional: a size that is not given is 0.
  enum class Sizes : uint8_t { kRequired, kOptional };

  // --m --n --k --scheme --layout --batch --out-type --packing --accuracy --seed
  void add_to(CLI::App& command, Sizes sizes = Sizes::kRequired);
  // --alpha --beta --c-type --bias-type --activation --clamp
  void add_epilogue_to(CLI::App& command);
  // --strides --place
  void add_memory_to(CLI::App& command);

  harness::Case make_case() const;

 private:
  harness::Case case_;
  std::string out_type_ = "f32";
  std::string packing_ = "raw";
  std::string accuracy_ = "promoted";
  std::string c_type_ = "none";
  std::string bias_type_ = "none";
  std::string activation_ = "none";
  std::string strides_ = "dense";
  std::string place_ = "aligned";
  std::vector<float> clamp_;
};

}  // namespace scalegemm::cli
