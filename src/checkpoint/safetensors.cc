#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "checkpoint/printable.h"

namespace scalegemm::checkpoint {
namespace {

using num::DType;

constexpr auto kTypes = std::to_array<SafetensorsType>({
    {"F32", 32, DType::kF32},
    {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBf16},
    {"F8_E4M3", 8, DType::kE4m3},
    {"F8_E4M3FNUZ", 8, DType::kE4m3Fnuz},
    {"F8_E5M2", 8, DType::kE5m2},
    {"F8_E5M2FNUZ", 8, DType::kE5m2Fnuz},
    {"F8_E8M0", 8, DType::kE8m0},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, DType::kE2m1},
    {"F64", 64, std::nullopt},
    {"C64", 64, std::nullopt},
    {"BOOL", 8, std::nullopt},
    {"I8", 8, DType::kInt8},
    {"U8", 8, std::nullopt},
    {"I16", 16, std::nullopt},
    {"U16", 16, std::nullopt},
    {"I32", 32, DType::kInt32},
    {"U32", 32, std::nullopt},
    {"I64", 64, std::nullopt},
    {"U64", 64, std::nullopt},
});

}  // namespace

std::span<const SafetensorsType> safetensors_types() {
  return kTypes;
}

const SafetensorsType* find_safetensors_type(std::string_view name) {
  const auto row = std::ranges::find(kTypes, name, &SafetensorsType::name);
  return row == kTypes.end() ? nullptr : &*row;
}

std::optional<std::string_view> safetensors_name(num::DType dtype) {
  const auto row = std::ranges::find(kTypes, std::optional(dtype), &SafetensorsType::dtype);
  return row == kTypes.end() ? std::nullopt : std::optional(row->name);
}

Result<int64_t> tensor_bytes(const SafetensorsType& type, std::span<const int64_t> shape) {
  if (shape.size() > kMaxRank) {
    return invalid_argument("shape: needs at most {} extents, has {}", kMaxRank, shape.size());
  }
  int64_t bits = type.bits;
  for (const int64_t extent : shape) {
    if (extent < 0) {
      return invalid_argument("shape: needs extents of at least 0, has {}", extent);
    }
    if (__builtin_mul_overflow(bits, extent, &bits)) {
      // 2^63 bits are already a million terabytes, so bits need no wider type; a later extent of 0 does not
      // excuse it.
      return invalid_argument("shape: needs a size of less than 2^63 bits, extent {} exceeds it", extent);
    }
  }
  if (bits % 8 != 0) {
    return invalid_argument("shape: {} elements of {} bits are no whole number of bytes", bits / type.bits,
                            type.bits);
  }
  return bits / 8;
}

Result<Safetensors> Safetensors::open(const std::string& path) {
  Safetensors result;
  SCALEGEMM_ASSIGN_OR_RETURN(result.file_, base::MappedFile::open(path));
  Result<SafetensorsHeader> header = parse_safetensors(result.file_.text());
  if (!header.ok()) {
    return header.status().with_context(path);
  }
  result.header_ = *std::move(header);
  result.by_name_.resize(result.tensors().size());
  std::iota(result.by_name_.begin(), result.by_name_.end(), 0U);
  std::ranges::sort(result.by_name_, {},
                    [&](uint32_t i) -> const std::string& { return result.tensors()[i].name; });
  return result;
}

const TensorInfo* Safetensors::find(std::string_view name) const {
  const auto name_of = [&](uint32_t i) -> std::string_view { return tensors()[i].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return found != by_name_.end() && name_of(*found) == name ? &tensors()[*found] : nullptr;
}

std::span<const std::byte> Safetensors::bytes(const TensorInfo& tensor) const {
  return file_.bytes().subspan(header_.data_start + tensor.begin, tensor.end - tensor.begin);
}

}  // namespace scalegemm::checkpoint
