// Division and rounding of sizes: what every count of blocks, tiles and lines is made of.
#pragma once

#include <concepts>
#include <type_traits>

namespace scalegemm::base {

// The least count of pieces of size `by` that cover `x`. x >= 0, by > 0; cannot overflow.
template <std::integral T, std::integral U>
requires(std::is_signed_v<T> == std::is_signed_v<U>) constexpr std::common_type_t<T, U> ceil_div(T x, U by) {
  return x / by + (x % by != 0 ? 1 : 0);
}

// The least multiple of `to` that is not below `x`. x >= 0, to > 0; it must be representable.
template <std::integral T, std::integral U>
requires(std::is_signed_v<T> == std::is_signed_v<U>) constexpr std::common_type_t<T, U> round_up(T x, U to) {
  return ceil_div(x, to) * to;
}

}  // namespace scalegemm::base
