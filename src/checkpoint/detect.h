// Which tensors of a store are the parts of which layer, and what they mean.
//
// The tensors that stand together by name, their types and shapes and the model's quantisation config must
// agree on one reading; docs/checkpoints.md has the table. What fits no reading, or more than one, becomes a
// layer with a `problem` that says what was needed and what was found, never a guess.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/layer.h"
#include "checkpoint/tensor_store.h"

namespace scalegemm::checkpoint {

// A tensor that is no weight of a linear layer, and why.
struct LeftOut {
  const StoredTensor* tensor = nullptr;
  std::string reason;
};

struct Contents {
  std::vector<Layer> layers;  // by name
  std::vector<LeftOut> left_out;
};

// Points into the store.
Contents detect(const TensorStore& store);

// A store and what is in it. Const after opening: any number of threads may read.
class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::string& path);

  const TensorStore& store() const { return store_; }
  const std::vector<Layer>& layers() const { return contents_.layers; }
  const std::vector<LeftOut>& left_out() const { return contents_.left_out; }

 private:
  Checkpoint(TensorStore store, Contents contents)
      : store_(std::move(store)), contents_(std::move(contents)) {}

  TensorStore store_;
  Contents contents_;
};

}  // namespace scalegemm::checkpoint
