// From the tensors of a file to codes, scales and zero points as the library has them.
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/int_math.h"
#include "checkpoint/layer.h"
#include "checkpoint/printable.h"
#include "num/bulk.h"
#include "num/convert.h"

namespace scalegemm::checkpoint {
namespace {

using num::DType;
using Bytes = std::vector<std::byte>;

constexpr int64_t kGgufBlock = 32;
// AWQ (GEMM): column 8c + i is at bits 4 * kAwqShift[i] of word c.
constexpr std::array<int, 8> kAwqShift = {0, 4, 1, 5, 2, 6, 3, 7};

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

uint32_t word(const StoredTensor& tensor, int64_t index) {
  return load<uint32_t>(tensor.bytes.data() + index * 4);
}

void put_nibble(std::byte* row, int64_t k, uint32_t code) {
  row[k / 2] |= static_cast<std::byte>((code & 0xF) << (k % 2 * 4));
}

// [K/8, N] words to N rows: a word is four bytes of its row as they are.
void from_words_down_k(const Layer& layer, Bytes& out) {
  for (int64_t r = 0; r < layer.k / 8; ++r) {
    for (int64_t n = 0; n < layer.n; ++n) {
      const uint32_t value = word(*layer.source.codes, r * layer.n + n);
      std::memcpy(out.data() + n * layer.k / 2 + r * 4, &value, sizeof value);
    }
  }
}

void from_words_along_n(const Layer& layer, Bytes& out) {
  for (int64_t k = 0; k < layer.k; ++k) {
    for (int64_t c = 0; c < layer.n / 8; ++c) {
      const uint32_t value = word(*layer.source.codes, k * (layer.n / 8) + c);
      for (int64_t i = 0; i < 8; ++i) {
        put_nibble(out.data() + (8 * c + i) * layer.k / 2, k,
                   value >> (4 * kAwqShift[static_cast<size_t>(i)]));
      }
    }
  }
}

void from_words_along_k(const Layer& layer, Bytes& out) {
  const size_t stride = static_cast<size_t>(layer.source.codes->shape[1]) * 4;
  const size_t row = static_cast<size_t>(layer.k / 2);
  for (size_t n = 0; n < static_cast<size_t>(layer.n); ++n) {
    std::memcpy(out.data() + n * row, layer.source.codes->bytes.data() + n * stride, row);
  }
}

// GGUF: a block is the scale, then its codes.
void from_blocks(const Layer& layer, std::span<const std::byte> blocks, Bytes& out) {
  const bool nibbles = layer.source.order == CodeOrder::kNibbleBlocks;
  const size_t code_bytes = static_cast<size_t>(nibbles ? kGgufBlock / 2 : kGgufBlock);
  const size_t scale_bytes = static_cast<size_t>(num::bytes_of(layer.operand.scale->type, 1));
  const size_t block_bytes = scale_bytes + code_bytes;
  for (size_t b = 0; b < blocks.size() / block_bytes; ++b) {
    const std::byte* from = blocks.data() + b * block_bytes + scale_bytes;
    std::byte* to = out.data() + b * code_bytes;
    if (!nibbles) {
      std::memcpy(to, from, code_bytes);
      continue;
    }
    for (size_t j = 0; j < 8; ++j) {  // elements 2j and 2j + 1, then 16 further on
      const std::byte even = from[2 * j];
      const std::byte odd = from[2 * j + 1];
      to[j] = (even & std::byte{0xF}) | (odd << 4);
      to[j + 8] = (even >> 4) | (odd & std::byte{0xF0});
    }
  }
}

std::span<const std::byte> member_of(const StoredTensor& tensor, int64_t member, int64_t count) {
  const size_t size = tensor.bytes.size() / static_cast<size_t>(count);
  return tensor.bytes.subspan(static_cast<size_t>(member) * size, size);
}

// Takes possession of the bytes, which keep their place when the owner moves.
std::span<const std::byte> keep(LayerData& data, Bytes bytes) {
  data.owned.push_back(std::move(bytes));
  return data.owned.back();
}

// A span whose elements are aligned, copied where the file's are not.
std::span<const std::byte> aligned(LayerData& data, std::span<const std::byte> bytes, DType type) {
  const auto size = static_cast<uintptr_t>(std::max(num::info(type).bits / 8, 1));
  return reinterpret_cast<uintptr_t>(bytes.data()) % size == 0
             ? bytes
             : keep(data, Bytes(bytes.begin(), bytes.end()));
}

void gather_columns(const Layer& layer, const std::vector<int32_t>& columns, Bytes& codes) {
  Bytes row(static_cast<size_t>(layer.k / 2));
  for (int64_t n = 0; n < layer.n; ++n) {
    std::byte* codes_row = codes.data() + n * layer.k / 2;
    std::fill(row.begin(), row.end(), std::byte{0});
    for (int64_t j = 0; j < layer.k; ++j) {
      put_nibble(row.data(), j, num::load_code(DType::kUint4, codes_row, columns[static_cast<size_t>(j)]));
    }
    std::memcpy(codes_row, row.data(), row.size());
  }
}

void read_codes(const Layer& layer, int64_t member, LayerData& data) {
  const LayerSource& source = layer.source;
  const std::span<const std::byte> stored = member_of(*source.codes, member, layer.count);
  const auto size = static_cast<size_t>(layer.n * num::bytes_of(layer.operand.type, layer.k));
  const bool rows =
      source.order == CodeOrder::kRows || (source.order == CodeOrder::kWordsAlongK && stored.size() == size);
  if (rows && source.flip == 0 && data.columns.empty()) {
    data.codes = aligned(data, stored, layer.operand.type);
    return;
  }
  Bytes out(size);
  if (rows) {
    std::memcpy(out.data(), stored.data(), size);
  } else if (source.order == CodeOrder::kWordsAlongK) {
    from_words_along_k(layer, out);
  } else if (source.order == CodeOrder::kWordsDownK) {
    from_words_down_k(layer, out);
  } else if (source.order == CodeOrder::kWordsAlongN) {
    from_words_along_n(layer, out);
  } else {
    from_blocks(layer, stored, out);
  }
  if (source.flip != 0) {
    for (std::byte& b : out) {
      b ^= std::byte{source.flip};
    }
  }
  if (!data.columns.empty()) {
    gather_columns(layer, data.columns, out);
  }
  data.codes = keep(data, std::move(out));
}

// `count` float scales of any type as the operand has them.
std::span<const std::byte> float_scales(LayerData& data, std::span<const std::byte> stored, DType from) {
  const DType to = data.operand.scale->type;
  if (from == to) {
    return aligned(data, stored, to);
  }
  const auto count = static_cast<size_t>(data.grid.rows * data.grid.cols);
  std::vector<float> values(count);
  num::decode_array(from, stored.data(), values);
  Bytes out(num::storage_bytes(to, static_cast<int64_t>(count)));
  num::encode_array(to, values, num::Overflow::kIeee, out.data());
  return keep(data, std::move(out));
}

void read_scales(const Layer& layer, int64_t member, LayerData& data) {
  const LayerSource& source = layer.source;
  const DType type = data.operand.scale->type;
  const auto bytes = static_cast<size_t>(num::bytes_of(type, 1));
  const int64_t count = data.grid.rows * data.grid.cols;
  if (source.order == CodeOrder::kNibbleBlocks || source.order == CodeOrder::kByteBlocks) {
    const std::span<const std::byte> blocks = member_of(*source.codes, member, layer.count);
    const size_t stride = blocks.size() / static_cast<size_t>(count);
    Bytes out(static_cast<size_t>(count) * bytes);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      std::memcpy(out.data() + i * bytes, blocks.data() + i * stride, bytes);
    }
    data.scales = keep(data, std::move(out));
    return;
  }
  const std::span<const std::byte> stored = member_of(*source.scales, member, layer.count);
  if (source.order == CodeOrder::kWordsDownK || source.order == CodeOrder::kWordsAlongN) {  // [K/G, N]
    Bytes out(static_cast<size_t>(count) * bytes);
    for (int64_t n = 0; n < data.grid.rows; ++n) {
      for (int64_t g = 0; g < data.grid.cols; ++g) {
        std::memcpy(out.data() + (n * data.grid.cols + g) * static_cast<int64_t>(bytes),
                    stored.data() + (g * data.grid.rows + n) * static_cast<int64_t>(bytes), bytes);
      }
    }
    data.scales = keep(data, std::move(out));
    return;
  }
  data.scales = type == DType::kE8m0 || type == DType::kE4m3
                    ? stored
                    : float_scales(data, stored, source.scales->dtype.value_or(type));
}

uint32_t stored_zero(const Layer& layer, const spec::Grid& grid, int64_t n, int64_t g) {
  const StoredTensor& zeros = *layer.source.zeros;
  switch (layer.source.order) {
    case CodeOrder::kWordsDownK:  // [K/G, N/8]
      return word(zeros, g * zeros.shape[1] + n / 8) >> (4 * (n % 8)) & 0xF;
    case CodeOrder::kWordsAlongN:
      return word(zeros, g * zeros.shape[1] + n / 8) >> (4 * kAwqShift[static_cast<size_t>(n % 8)]) & 0xF;
    default:  // compressed-tensors: [ceil(N/8), K/G]
      return word(zeros, n / 8 * grid.cols + g) >> (4 * (n % 8)) & 0xF;
  }
}

void read_zeros(const Layer& layer, LayerData& data) {
  Bytes out(static_cast<size_t>(data.grid.rows * data.grid.cols));
  for (int64_t n = 0; n < data.grid.rows; ++n) {
    for (int64_t g = 0; g < data.grid.cols; ++g) {
      const uint32_t zero = stored_zero(layer, data.grid, n, g) + layer.source.zero_bias;
      out[static_cast<size_t>(n * data.grid.cols + g)] = static_cast<std::byte>(zero);
    }
  }
  data.zeros = keep(data, std::move(out));
}

Status read_global(const Layer& layer, LayerData& data) {
  const auto stored = load<float>(layer.source.global->bytes.data());
  data.global = layer.source.global_divides ? 1 / stored : stored;
  if (!(data.global > 0) || !std::isfinite(data.global) || !std::isfinite(stored)) {
    return corrupt("tensor {}: needs a positive finite factor, is {}", printable(layer.source.global->name),
                   stored);
  }
  return ok_status();
}

}  // namespace

Result<std::vector<int32_t>> sort_by_group(const StoredTensor& group_of_k, int64_t k, int64_t group_size) {
  const int64_t groups = base::ceil_div(k, group_size);
  std::vector<int64_t> next(static_cast<size_t>(groups));  // the place of the next column of each group
  for (int64_t g = 0; g < groups; ++g) {
    next[static_cast<size_t>(g)] = g * group_size;
  }
  std::vector<int32_t> columns(static_cast<size_t>(k));
  for (int64_t j = 0; j < k; ++j) {
    const auto group = static_cast<int32_t>(word(group_of_k, j));
    if (group < 0 || group >= groups) {
      return corrupt("tensor {}: needs groups from 0 to {}, column {} has {}", printable(group_of_k.name),
                     groups - 1, j, group);
    }
    int64_t& place = next[static_cast<size_t>(group)];
    if (place >= std::min(k, (group + int64_t{1}) * group_size)) {
      return unsupported("tensor {}: needs {} columns in every group, group {} has more",
                         printable(group_of_k.name), group_size, group);
    }
    columns[static_cast<size_t>(place++)] = static_cast<int32_t>(j);
  }
  return columns;
}

Result<LayerData> read_layer(const Layer& layer, int64_t member) {
  if (!layer.problem.empty()) {
    return unsupported("{}", layer.problem);
  }
  if (member < 0 || member >= layer.count) {
    return invalid_argument("member: layer {} has {}, got {}", printable(layer.name), layer.count, member);
  }
  LayerData data;
  data.operand = layer.operand;
  data.n = layer.n;
  data.k = layer.k;
  if (layer.source.group_of_k != nullptr) {
    SCALEGEMM_ASSIGN_OR_RETURN(
        data.columns, sort_by_group(*layer.source.group_of_k, layer.k, layer.operand.scale->block_k));
  }
  read_codes(layer, member, data);
  if (layer.operand.scale) {
    data.grid = spec::scale_grid(*layer.operand.scale, layer.n, layer.k);
    read_scales(layer, member, data);
  }
  if (layer.source.zeros != nullptr) {
    read_zeros(layer, data);
  }
  if (layer.source.global != nullptr) {
    SCALEGEMM_RETURN_IF_ERROR(read_global(layer, data));
  }
  return data;
}

}  // namespace scalegemm::checkpoint
