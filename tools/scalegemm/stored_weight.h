// Quantised tensors in a safetensors file.
//
// A matrix W of N x K that scalegemm quantize has written is stored as
//   W         codes, N x K in the code type; 4-bit integers as U8 of N x K/2 (even k in the low nibble)
//   W.scale   the scale grid in the scale type
//   W.zero    zero points, one byte each, U8
//   W.global  one f32
// of which the last three are there when the scheme has them.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "app.h"
#include "harness/data.h"

namespace scalegemm::cli {

// Collects tensors and owns what they point to.
class WeightFile {
 public:
  void add(const std::string& name, harness::OperandData data);
  void add_copy(const scalegemm_file_tensor& tensor);
  // safetensors; complete or absent.
  void write(const std::string& path) const;

 private:
  std::vector<std::string> names_;
  std::deque<std::string> texts_;          // entries point into it
  std::deque<harness::OperandData> data_;  // entries point into it
  struct Entry {
    size_t name;       // index into names_
    std::string type;  // empty: by dtype
    int32_t dtype;
    std::vector<int64_t> shape;
    const void* bytes;
    uint64_t size;
  };
  std::vector<Entry> entries_;
};

// The codes, scales and zero points of W as the operand `desc`; throws Failure when the file holds something
// else.
harness::OperandData load_weight(const std::vector<scalegemm_file_tensor>& tensors, const std::string& name,
                                 const scalegemm_operand_desc& desc, const std::string& path);

// Signal-to-noise ratio of `data` dequantised against the f32 values that it came from, in dB.
double sqnr_db(harness::OperandData& data, const std::vector<float>& values);

// The same of two vectors. Infinity when they are equal.
double sqnr_db(const std::vector<float>& reference, const std::vector<float>& values);

}  // namespace scalegemm::cli
