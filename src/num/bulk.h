// Conversion of arrays: the same results as num/convert.h, element by element, at the speed of vector code or
// table look-ups. Pure and thread-safe; output may not overlap input.
//
// Arrays of codes are contiguous bytes in the order of memory: little-endian 16- and 32-bit codes, and for
// 4-bit types two codes a byte, the even index in the low nibble. An odd count of 4-bit codes is legal: the
// last byte's high nibble is ignored by the decoder and set to 0 by the encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "num/convert.h"
#include "num/dtype.h"

namespace scalegemm::num {

// Bytes of `count` contiguous codes, an odd last 4-bit code taking a byte of its own.
constexpr size_t storage_bytes(DType type, int64_t count) {
  return static_cast<size_t>((count * info(type).bits + 7) / 8);
}

// out[i] = decode(type, code i). `codes` holds at least storage_bytes(type, out.size()) bytes, at any
// alignment.
void decode_array(DType type, const std::byte* codes, std::span<float> out);

// code i = encode(type, values[i], overflow). `codes` has room for storage_bytes(type, values.size()).
void encode_array(DType type, std::span<const float> values, Overflow overflow, std::byte* codes);

// The code at `index` of an array of codes.
uint32_t load_code(DType type, const std::byte* codes, int64_t index);

// Sets one code of an array; the neighbour in the same byte of a 4-bit code is kept.
void store_code(DType type, std::byte* codes, int64_t index, uint32_t code);

}  // namespace scalegemm::num
