// Deterministic random inputs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace scalegemm::fuzz {

// SplitMix64 (Steele, Lea, Flood 2014): the same sequence everywhere for the same seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next();
  // 0 <= result < bound; bound > 0. The bias of the remainder does not matter here.
  size_t below(size_t bound) { return static_cast<size_t>(next() % bound); }

 private:
  uint64_t state_;
};

// Applies one to eight random changes to `input`: bits, bytes, boundary integers of 1, 2, 4 or 8 bytes,
// decimal numbers, pieces removed, doubled, moved, taken from `other` or from `dictionary`, and truncation.
std::string mutate(std::string input, std::string_view other, const std::vector<std::string_view>& dictionary,
                   Random& random);

}  // namespace scalegemm::fuzz
