// Weights in the tensors of the compressed-tensors format, whatever they came from.
//
//   operand                                  tensors beside `name`                                   format
//   e4m3, float scales: all, rows, blocks    .weight F8_E4M3 [N, K], .weight_scale [1], [N, 1], grid
//   float-quantized int8, float scales: all, rows            .weight I8 [N, K], .weight_scale [1], [N, 1]
//   int-quantized int4; uint4 with uint4 zero points;      .weight_packed I32 [N, ceil(K/8)], .weight_scale
//   grid,   pack-quantized
//     float scales 1 x g or of rows          .weight_shape I64 [2], .weight_zero_point I32
//                                            [ceil(N/8), K/g], .weight_g_idx I32 [K] (act-order)
//   e2m1, e8m0 scales 1 x 32                 .weight_packed U8 [N, K/2], .weight_scale U8
//   mxfp4-pack-quantized e2m1, e4m3 scales 1 x 16, a factor       .weight_packed U8 [N, K/2], .weight_scale
//   F8_E4M3,       nvfp4-pack-quantized
//                                            .weight_global_scale F32 [1], a divisor
//   e4m3, e8m0 scales 1 x 32                 .weight F8_E4M3 [N, K], .weight_scale U8 mxfp8-quantized f32,
//   f16, bf16 without scales            .weight                                                  dense
//
// Source: vllm-project/compressed-tensors, README and quantization/quant_args.py; docs/checkpoints.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/layer.h"
#include "checkpoint/safetensors_writer.h"
#include "spec/problem.h"

namespace scalegemm::checkpoint {

enum class CtFormat : uint8_t { kDense, kFloat, kInt, kPack, kMxfp4, kNvfp4, kMxfp8 };

std::string_view format_word(CtFormat format);  // "float-quantized"

// The format of a weight of N x K; kUnsupported with what there is, or with what K must be.
Result<CtFormat> compressed_format(const spec::OperandSpec& operand, int64_t n, int64_t k);

struct CompressedShape {
  std::string name;  // of the layer
  spec::OperandSpec operand;
  int64_t n = 0;
  int64_t k = 0;
  bool act_order = false;
};

// The tensors, in the order of compressed_bytes. Of a shape that compressed_format takes.
std::vector<TensorSpec> compressed_tensors(CtFormat format, const CompressedShape& shape);

// A global factor as a reader gets it back from the divisor that the format stores: at most a last place off.
float stored_factor(float factor);

// Their bytes. `data` has the operand of the shape.
std::vector<std::vector<std::byte>> compressed_bytes(CtFormat format, const LayerData& data);

// One kind of weights in a quantization_config.
struct CompressedGroup {
  CtFormat format = CtFormat::kFloat;
  spec::OperandSpec operand;
  bool narrow = false;  // activations are quantised as well, token by token
  bool act_order = false;
  std::vector<std::string> layers;

  bool same_kind(const CompressedGroup& other) const {
    return format == other.format && operand == other.operand && narrow == other.narrow &&
           act_order == other.act_order;
  }
};

// The JSON text of "quantization_config": groups of layers by name, and the layers that stay dense.
std::string compressed_config(const std::vector<CompressedGroup>& groups,
                              const std::vector<std::string>& ignored);

}  // namespace scalegemm::checkpoint
