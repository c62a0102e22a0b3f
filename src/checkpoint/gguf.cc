#include "checkpoint/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/int_math.h"
#include "checkpoint/printable.h"

namespace scalegemm::checkpoint {
namespace {

using num::DType;

static_assert(std::endian::native == std::endian::little);

constexpr auto kTypes = std::to_array<GgufType>({
    {0, "F32", 1, 4, DType::kF32},          {1, "F16", 1, 2, DType::kF16},
    {2, "Q4_0", 32, 18, std::nullopt},      {3, "Q4_1", 32, 20, std::nullopt},
    {6, "Q5_0", 32, 22, std::nullopt},      {7, "Q5_1", 32, 24, std::nullopt},
    {8, "Q8_0", 32, 34, std::nullopt},      {9, "Q8_1", 32, 36, std::nullopt},
    {10, "Q2_K", 256, 84, std::nullopt},    {11, "Q3_K", 256, 110, std::nullopt},
    {12, "Q4_K", 256, 144, std::nullopt},   {13, "Q5_K", 256, 176, std::nullopt},
    {14, "Q6_K", 256, 210, std::nullopt},   {15, "Q8_K", 256, 292, std::nullopt},
    {16, "IQ2_XXS", 256, 66, std::nullopt}, {17, "IQ2_XS", 256, 74, std::nullopt},
    {18, "IQ3_XXS", 256, 98, std::nullopt}, {19, "IQ1_S", 256, 50, std::nullopt},
    {20, "IQ4_NL", 32, 18, std::nullopt},   {21, "IQ3_S", 256, 110, std::nullopt},
    {22, "IQ2_S", 256, 82, std::nullopt},   {23, "IQ4_XS", 256, 136, std::nullopt},
    {24, "I8", 1, 1, std::nullopt},         {25, "I16", 1, 2, std::nullopt},
    {26, "I32", 1, 4, std::nullopt},        {27, "I64", 1, 8, std::nullopt},
    {28, "F64", 1, 8, std::nullopt},        {29, "IQ1_M", 256, 56, std::nullopt},
    {30, "BF16", 1, 2, DType::kBf16},       {34, "TQ1_0", 256, 54, std::nullopt},
    {35, "TQ2_0", 256, 66, std::nullopt},   {39, "MXFP4", 32, 17, std::nullopt},
});

constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMaxAlignment = 1 << 20;

// Types of entry values: bytes of one, 0 where it is not fixed.
enum Value : uint32_t { kUint32 = 4, kString = 8, kArray = 9 };
constexpr std::array<uint64_t, 13> kValueBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// Takes numbers and strings off the front; nothing reads past the end.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  uint64_t at() const { return at_; }

  template <class T>
  Result<T> number(std::string_view what) {
    SCALEGEMM_ASSIGN_OR_RETURN(const std::string_view bytes, take(sizeof(T), what));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  Result<std::string_view> string(std::string_view what) {
    SCALEGEMM_ASSIGN_OR_RETURN(const uint64_t length, number<uint64_t>(what));
    return take(length, what);
  }

  Result<std::string_view> take(uint64_t bytes, std::string_view what) {
    if (bytes > file_.size() - at_) {
      return corrupt("{} at byte {} needs {} bytes, only {} follow: it is truncated", what, at_, bytes,
                     file_.size() - at_);
    }
    const std::string_view taken = file_.substr(at_, bytes);
    at_ += bytes;
    return taken;
  }

 private:
  std::string_view file_;
  uint64_t at_ = 0;
};

Status skip_values(Reader& reader, uint32_t type, uint64_t count) {
  if (type == kString) {
    for (uint64_t i = 0; i < count; ++i) {
      SCALEGEMM_RETURN_IF_ERROR(reader.string("a text").status());
    }
    return ok_status();
  }
  if (type >= kValueBytes.size() || kValueBytes[type] == 0) {
    return corrupt("the entry before byte {} has the type {}, needs one of 0 to 8 and 10 to 12", reader.at(),
                   type);
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(kValueBytes[type], count, &bytes)) {
    bytes = std::numeric_limits<uint64_t>::max();
  }
  return reader.take(bytes, "a list").status();
}

// One entry; the alignment is kept.
Status read_entry(Reader& reader, uint32_t* alignment) {
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string_view key, reader.string("the key of an entry"));
  SCALEGEMM_ASSIGN_OR_RETURN(const uint32_t type, reader.number<uint32_t>("the type of an entry"));
  if (key == kAlignmentKey) {
    if (type != kUint32) {
      return corrupt("{}: needs the type {}, has {}", kAlignmentKey, static_cast<uint32_t>(kUint32), type);
    }
    SCALEGEMM_ASSIGN_OR_RETURN(*alignment, reader.number<uint32_t>("the alignment"));
    return std::has_single_bit(*alignment) && *alignment <= kMaxAlignment
               ? ok_status()
               : corrupt("{}: needs a power of two up to {}, is {}", kAlignmentKey, kMaxAlignment,
                         *alignment);
  }
  if (type != kArray) {
    return skip_values(reader, type, 1);
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const uint32_t element, reader.number<uint32_t>("the type of a list"));
  SCALEGEMM_ASSIGN_OR_RETURN(const uint64_t count, reader.number<uint64_t>("the length of a list"));
  return skip_values(reader, element, count);
}

// Bytes of a tensor, or why there is no such tensor.
Result<uint64_t> bytes_of(const GgufTensor& tensor) {
  const int64_t inner = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (inner % tensor.type->block != 0) {
    return corrupt("tensor {}: needs whole blocks of {} {} elements, has {} in a row", printable(tensor.name),
                   tensor.type->block, tensor.type->name, inner);
  }
  int64_t bytes = tensor.type->bytes;
  bool wraps = __builtin_mul_overflow(bytes, inner / tensor.type->block, &bytes);
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    wraps = __builtin_mul_overflow(bytes, tensor.shape[i], &bytes) || wraps;
  }
  if (wraps) {
    return corrupt("tensor {}: needs a size of less than 2^63 bytes", printable(tensor.name));
  }
  return static_cast<uint64_t>(bytes);
}

// A tensor's description; begin is its offset in the data yet.
Result<GgufTensor> read_tensor(Reader& reader) {
  GgufTensor tensor;
  SCALEGEMM_ASSIGN_OR_RETURN(tensor.name, reader.string("the name of a tensor"));
  SCALEGEMM_ASSIGN_OR_RETURN(const uint32_t rank, reader.number<uint32_t>("the rank of a tensor"));
  if (rank > kMaxGgufRank) {
    return corrupt("tensor {}: needs at most {} dimensions, has {}", printable(tensor.name), kMaxGgufRank,
                   rank);
  }
  for (uint32_t i = 0; i < rank; ++i) {
    SCALEGEMM_ASSIGN_OR_RETURN(const uint64_t extent, reader.number<uint64_t>("an extent"));
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return corrupt("tensor {}: needs extents under 2^63, has {}", printable(tensor.name), extent);
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(extent));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const uint32_t type, reader.number<uint32_t>("the type of a tensor"));
  tensor.type = find_gguf_type(type);
  if (tensor.type == nullptr) {
    return unsupported("tensor {}: the type {} is not known", printable(tensor.name), type);
  }
  SCALEGEMM_ASSIGN_OR_RETURN(tensor.begin, reader.number<uint64_t>("the offset of a tensor"));
  return tensor;
}

// From offsets to places in the file, checked against it and each other.
Status place(std::vector<GgufTensor>& tensors, uint64_t start, uint32_t alignment, uint64_t file_bytes) {
  std::ranges::stable_sort(tensors, {}, &GgufTensor::begin);
  uint64_t covered = start;
  for (GgufTensor& tensor : tensors) {
    SCALEGEMM_ASSIGN_OR_RETURN(const uint64_t bytes, bytes_of(tensor));
    const uint64_t offset = tensor.begin;
    if (offset % alignment != 0) {
      return corrupt("tensor {}: needs an offset at a multiple of {}, is at {}", printable(tensor.name),
                     alignment, offset);
    }
    if (start > file_bytes || offset > file_bytes - start || bytes > file_bytes - start - offset) {
      return corrupt("tensor {}: {} bytes at {} of the data pass the end of the file: it is truncated",
                     printable(tensor.name), bytes, offset);
    }
    tensor.begin = start + offset;
    tensor.end = tensor.begin + bytes;
    if (tensor.begin < covered) {
      return corrupt("tensor {}: overlaps the tensor before", printable(tensor.name));
    }
    covered = tensor.end;
  }
  return ok_status();
}

}  // namespace

const GgufType* find_gguf_type(uint32_t id) {
  const auto row = std::ranges::find(kTypes, id, &GgufType::id);
  return row == kTypes.end() ? nullptr : &*row;
}

Result<std::vector<GgufTensor>> parse_gguf(std::string_view file) {
  if (!file.starts_with(kGgufMagic)) {
    return corrupt("a GGUF file needs to start with {}, this one starts with {}", kGgufMagic,
                   printable(file, 4));
  }
  Reader reader(file);
  SCALEGEMM_RETURN_IF_ERROR(reader.take(kGgufMagic.size(), "the magic").status());
  SCALEGEMM_ASSIGN_OR_RETURN(const uint32_t version, reader.number<uint32_t>("the version"));
  if (version != 2 && version != 3) {
    return unsupported("the version needs to be 2 or 3 (little-endian), is {}", version);
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const uint64_t count, reader.number<uint64_t>("the number of tensors"));
  SCALEGEMM_ASSIGN_OR_RETURN(const uint64_t entries, reader.number<uint64_t>("the number of entries"));
  uint32_t alignment = kDefaultAlignment;
  for (uint64_t i = 0; i < entries; ++i) {
    SCALEGEMM_RETURN_IF_ERROR(read_entry(reader, &alignment));
  }
  std::vector<GgufTensor> tensors;
  for (uint64_t i = 0; i < count; ++i) {
    SCALEGEMM_ASSIGN_OR_RETURN(GgufTensor tensor, read_tensor(reader));
    tensors.push_back(std::move(tensor));
  }
  const uint64_t start = base::round_up(reader.at(), alignment);
  SCALEGEMM_RETURN_IF_ERROR(place(tensors, start, alignment, file.size()));
  return tensors;
}

Result<Gguf> Gguf::open(const std::string& path) {
  Gguf result;
  SCALEGEMM_ASSIGN_OR_RETURN(result.file_, base::MappedFile::open(path));
  Result<std::vector<GgufTensor>> tensors = parse_gguf(result.file_.text());
  if (!tensors.ok()) {
    return tensors.status().with_context(path);
  }
  result.tensors_ = *std::move(tensors);
  return result;
}

}  // namespace scalegemm::checkpoint
