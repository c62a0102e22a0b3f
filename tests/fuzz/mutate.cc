#include "fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace scalegemm::fuzz {
namespace {

constexpr size_t kMaxInput = 1 << 16;
constexpr size_t kMaxChanges = 8;

// Values at which sizes, signs and products go wrong.
constexpr auto kBoundaries = std::to_array<uint64_t>({0,
                                                      1,
                                                      2,
                                                      7,
                                                      8,
                                                      15,
                                                      16,
                                                      31,
                                                      32,
                                                      33,
                                                      63,
                                                      64,
                                                      127,
                                                      128,
                                                      255,
                                                      256,
                                                      0x7fff,
                                                      0x8000,
                                                      0xffff,
                                                      0x10000,
                                                      0x7fffffff,
                                                      0x80000000,
                                                      0xffffffff,
                                                      0x100000000,
                                                      0x3fffffffffffffff,
                                                      0x4000000000000000,
                                                      0x7fffffffffffffff,
                                                      0x8000000000000000,
                                                      0xfffffffffffffff8,
                                                      0xffffffffffffffff});

// The state of one change.
struct Context {
  std::string& input;
  std::string_view other;
  const std::vector<std::string_view>& dictionary;
  Random& random;

  size_t place() { return random.below(input.size() + 1); }
  uint64_t boundary() { return kBoundaries[random.below(kBoundaries.size())]; }
  // A random piece of `text`, usually short.
  std::string_view piece(std::string_view text) {
    const size_t begin = random.below(text.size() + 1);
    return text.substr(begin, random.below(random.below(4) == 0 ? text.size() + 1 : 17));
  }
};

void flip_bit(Context& c) {
  if (!c.input.empty()) {
    char& byte = c.input[c.random.below(c.input.size())];
    byte = static_cast<char>(byte ^ (1 << c.random.below(8)));
  }
}

void set_byte(Context& c) {
  if (!c.input.empty()) {
    c.input[c.random.below(c.input.size())] = static_cast<char>(c.random.below(256));
  }
}

void set_integer(Context& c) {
  const size_t width = size_t{1} << c.random.below(4);
  const uint64_t value = c.boundary();
  if (c.input.size() >= width) {
    // Lengths stand at the start, so half of the changes go there.
    const size_t at = c.random.below(2) == 0 ? 0 : c.random.below(c.input.size() - width + 1);
    std::memcpy(c.input.data() + at, &value, width);
  }
}

// Replaces a run of digits by another number.
void set_decimal(Context& c) {
  constexpr std::string_view kDigits = "0123456789";
  const size_t begin = c.input.find_first_of(kDigits, c.place());
  if (begin != std::string::npos) {
    const size_t end = std::min(c.input.find_first_not_of(kDigits, begin), c.input.size());
    const uint64_t near = c.random.below(3) - 1;
    const uint64_t old = std::strtoull(c.input.c_str() + begin, nullptr, 10);
    c.input.replace(begin, end - begin, std::to_string(c.random.below(2) == 0 ? old + near : c.boundary()));
  }
}

void erase_piece(Context& c) {
  const size_t begin = c.place();
  c.input.erase(begin, c.random.below(17));
}

void repeat_piece(Context& c) {
  const std::string copy(c.piece(c.input));
  c.input.insert(c.place(), copy);
}

void take_from_other(Context& c) {
  c.input.insert(c.place(), c.piece(c.other));
}

void take_from_dictionary(Context& c) {
  if (!c.dictionary.empty()) {
    const std::string_view word = c.dictionary[c.random.below(c.dictionary.size())];
    const size_t at = c.place();
    // Insert it, or write it over what is there.
    c.input.replace(at, c.random.below(2) == 0 ? 0 : word.size(), word);
  }
}

void truncate(Context& c) {
  c.input.resize(c.place());
}

constexpr std::array kChanges = {flip_bit,    set_byte,     set_integer,     set_decimal,
                                 erase_piece, repeat_piece, take_from_other, take_from_dictionary,
                                 truncate};

}  // namespace

uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::string mutate(std::string input, std::string_view other, const std::vector<std::string_view>& dictionary,
                   Random& random) {
  Context context{.input = input, .other = other, .dictionary = dictionary, .random = random};
  const size_t changes = 1 + random.below(kMaxChanges);
  for (size_t i = 0; i < changes; ++i) {
    kChanges[random.below(kChanges.size())](context);
  }
  if (input.size() > kMaxInput) {
    input.resize(kMaxInput);
  }
  return input;
}

}  // namespace scalegemm::fuzz
