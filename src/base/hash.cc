#include "base/hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace scalegemm::base {
namespace {

Hash128 from_xxh(XXH128_hash_t hash) {
  return {hash.high64, hash.low64};
}

std::optional<uint64_t> hex_word(std::string_view digits) {
  uint64_t word = 0;
  for (const char c : digits) {
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<unsigned>(c - 'a') + 10;
    } else {
      return std::nullopt;
    }
    word = word << 4 | digit;
  }
  return word;
}

}  // namespace

std::string Hash128::hex() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

std::optional<Hash128> Hash128::from_hex(std::string_view text) {
  if (text.size() != 32) {
    return std::nullopt;
  }
  const auto high_word = hex_word(text.substr(0, 16));
  const auto low_word = hex_word(text.substr(16));
  if (!high_word || !low_word) {
    return std::nullopt;
  }
  return Hash128{*high_word, *low_word};
}

Hash128 hash128(std::string_view bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh);
}

Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::add(std::string_view field) {
  unsigned char length[8];
  for (size_t i = 0; i < sizeof length; ++i) {
    length[i] = static_cast<unsigned char>(uint64_t{field.size()} >> (8 * i));
  }
  XXH3_128bits_update(&state_->xxh, length, sizeof length);
  return add_bytes(field);
}

Hasher& Hasher::add_bytes(std::string_view bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}

Hash128 Hasher::finish() const {
  return from_xxh(XXH3_128bits_digest(&state_->xxh));
}

}  // namespace scalegemm::base
