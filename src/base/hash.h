// 128-bit content hashes (XXH3): kernel identities, cache entries, digests of packed files.
//
// XXH3-128 is not cryptographic: it detects damage and tells different inputs apart, and gives the same
// value on every machine. It does not protect against someone who forges content on purpose.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace scalegemm::base {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;

  auto operator<=>(const Hash128&) const = default;

  // 32 lower-case hex digits, most significant first (the canonical XXH3 order).
  std::string hex() const;

  // The inverse of hex(); nothing unless `text` is exactly 32 lower-case hex digits.
  static std::optional<Hash128> from_hex(std::string_view text);
};

// Of one piece of memory.
Hash128 hash128(std::string_view bytes);

// Of a sequence of fields. Every field is preceded by its length, so that ("ab", "c") and ("a", "bc")
// differ. `add_bytes` appends without a length: a file hashed in pieces has the hash of the whole file.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& add(std::string_view field);
  Hasher& add_bytes(std::string_view bytes);

  // The hash of everything added so far; more may be added afterwards.
  Hash128 finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace scalegemm::base
