// A matrix of a checkpoint's layer as the operand B of one multiplication.
#pragma once

#include <string>
#include <vector>

#include "app.h"
#include "harness/data.h"

namespace scalegemm::cli {

struct StoredLayer {
  std::string scheme;            // what runs it
  harness::OperandData weight;   // N x K, copied out of the file
  std::vector<int32_t> columns;  // act-order: column j is of A's column columns[j]; empty: in order
};

// Matrix `member` of the layer `name` of the checkpoint at `path`. Throws Failure, or the library's Error
// with the layer's problem where it cannot be read.
StoredLayer load_layer(const std::string& path, const std::string& name, int64_t member);

}  // namespace scalegemm::cli
