#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace scalegemm::base {
namespace {

// The values that the reference xxhsum -H2 prints for these inputs.
TEST(Hash, MatchesTheReferenceProgram) {
  EXPECT_EQ(hash128("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash128("abc").hex(), "06b05ab6733a618578af5f94892f3950");
}

TEST(Hash, HexRoundTrips) {
  const Hash128 hash{0x0123456789abcdefU, 0xfedcba9876543210U};
  EXPECT_EQ(hash.hex(), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(Hash128::from_hex(hash.hex()), hash);
}

TEST(Hash, FromHexRefusesEverythingElse) {
  const std::string good(32, 'a');
  EXPECT_TRUE(Hash128::from_hex(good));
  for (const std::string& bad :
       {std::string(), std::string(31, 'a'), std::string(33, 'a'), std::string(32, 'A'), std::string(32, 'g'),
        "../" + std::string(29, '0'), "0x" + std::string(30, '0')}) {
    EXPECT_FALSE(Hash128::from_hex(bad)) << bad;
  }
}

TEST(Hash, PiecesEqualTheWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text += static_cast<char>(i * 7);
  }
  for (const size_t cut : {0UL, 1UL, 240UL, 1024UL, 5000UL}) {
    Hasher hasher;
    hasher.add_bytes(std::string_view(text).substr(0, cut)).add_bytes(std::string_view(text).substr(cut));
    EXPECT_EQ(hasher.finish(), hash128(text)) << cut;
  }
}

TEST(Hash, FieldsAreSeparated) {
  std::set<Hash128> seen;
  seen.insert(Hasher().add("ab").add("c").finish());
  seen.insert(Hasher().add("a").add("bc").finish());
  seen.insert(Hasher().add("abc").finish());
  seen.insert(Hasher().add("abc").add("").finish());
  seen.insert(Hasher().finish());
  EXPECT_EQ(seen.size(), 5U);
}

}  // namespace
}  // namespace scalegemm::base
