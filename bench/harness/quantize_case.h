// One use of a quantizer, in guarded memory of any device, compared bit by bit with scalegemm_quantize.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/buffer.h"
#include "harness/case.h"
#include "harness/mirror.h"
#include "scalegemm/scalegemm.hpp"

namespace scalegemm::harness {

struct QuantizeCase {
  scalegemm_operand_desc operand{};
  int32_t source_dtype = SCALEGEMM_BF16;
  int32_t scale_rounding = SCALEGEMM_SCALE_FLOOR;
  int64_t rows = 1;
  int64_t k = 1;
  int64_t source_room = 0;                      // elements between the rows of the source
  int64_t code_room = 0;                        // bytes between the rows of the codes
  ScaleOrder scale_order = ScaleOrder::kDense;  // kLines: contiguous along rows, columns padded to 4
  Place place = Place::kAligned;
  uint64_t seed = 0;
};

std::string to_string(const QuantizeCase& c);

scalegemm_operand_desc quantizer_operand(int32_t codes, int32_t scale, int64_t block_k);
Quantizer make_quantizer(const Runtime& runtime, const scalegemm_operand_desc& operand, int32_t source_dtype,
                         int32_t scale_rounding, const std::string& device);

// Blocks of ordinary numbers, of zeros of both signs, of subnormals, near the largest, with one outlier, with
// a NaN or an infinity, and of halfway cases.
class QuantizeInstance {
 public:
  // The quantizer must be that of the case. It is lent.
  QuantizeInstance(const Quantizer& quantizer, const QuantizeCase& c, const std::string& device);

  // Poisons the outputs.
  void clear();
  void run(void* stream = nullptr);
  // Empty when every code and scale is right, and the room between them, the guard bands and the source are
  // untouched; else what is wrong.
  std::string check();

 private:
  std::string difference(const Buffer& buffer, const std::vector<uint8_t>& expected) const;

  const Quantizer& quantizer_;
  Buffer source_, codes_, scales_;
  Mirror source_mirror_, codes_mirror_, scales_mirror_;
  bool mirrored_;
  scalegemm_quantizer_args args_ = make<scalegemm_quantizer_args>();
  std::vector<uint8_t> expected_source_, expected_codes_, expected_scales_;
};

// Every kind of source, codes, scale and group that the CUDA quantisers have, each over edge sizes, strides
// and alignments: calls visit(quantizer, case) for each. `stride` > 1 leaves kinds out.
void for_each_quantize_case(const Runtime& runtime, const std::string& device, int stride,
                            const std::function<void(const Quantizer&, const QuantizeCase&)>& visit);

}  // namespace scalegemm::harness
