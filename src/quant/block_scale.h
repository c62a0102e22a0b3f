// The scale and zero point of one block, from the range of its elements. Internal to this room.
#pragma once

#include <cstdint>

#include "quant/quantize.h"
#include "spec/problem.h"

namespace scalegemm::quant {

// Smallest and largest of some numbers. As keys: f32 bits made to order like signed integers, so that minima
// and maxima are integer operations (vector code without fast-math), and NaN lies beyond the infinities
// instead of vanishing.
class Range {
 public:
  void add(const float* values, int64_t count);

  // No NaN and no infinity among the numbers.
  bool finite() const;

  // Of finite ranges: the extremes, widened to contain 0. (An empty range is 0 to 0.)
  float low() const;
  float high() const;
  float amax() const { return high() > -low() ? high() : -low(); }

 private:
  int32_t low_key_ = 0;  // the key of +0
  int32_t high_key_ = 0;
};

struct BlockScale {
  uint32_t scale_code = 0;
  uint32_t zero_code = 0;
  float used = 1;  // decode(scale_code) * global: what elements are divided by; NaN for a poisoned block
  float zero = 0;
};

// What all blocks of an operand share.
struct ScaleRule {
  spec::DType type;  // of the elements
  spec::ScaleSpec scale;
  ScaleRounding rounding;
  float global;
};

// `range` may hold anything.
BlockScale choose_scale(const ScaleRule& rule, const Range& range);

// amax / (largest element * largest scale) for e4m3 scales, 1 for types whose range needs no help. Never
// below 2^-117, so that scale * global is a normal f32 for the smallest e4m3 scale (2^-9) and divides without
// loss.
float choose_global(spec::DType type, const spec::ScaleSpec& scale, float amax);

}  // namespace scalegemm::quant
