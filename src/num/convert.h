// Exact conversion between codes and numbers, one value at a time, and what kind of value a code is.
// num/bulk.h converts arrays. Everything here is pure, thread-safe and table-driven by num/dtype.h.
//
// A "code" is the bit pattern of one element in the low bits of a uint32_t: 4, 8, 16 or 32 bits; integers are
// two's complement in their own width (int4 -1 is 0xF). Higher bits of a code are ignored by the decoders and
// are 0 in what the encoders return.
//
// Encoding rounds to nearest, ties to even, once, from the given f32 or double. What has no code:
//
//   value                  | kSaturate                    | kIeee
//   -----------------------+------------------------------+------------------------------------------------
//   rounds past max_finite | +-max_finite                 | infinity where there is one, else NaN (see below)
//   +-infinity             | +-max_finite                 | the same
//   NaN                    | NaN of the same sign (the fnuz flavours have one NaN, 0x80)
//   -0, or rounds to -0    | -0; 0 in the fnuz flavours and the integers
//
// Types without infinity and NaN (e2m1, the integers) saturate in both modes, and NaN becomes 0: whoever must
// not lose a NaN has to look before (src/quant poisons the scale of the block).
//
// e8m0 holds positive powers of two only: negative values are NaN in both modes; 0 is 2^-127 in kSaturate and
// NaN in kIeee; kIeee overflow is NaN. Its tie 1.5 * 2^n goes up, as there is no mantissa that could be even.
//
// In kIeee mode the codes are those of ml_dtypes 0.6 bit by bit, NaN payloads aside, with two exceptions: NaN
// into e2m1 (there a zero of the other sign), and e8m0 between 2^-127 and 1.5 * 2^-127 (there 2^-126).
#pragma once

#include <cstdint>

#include "num/dtype.h"

namespace scalegemm::num {

enum class Overflow : uint8_t { kSaturate, kIeee };

// How a positive number becomes a power of two: the next below, the nearest (ties up), the next above.
enum class PowerRounding : uint8_t { kFloor, kNearest, kCeil };

enum class Kind : uint8_t { kZero, kSubnormal, kNormal, kInfinite, kNan };

// The value of a code; exact for every code of every type. NaN codes give a quiet NaN of the code's sign.
double decode_double(DType type, uint32_t code);

// The same in f32: exact for every type but int32, which rounds to nearest above 2^24.
float decode(DType type, uint32_t code);

// The code nearest to `value` (table above). The f32 and double versions share no code and agree on every
// f32.
uint32_t encode(DType type, float value, Overflow overflow);
uint32_t encode(DType type, double value, Overflow overflow);

// The e8m0 code of a positive finite value with an explicit rounding, clamped to [0, 254], that is to
// [2^-127, 2^127]. Values that are NaN, infinite or negative give 255 (NaN); 0 gives 0.
uint32_t encode_e8m0(float value, PowerRounding rounding);

// Subnormal: a nonzero value below the type's smallest normal. Integers and e8m0 have none.
Kind classify(DType type, uint32_t code);

inline bool is_nan(DType type, uint32_t code) {
  return classify(type, code) == Kind::kNan;
}

// The largest finite code of a positive value, such as 0x7E for e4m3 (448) and 0x7F for int8.
uint32_t max_code(DType type);

}  // namespace scalegemm::num
