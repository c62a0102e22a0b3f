// A quantised weight of a checkpoint in the library's own terms, whatever ecosystem wrote it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/tensor_store.h"
#include "spec/problem.h"

namespace scalegemm::checkpoint {

// How the codes lie in their tensor.
enum class CodeOrder : uint8_t {
  kRows,          // as here: N rows of K codes, 4-bit ones two a byte, even k in the low nibble
  kWordsAlongK,   // I32 [N, ceil(K/8)], code j of a word at bits 4j (compressed-tensors): rows with padding
  kWordsDownK,    // I32 [K/8, N], code j of a word at bits 4j is k = 8*row + j (GPTQ)
  kWordsAlongN,   // I32 [K, N/8], the codes of a word in AWQ's order
  kNibbleBlocks,  // GGUF: blocks of 32 along K, first the scale; byte j holds elements j (low) and j + 16
  kByteBlocks,    // GGUF: blocks of 32 along K, first the scale, then a byte an element
};

// Where the parts of a layer are; null: there is none.
struct LayerSource {
  const StoredTensor* codes = nullptr;
  const StoredTensor* scales = nullptr;
  const StoredTensor* zeros = nullptr;
  const StoredTensor* global = nullptr;
  const StoredTensor* group_of_k = nullptr;  // set only where groups are not runs of k (act-order)
  CodeOrder order = CodeOrder::kRows;
  uint8_t flip = 0;             // exclusive-or of every byte of codes: 0x88 makes q + 8 two's complement
  uint8_t zero_bias = 0;        // added to stored zero points: GPTQ v1 stores one less
  bool global_divides = false;  // the stored factor is a divisor (compressed-tensors)
};

struct Layer {
  std::string name;     // "model.layers.0.mlp.down_proj"
  std::string format;   // "DeepSeek FP8", "GPTQ v1", ...
  std::string scheme;   // scheme text, canonical; its B is `operand`
  std::string note;     // what a user must know, such as interleaved rows; often empty
  std::string problem;  // why it cannot be read: what was needed and what was found; empty: it can
  spec::OperandSpec operand;
  int64_t n = 0;
  int64_t k = 0;
  int64_t count = 1;   // matrices of that shape, such as the experts of one tensor
  uint64_t bytes = 0;  // of all tensors that the layer is made of
  LayerSource source;
};

// One matrix in the form of quant/quantize.h: codes N x K row-major (4-bit: even k in the low nibble), the
// scale grid row-major, zero points on the same grid a byte each. Spans point into the map of the file where
// the bytes there have that form, else into `owned`; both as long as the object and the checkpoint live.
struct LayerData {
  spec::OperandSpec operand;
  int64_t n = 0;
  int64_t k = 0;
  spec::Grid grid = {};
  std::span<const std::byte> codes = {};
  std::span<const std::byte> scales = {};
  std::span<const std::byte> zeros = {};
  float global = 1;
  // Act-order: column j of the codes is column columns[j] of the weight, so activations are to be gathered
  // likewise. Empty: the columns are in order.
  std::vector<int32_t> columns = {};
  std::vector<std::vector<std::byte>> owned = {};

  LayerData() = default;
  LayerData(LayerData&&) = default;
  LayerData& operator=(LayerData&&) = default;
};

// Matrix `member` (of layer.count) of a layer. Code::kInvalidArgument for a member that is not there,
// Code::kUnsupported with layer.problem, Code::kCorruptData for values that cannot be (a group that does not
// exist, a global factor that is not positive and finite).
Result<LayerData> read_layer(const Layer& layer, int64_t member);

// For every k its rank when columns are sorted by group, stably: `columns` of LayerData. Fails where a group
// does not have `group_size` columns, which is what a scale grid needs.
Result<std::vector<int32_t>> sort_by_group(const StoredTensor& group_of_k, int64_t k, int64_t group_size);

}  // namespace scalegemm::checkpoint
