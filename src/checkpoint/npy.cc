#include "checkpoint/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/files.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors.h"

namespace scalegemm::checkpoint {
namespace {

using num::DType;

static_assert(std::endian::native == std::endian::little);

constexpr auto kTypes = std::to_array<NpyType>({
    {"f4", 4, DType::kF32},
    {"f2", 2, DType::kF16},
    {"f8", 8, std::nullopt},
    {"i1", 1, DType::kInt8},
    {"i2", 2, std::nullopt},
    {"i4", 4, DType::kInt32},
    {"i8", 8, std::nullopt},
    {"u1", 1, std::nullopt},
    {"u2", 2, std::nullopt},
    {"u4", 4, std::nullopt},
    {"u8", 8, std::nullopt},
    {"b1", 1, std::nullopt},
    {"c8", 8, std::nullopt},
    {"c16", 16, std::nullopt},
});

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;      // of the elements, as NumPy has it
constexpr size_t kVersion1Start = 10;  // magic, two bytes of version, two of length

// Kinds of NumPy types that hold no plain numbers, and what to do about them.
struct Refused {
  char kind;
  std::string_view reason;
};
constexpr auto kRefused = std::to_array<Refused>({
    {'O', "it holds Python objects; save numbers"},
    {'V', "it holds raw bytes (ml_dtypes types are saved so); save a view of an unsigned type"},
    {'S', "it holds text"},
    {'U', "it holds text"},
    {'M', "it holds dates"},
    {'m', "it holds times"},
});

// Reads the dictionary literal. Whitespace is free; nothing nests deeper than the shape.
class DictReader {
 public:
  explicit DictReader(std::string_view text) : rest_(text) {}

  Status read(NpyHeader& header) {
    SCALEGEMM_RETURN_IF_ERROR(expect('{'));
    while (!accept('}')) {
      SCALEGEMM_ASSIGN_OR_RETURN(const std::string_view key, quoted());
      SCALEGEMM_RETURN_IF_ERROR(expect(':'));
      SCALEGEMM_RETURN_IF_ERROR(value(key, header));
      if (!accept(',') && peek() != '}') {
        return corrupt("the header needs ',' or '}}' after {}", printable(key));
      }
    }
    skip_space();
    if (!rest_.empty()) {
      return corrupt("the header has more after its dictionary: {}", printable(rest_, 20));
    }
    if (seen_ != (1U << kKeys.size()) - 1) {
      return corrupt("the header needs all of descr, fortran_order and shape");
    }
    return ok_status();
  }

 private:
  static constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order", "shape"};

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n\r"), rest_.size())); }

  char peek() {
    skip_space();
    return rest_.empty() ? '\0' : rest_.front();
  }

  bool accept(char c) {
    if (peek() != c || rest_.empty()) {
      return false;
    }
    rest_.remove_prefix(1);
    return true;
  }

  Status expect(char c) {
    return accept(c) ? ok_status() : corrupt("the header needs '{}' before {}", c, printable(rest_, 20));
  }

  bool accept_word(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) {
      return false;
    }
    rest_.remove_prefix(word.size());
    return true;
  }

  Result<std::string_view> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') {
      return corrupt("the header needs a quoted text before {}", printable(rest_, 20));
    }
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) {
      return corrupt("the header has a text without end: {}", printable(rest_, 20));
    }
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  Status value(std::string_view key, NpyHeader& header) {
    const auto row = std::ranges::find(kKeys, key);
    if (row == kKeys.end()) {
      return corrupt("the header has the unknown key {}", printable(key));
    }
    const unsigned bit = 1U << (row - kKeys.begin());
    if ((seen_ & bit) != 0) {
      return corrupt("the header has the key {} twice", key);
    }
    seen_ |= bit;
    if (key == "descr") {
      return descr(header);
    }
    return key == "shape" ? shape(header) : fortran_order(header);
  }

  Status descr(NpyHeader& header) {
    if (peek() == '[') {
      return unsupported("descr: needs a number type, is a structured type");
    }
    SCALEGEMM_ASSIGN_OR_RETURN(const std::string_view text, quoted());
    const std::string_view order = text.substr(0, text.find_first_not_of("<>=|"));
    const std::string_view code = text.substr(order.size());
    if (order.size() != 1 || code.empty()) {
      return corrupt("descr: needs a byte order and a type, is {}", printable(text));
    }
    if (const auto row = std::ranges::find(kRefused, code.front(), &Refused::kind); row != kRefused.end()) {
      return unsupported("descr: needs a number type, is {}: {}", printable(text), row->reason);
    }
    header.type = find_npy_type(code);
    if (header.type == nullptr) {
      return unsupported("descr: the type {} is not read", printable(text));
    }
    if (order == ">" && header.type->bytes > 1) {
      return unsupported("descr: needs little-endian numbers, is {}; save array.astype('<{}')",
                         printable(text), code);
    }
    return ok_status();
  }

  Status fortran_order(NpyHeader& header) {
    header.fortran_order = accept_word("True");
    if (!header.fortran_order && !accept_word("False")) {
      return corrupt("fortran_order: needs True or False before {}", printable(rest_, 20));
    }
    return ok_status();
  }

  Status shape(NpyHeader& header) {
    SCALEGEMM_RETURN_IF_ERROR(expect('('));
    while (!accept(')')) {
      skip_space();
      int64_t extent = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc() || extent < 0) {
        return corrupt("shape: needs extents from 0 to 2^63-1 before {}", printable(rest_, 20));
      }
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      if (header.shape.size() == kMaxRank) {
        return corrupt("shape: needs at most {} extents", kMaxRank);
      }
      header.shape.push_back(extent);
      // (3) is a number in Python, not a tuple, so one extent needs its comma.
      if (!accept(',') && (peek() != ')' || header.shape.size() == 1)) {
        return corrupt("shape: needs a tuple of numbers, has {}", printable(rest_, 20));
      }
    }
    return ok_status();
  }

  std::string_view rest_;
  unsigned seen_ = 0;  // a bit for each of kKeys
};

// Bytes of the elements, or the reason why the shape cannot be.
Result<uint64_t> element_bytes(const NpyType& type, std::span<const int64_t> shape) {
  const SafetensorsType as_row{.name = type.code, .bits = type.bytes * 8, .dtype = type.dtype};
  SCALEGEMM_ASSIGN_OR_RETURN(const int64_t bytes, tensor_bytes(as_row, shape));
  return static_cast<uint64_t>(bytes);
}

// The header text between the length and the elements.
Result<std::string_view> header_text(std::string_view file) {
  if (!file.starts_with(kMagic)) {
    return corrupt("a .npy file needs to start with \\x93NUMPY, this one starts with {}", printable(file, 6));
  }
  if (file.size() < kVersion1Start) {
    return corrupt("the file ends in its header: it is truncated");
  }
  const auto major = static_cast<unsigned char>(file[6]);
  if (major < 1 || major > 3) {
    return unsupported("the version needs to be 1, 2 or 3, is {}", major);
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t start = kMagic.size() + 2 + length_bytes;
  uint32_t length = 0;
  if (file.size() < start) {
    return corrupt("the file ends in its header: it is truncated");
  }
  std::memcpy(&length, file.data() + kMagic.size() + 2, length_bytes);
  if (length > kMaxNpyHeader) {
    return unsupported("the header needs at most {} bytes, its length says {}", kMaxNpyHeader, length);
  }
  if (length > file.size() - start) {
    return corrupt("the header has {} bytes, only {} follow: it is truncated", length, file.size() - start);
  }
  return file.substr(start, length);
}

}  // namespace

std::span<const NpyType> npy_types() {
  return kTypes;
}

const NpyType* find_npy_type(std::string_view code) {
  const auto row = std::ranges::find(kTypes, code, &NpyType::code);
  return row == kTypes.end() ? nullptr : &*row;
}

Result<NpyHeader> parse_npy(std::string_view file) {
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string_view text, header_text(file));
  NpyHeader header;
  header.data_start = static_cast<uint64_t>(text.data() + text.size() - file.data());
  SCALEGEMM_RETURN_IF_ERROR(DictReader(text).read(header));
  const Result<uint64_t> bytes = element_bytes(*header.type, header.shape);
  if (!bytes.ok()) {
    return corrupt("{}", bytes.status().message());
  }
  header.data_bytes = *bytes;
  const uint64_t found = file.size() - header.data_start;
  if (found != header.data_bytes) {
    return corrupt("the header describes {} bytes of elements, the file has {}: it is {}", header.data_bytes,
                   found, found < header.data_bytes ? "truncated" : "too long");
  }
  return header;
}

Result<Npy> Npy::open(const std::string& path) {
  Npy result;
  SCALEGEMM_ASSIGN_OR_RETURN(result.file_, base::MappedFile::open(path));
  Result<NpyHeader> header = parse_npy(result.file_.text());
  if (!header.ok()) {
    return header.status().with_context(path);
  }
  result.header_ = *std::move(header);
  return result;
}

Status write_npy(const std::string& path, std::string_view code, std::span<const int64_t> shape,
                 std::span<const std::byte> bytes) {
  const NpyType* type = find_npy_type(code);
  if (type == nullptr) {
    return invalid_argument("code: needs a type such as f4, given {}", printable(code));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const uint64_t needed, element_bytes(*type, shape));
  if (bytes.size() != needed) {
    return invalid_argument("bytes: the shape needs {}, given {}", needed, bytes.size());
  }
  std::string extents;
  for (const int64_t extent : shape) {
    extents += fmt::format("{}, ", extent);
  }
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 type->bytes == 1 ? '|' : '<', code, extents);
  const size_t unpadded = kVersion1Start + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());  // kMaxRank extents of 21 bytes are far below 65536
  std::string head(kMagic);
  head += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  head += text;
  SCALEGEMM_ASSIGN_OR_RETURN(base::OutputFile file, base::OutputFile::create(path, base::Access::kUmask));
  SCALEGEMM_RETURN_IF_ERROR(file.write_at(0, std::as_bytes(std::span(head))));
  SCALEGEMM_RETURN_IF_ERROR(file.write_at(head.size(), bytes));
  return file.publish();
}

}  // namespace scalegemm::checkpoint
