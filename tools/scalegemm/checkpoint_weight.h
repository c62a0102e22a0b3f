// Weights of a checkpoint as f32, and what of it is no weight.
#pragma once

#include <string>
#include <vector>

#include "app.h"

namespace scalegemm::cli {

// A failure that says which files are read, where this one is of a kind that is not.
Checkpoint open_checkpoint(const std::string& path);

struct LeftOut {
  std::string name;
  std::string type;  // "I64 [7]"
  std::string reason;
};
std::vector<LeftOut> left_out(const Checkpoint& checkpoint);

// "ids: I64 [7]" of the first few, for messages.
std::string list_left_out(const Checkpoint& checkpoint);

// The N x K values, row-major, their columns in the order of the weight (act-order undone).
std::vector<float> weight_values(const Weight& weight);

}  // namespace scalegemm::cli
