// One file of the disk cache: a header that proves what the payload is, then the payload.
//
//   offset  bytes
//        0      8  magic "SGKERNEL"
//        8      4  format version
//       12      4  bytes of the name
//       16      8  bytes of the payload
//       24     16  id (high word, low word)
//       40     16  XXH3-128 of everything else: the 40 bytes before, the name, the payload
//       56      .  name, then payload; nothing after it
//
// Numbers are little-endian. Any single damage (flipped bits, a cut, bytes added, another entry's file under
// this name) is found by decode().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/status.h"

namespace scalegemm::store {

inline constexpr uint32_t kEntryVersion = 1;
inline constexpr size_t kEntryHeaderBytes = 56;

struct EntryView {
  std::string_view name;     // of the kernel; for people
  std::string_view payload;  // both point into the decoded file
};

// The header and name that go before `payload` in a file.
std::string encode_prefix(const base::Hash128& id, std::string_view name, std::string_view payload);

// kCorruptData, with what is wrong, unless `file` is a whole entry of this version with this id.
Result<EntryView> decode(std::string_view file, const base::Hash128& id);

}  // namespace scalegemm::store
