#include "store/entry.h"

namespace scalegemm::store {
namespace {

constexpr std::string_view kMagic = "SGKERNEL";
constexpr size_t kDigestOffset = 40;

template <class T>
void put(std::string* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    to->push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}

template <class T>
T get(std::string_view from, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(from[offset + i])) << (8 * i));
  }
  return value;
}

base::Hash128 digest(std::string_view head, std::string_view name, std::string_view payload) {
  return base::Hasher().add_bytes(head).add_bytes(name).add_bytes(payload).finish();
}

void put(std::string* to, const base::Hash128& hash) {
  put(to, hash.high);
  put(to, hash.low);
}

base::Hash128 get_hash(std::string_view from, size_t offset) {
  return {get<uint64_t>(from, offset), get<uint64_t>(from, offset + 8)};
}

template <class... Args>
Status corrupt(fmt::format_string<Args...> text, Args&&... args) {
  return make_error(Code::kCorruptData, "cache entry: {}", fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace

std::string encode_prefix(const base::Hash128& id, std::string_view name, std::string_view payload) {
  std::string prefix(kMagic);
  put(&prefix, kEntryVersion);
  put(&prefix, static_cast<uint32_t>(name.size()));
  put(&prefix, static_cast<uint64_t>(payload.size()));
  put(&prefix, id);
  put(&prefix, digest(prefix, name, payload));
  prefix += name;
  return prefix;
}

Result<EntryView> decode(std::string_view file, const base::Hash128& id) {
  if (file.size() < kEntryHeaderBytes) {
    return corrupt("needs at least {} bytes, has {}", kEntryHeaderBytes, file.size());
  }
  if (!file.starts_with(kMagic)) {
    return corrupt("does not begin with {}", kMagic);
  }
  if (const auto version = get<uint32_t>(file, 8); version != kEntryVersion) {
    return corrupt("needs format version {}, has {}", kEntryVersion, version);
  }
  // Sums cannot wrap: the sizes are compared with what is there, one after the other.
  const uint64_t rest = file.size() - kEntryHeaderBytes;
  const uint64_t name_bytes = get<uint32_t>(file, 12);
  const auto payload_bytes = get<uint64_t>(file, 16);
  if (name_bytes > rest || payload_bytes != rest - name_bytes) {
    return corrupt("header says {} bytes of name and {} of payload, the file has {} for both", name_bytes,
                   payload_bytes, rest);
  }
  if (const base::Hash128 found = get_hash(file, 24); found != id) {
    return corrupt("needs id {}, has {}", id.hex(), found.hex());
  }
  const EntryView view{file.substr(kEntryHeaderBytes, name_bytes),
                       file.substr(kEntryHeaderBytes + name_bytes)};
  if (digest(file.substr(0, kDigestOffset), view.name, view.payload) != get_hash(file, kDigestOffset)) {
    return corrupt("the digest does not match");
  }
  return view;
}

}  // namespace scalegemm::store
