#include "harness/data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "num/convert.h"

namespace scalegemm::harness {
namespace {

constexpr int kF32Bits = 24;       // integers up to 2^24 are exact in f32
constexpr int kEpilogueBits = 2;   // room for bias and beta * C in an exact sum
constexpr int kMostScaleBits = 6;  // spread of exact scale exponents

int ceil_log2(int64_t x) {
  return x <= 1 ? 0 : 64 - std::countl_zero(static_cast<uint64_t>(x - 1));
}

int64_t blocks(int64_t extent, int64_t block) {
  return block == 0 ? 1 : (extent + block - 1) / block;
}

bool has_scale(const scalegemm_operand_desc& desc) {
  return desc.scale.dtype != SCALEGEMM_DTYPE_NONE;
}

// How the 24 bits of an exact sum are shared: |value| <= 2^code_bits units, scales span 2^scale_bits.
struct ExactShares {
  int code_bits = 0;
  int scale_bits_a = 0;
  int scale_bits_b = 0;
};

// Bits beyond the value's own that a kernel may need: e2m1 counts halves; with zero points the code itself,
// of up to 15, is multiplied before the zero point is taken off.
int extra_bits(const scalegemm_operand_desc& desc) {
  if (desc.scale.zero_dtype != SCALEGEMM_DTYPE_NONE || desc.dtype == SCALEGEMM_UINT4) {
    return 3;
  }
  return desc.dtype == SCALEGEMM_E2M1 ? 1 : 0;
}

// The bits that values may have where both operands are fp8: matrix units may align the addends of a chain to
// 13 bits (docs/numerics.md), so a chain's sum must fit into them.
int fp8_code_bits(const scalegemm_problem& p) {
  constexpr int kAlignedBits = 13;
  const auto fp8 = [](int32_t type) { return type == SCALEGEMM_E4M3 || type == SCALEGEMM_E5M2; };
  if (!fp8(p.a.dtype) || !fp8(p.b.dtype)) {
    return kAlignedBits;
  }
  const int64_t chain = p.accuracy == SCALEGEMM_FAST ? p.k : std::min<int64_t>(p.k, 128);
  return std::max(0, (kAlignedBits - ceil_log2(chain)) / 2);
}

ExactShares exact_shares(const scalegemm_problem& p) {
  const int room = kF32Bits - kEpilogueBits - ceil_log2(p.k) - extra_bits(p.a) - extra_bits(p.b);
  ExactShares shares;
  const bool scaled = has_scale(p.a) || has_scale(p.b);
  for (int bits = std::min(3, fp8_code_bits(p)); bits > 0 && shares.code_bits == 0; --bits) {
    shares.code_bits = 2 * bits + (scaled ? 3 : 0) <= room ? bits : 0;
  }
  const int rest = std::max(room - 2 * shares.code_bits, 0);
  if (has_scale(p.a) && has_scale(p.b)) {
    shares.scale_bits_a = std::min(rest / 2, kMostScaleBits);
    shares.scale_bits_b = std::min(rest - rest / 2, kMostScaleBits);
  } else {
    shares.scale_bits_a = has_scale(p.a) ? std::min(rest, kMostScaleBits) : 0;
    shares.scale_bits_b = has_scale(p.b) ? std::min(rest, kMostScaleBits) : 0;
  }
  return shares;
}

void store(std::vector<uint8_t>& memory, int64_t index, int bits, uint32_t code) {
  if (bits == 4) {
    const int shift = index % 2 == 0 ? 0 : 4;
    uint8_t& byte = memory[static_cast<size_t>(index / 2)];
    byte = static_cast<uint8_t>((byte & ~(0xF << shift)) | code << shift);
    return;
  }
  std::memcpy(memory.data() + index * bits / 8, &code, static_cast<size_t>(bits / 8));
}

// A multiple of the type's unit with |value| <= 2^code_bits.
double exact_value(Random& random, const scalegemm_operand_desc& desc, int code_bits) {
  const int64_t most = int64_t{1} << code_bits;
  if (desc.dtype == SCALEGEMM_E2M1) {
    constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};  // OCP MX v1.0 5.3.3
    const int64_t count = std::min<int64_t>(2 * code_bits + 3, 8);
    const double magnitude = kMagnitudes[random.below(count)];
    return random.below(2) == 0 ? magnitude : -magnitude;
  }
  if (desc.dtype == SCALEGEMM_UINT4 && desc.scale.zero_dtype == SCALEGEMM_DTYPE_NONE) {
    return static_cast<double>(random.below(std::min<int64_t>(most, 15) + 1));
  }
  return static_cast<double>(random.below(2 * most + 1) - most);
}

// 2^e with e in 0 .. 2^bits - 1 shifted down by `lowest`; neighbours along k differ, and so do neighbours
// along rows, so that a skipped or permuted scale shows.
double exact_scale(int64_t row, int64_t j, int bits, uint64_t seed) {
  const int64_t period = bits + 1;
  Random shift(seed ^ static_cast<uint64_t>(row * 1000003 + j / period));
  const int64_t e = (j + row * 3 + shift.below(2) * 2) % period;
  return std::ldexp(1.0, static_cast<int>(e));
}

// Zero points and the codes that give `value` against them.
struct ZeroRange {
  int lowest = 0;
  int count = 1;
};

ZeroRange zero_range(const scalegemm_operand_desc& desc) {
  switch (desc.scale.zero_dtype) {
    case SCALEGEMM_DTYPE_NONE:
      return {0, 1};
    case SCALEGEMM_UINT4:
      return {6, 4};
    default:
      return desc.dtype == SCALEGEMM_UINT4 ? ZeroRange{5, 3} : ZeroRange{-2, 4};
  }
}

void fill_exact(OperandData& data, int code_bits, int scale_bits, uint64_t seed) {
  Random random(seed);
  const scalegemm_operand_desc& desc = data.desc;
  const num::DTypeInfo& type = num::info(dtype_of(desc.dtype));
  const ZeroRange range = zero_range(desc);
  const int64_t block_rows = desc.scale.block_rows == 0 ? data.rows : desc.scale.block_rows;
  const int64_t block_k = desc.scale.block_k == 0 ? data.k : desc.scale.block_k;
  std::vector<int> zero(static_cast<size_t>(data.batch * data.grid_rows * data.grid_k));
  for (size_t i = 0; i < zero.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const int64_t row = index / data.grid_k;
    const double scale = exact_scale(row, index % data.grid_k, scale_bits, seed);
    if (!data.scales.empty()) {
      store(data.scales, index, num::info(dtype_of(desc.scale.dtype)).bits,
            num::encode(dtype_of(desc.scale.dtype), scale, num::Overflow::kSaturate));
    }
    zero[i] = range.lowest + static_cast<int>(random.below(range.count));
    if (!data.zeros.empty()) {
      data.zeros[i] = static_cast<uint8_t>(
          num::encode(dtype_of(desc.scale.zero_dtype), double(zero[i]), num::Overflow::kSaturate));
    }
  }
  for (int64_t r = 0; r < data.batch * data.rows; ++r) {
    const int64_t batch = r / data.rows;
    const int64_t grid_row = batch * data.grid_rows + (r % data.rows) / block_rows;
    for (int64_t k = 0; k < data.k; ++k) {
      const double low =
          data.zeros.empty() ? 0 : zero[static_cast<size_t>(grid_row * data.grid_k + k / block_k)];
      const double value = exact_value(random, desc, code_bits) + low;
      store(data.codes, r * data.k + k, type.bits, num::encode(type.type, value, num::Overflow::kSaturate));
    }
  }
  if (desc.scale.has_global != 0) {
    data.global = 0.25f;
  }
}

// The exponent of a scale at an end of its type. Large ones keep K products of two values within 1 below
// 2^127, or the oracle would judge nothing; a row in eight has no such limit.
int extreme_exponent(Random& random, num::DType type, int most) {
  switch (type) {
    case num::DType::kF16:
      return random.below(2) == 0 ? static_cast<int>(random.below(3)) - 24
                                  : 13 + static_cast<int>(random.below(3));
    case num::DType::kE4m3:
      return random.below(2) == 0 ? static_cast<int>(random.below(3)) - 9
                                  : 6 + static_cast<int>(random.below(3));
    default:
      break;
  }
  const int lowest = type == num::DType::kF32 ? -149 : type == num::DType::kBf16 ? -133 : -127;
  return random.below(2) == 0 ? lowest + static_cast<int>(random.below(-120 - lowest))
                              : std::min(120 + static_cast<int>(random.below(8)), most);
}

void fill_extreme(OperandData& data, bool extreme, uint64_t seed) {
  Random random(seed);
  const scalegemm_operand_desc& desc = data.desc;
  const num::DTypeInfo& type = num::info(dtype_of(desc.dtype));
  const ZeroRange range = zero_range(desc);
  const int64_t all_rows = data.batch * data.rows;
  const bool integer = !type.is_float;
  for (int64_t i = 0; i < all_rows * data.k; ++i) {
    double value = integer ? static_cast<double>(random.below(3) - 1) : 2 * random.uniform() - 1;
    value = desc.dtype == SCALEGEMM_UINT4 ? std::abs(value) + range.lowest : value;
    if (extreme && type.bits > 8 && random.below(4) == 0) {
      value = std::ldexp(value, -100 - static_cast<int>(random.below(40)));
    }
    store(data.codes, i, type.bits, num::encode(type.type, value, num::Overflow::kSaturate));
  }
  for (auto& zero : data.zeros) {
    zero = static_cast<uint8_t>(
        num::encode(dtype_of(desc.scale.zero_dtype), double(range.lowest), num::Overflow::kSaturate));
  }
  for (int64_t row = 0; !data.scales.empty() && row < data.batch * data.grid_rows; ++row) {
    const int most = random.below(8) == 0 ? 127 : 122 - ceil_log2(data.k);
    const num::DType scale_type = dtype_of(desc.scale.dtype);
    for (int64_t j = 0; j < data.grid_k; ++j) {
      const int e = extreme ? extreme_exponent(random, scale_type, most) : -static_cast<int>(random.below(4));
      store(data.scales, row * data.grid_k + j, num::info(scale_type).bits,
            num::encode(scale_type, std::ldexp(1.0, e), num::Overflow::kSaturate));
    }
  }
  if (desc.scale.has_global != 0) {
    const int most = 110 - ceil_log2(data.k);
    data.global = std::ldexp(1.0f, extreme ? (random.below(2) == 0 ? most : -110) : 0);
  }
}

scalegemm_tensor tensor_of(std::vector<uint8_t>& memory, int32_t dtype, int64_t batch, int64_t rows,
                           int64_t cols, int64_t storage_cols) {
  scalegemm_tensor tensor{};
  tensor.data = memory.empty() ? nullptr : memory.data();
  tensor.bytes = memory.size();
  tensor.dtype = dtype;
  const int64_t shape[3] = {batch, rows, cols};
  const int64_t stride[3] = {rows * storage_cols, storage_cols, 1};
  std::copy_n(shape, 3, tensor.shape);
  std::copy_n(stride, 3, tensor.stride);
  return tensor;
}

// Quantises the f32 matrix of `values` (batch * rows x K) into data. A grid row never spans two batch
// indices; a global factor is one for all of them, so it needs blocks of one row.
void quantize_into(OperandData& data, float* values, const scalegemm_quantize_options* options) {
  const bool at_once = data.desc.scale.has_global != 0 || data.batch == 1;
  const int64_t slices = at_once ? 1 : data.batch;
  const int64_t rows = at_once ? data.batch * data.rows : data.rows;
  const int64_t grid_rows = at_once ? data.batch * data.grid_rows : data.grid_rows;
  const int64_t storage_k = num::is_packed4(dtype_of(data.desc.dtype)) ? data.k / 2 : data.k;
  for (int64_t s = 0; s < slices; ++s) {
    const auto part = [s, slices](std::vector<uint8_t>& memory) {
      return memory.data() + static_cast<size_t>(s) * (memory.size() / static_cast<size_t>(slices));
    };
    scalegemm_tensor source = scalegemm_matrix(values + s * rows * data.k, SCALEGEMM_F32, rows, data.k);
    scalegemm_tensor codes = tensor_of(data.codes, data.desc.dtype, 1, rows, data.k, storage_k);
    codes.data = part(data.codes);
    codes.bytes /= static_cast<uint64_t>(slices);
    scalegemm_tensor scales{};
    scalegemm_tensor zeros{};
    if (!data.scales.empty()) {
      scales = scalegemm_matrix(part(data.scales), data.desc.scale.dtype, grid_rows, data.grid_k);
    }
    if (!data.zeros.empty()) {
      zeros = tensor_of(data.zeros, data.desc.scale.zero_dtype, 1, grid_rows, data.grid_k, data.grid_k);
      zeros.data = part(data.zeros);
      zeros.bytes /= static_cast<uint64_t>(slices);
    }
    float global = 1;
    check(scalegemm_quantize(&data.desc, &source, options, &codes, scales.data ? &scales : nullptr,
                             zeros.data ? &zeros : nullptr, &global));
    if (data.desc.scale.has_global != 0) {
      data.global = global;
    }
  }
}

}  // namespace

OperandData allocate_operand(const scalegemm_operand_desc& desc, int64_t rows, int64_t k, int64_t batch) {
  OperandData data;
  data.desc = desc;
  data.rows = rows;
  data.k = k;
  data.batch = batch;
  data.grid_rows = has_scale(desc) ? blocks(rows, desc.scale.block_rows) : 1;
  data.grid_k = has_scale(desc) ? blocks(k, desc.scale.block_k) : 1;
  data.codes.resize(static_cast<size_t>(code_bytes(desc.dtype, batch * rows, k)));
  const auto grid = static_cast<size_t>(batch * data.grid_rows * data.grid_k);
  if (has_scale(desc)) {
    data.scales.resize(grid * static_cast<size_t>(num::info(dtype_of(desc.scale.dtype)).bits / 8));
    data.zeros.resize(desc.scale.zero_dtype != SCALEGEMM_DTYPE_NONE ? grid : 0);
  }
  return data;
}

uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

double Random::normal() {
  // Sum of uniforms (Irwin-Hall of 4, variance 1/3): near enough to normal, and the same everywhere.
  const double sum = uniform() + uniform() + uniform() + uniform() - 2;
  return sum * 1.7320508075688772;
}

scalegemm_tensor OperandData::codes_tensor() {
  const int64_t storage_k = num::is_packed4(dtype_of(desc.dtype)) ? k / 2 : k;
  return tensor_of(codes, desc.dtype, batch, rows, k, storage_k);
}

scalegemm_tensor OperandData::scales_tensor() {
  return scales.empty() ? scalegemm_tensor{}
                        : tensor_of(scales, desc.scale.dtype, batch, grid_rows, grid_k, grid_k);
}

scalegemm_tensor OperandData::zeros_tensor() {
  return zeros.empty() ? scalegemm_tensor{}
                       : tensor_of(zeros, desc.scale.zero_dtype, batch, grid_rows, grid_k, grid_k);
}

std::vector<float> normal_values(Fill fill, Side side, int64_t rows, int64_t k, uint64_t seed) {
  if (fill == Fill::kOnes) {
    return std::vector<float>(static_cast<size_t>(rows * k), 1.0f);
  }
  constexpr double kWeightSpread = 0.05;
  constexpr int64_t kRun = 32;  // values that an adversary treats alike
  Random random(seed * 2 + (side == Side::kB ? 1 : 0));
  std::vector<float> values(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    const double row_spread = std::exp2(random.normal() * 0.5) * (side == Side::kB ? kWeightSpread : 1.0);
    double run_spread = row_spread;
    for (int64_t i = 0; i < k; ++i) {
      if (fill == Fill::kAdversary && i % kRun == 0) {
        const int64_t choice = random.below(8);
        run_spread = choice == 0 ? 0 : (choice == 1 ? row_spread * 1e-5 : row_spread);
      }
      const bool outlier = fill == Fill::kAdversary && random.below(400) == 0;
      values[static_cast<size_t>(r * k + i)] =
          static_cast<float>(random.normal() * (outlier ? row_spread * 1000 : run_spread));
    }
  }
  return values;
}

namespace {

// An operand of `rows` rows that repeats those of `drawn` (whole scale blocks of them).
OperandData repeat_rows(const OperandData& drawn, int64_t rows) {
  OperandData out = allocate_operand(drawn.desc, rows, drawn.k, 1);
  const auto repeat = [](const std::vector<uint8_t>& from, int64_t from_rows, std::vector<uint8_t>& to) {
    const size_t row = from_rows == 0 ? 0 : from.size() / static_cast<size_t>(from_rows);
    for (size_t at = 0; at < to.size() && row > 0; at += from.size()) {
      std::memcpy(to.data() + at, from.data(), std::min(from.size(), to.size() - at));
    }
  };
  repeat(drawn.codes, drawn.rows, out.codes);
  repeat(drawn.scales, drawn.grid_rows, out.scales);
  repeat(drawn.zeros, drawn.grid_rows, out.zeros);
  out.global = drawn.global;
  return out;
}

}  // namespace

OperandData make_operand(const Case& c, const scalegemm_problem& problem, Side side) {
  const scalegemm_operand_desc& desc = side == Side::kA ? problem.a : problem.b;
  const int64_t all_rows = side == Side::kA ? problem.m : problem.n;
  const bool repeats =
      c.unique_rows > 0 && c.unique_rows < all_rows && c.fill != Fill::kExact && problem.batch == 1;
  const int64_t rows = repeats ? c.unique_rows : all_rows;
  OperandData data = allocate_operand(desc, rows, problem.k, problem.batch);
  if (c.fill == Fill::kExact) {
    const ExactShares shares = exact_shares(problem);
    fill_exact(data, shares.code_bits, side == Side::kA ? shares.scale_bits_a : shares.scale_bits_b,
               c.seed * 2 + (side == Side::kB ? 1 : 0));
    return data;
  }
  if (c.fill == Fill::kExtreme) {
    const Side side_of_extremes = c.seed % 2 == 0 || !has_scale(problem.a) ? Side::kB : Side::kA;
    // Without scales on either side there are the tiny activations.
    const bool extreme = side == side_of_extremes || (side == Side::kA && !has_scale(problem.a));
    fill_extreme(data, extreme, c.seed * 2 + (side == Side::kB ? 1 : 0));
    return data;
  }
  std::vector<float> values = normal_values(c.fill, side, problem.batch * rows, problem.k, c.seed);
  if (desc.dtype == SCALEGEMM_UINT4 && desc.scale.zero_dtype == SCALEGEMM_DTYPE_NONE) {
    std::transform(values.begin(), values.end(), values.begin(), [](float x) { return std::abs(x); });
  }
  quantize_into(data, values.data(), nullptr);
  return repeats ? repeat_rows(data, all_rows) : data;
}

ExactUnits exact_units(const Case& c, const scalegemm_problem& problem) {
  const ExactShares shares = exact_shares(problem);
  ExactUnits units;
  for (const scalegemm_operand_desc* desc : {&problem.a, &problem.b}) {
    units.sum *= desc->dtype == SCALEGEMM_E2M1 ? 0.5 : 1.0;
    units.sum *= desc->scale.has_global != 0 ? 0.25 : 1.0;
  }
  if (c.d_dtype == SCALEGEMM_F32 || c.d_dtype == SCALEGEMM_BF16 || c.d_dtype == SCALEGEMM_INT32) {
    return units;
  }
  // A sum of K terms of that size is about sqrt(K) terms large; bring that to about 8.
  const int size =
      ceil_log2(problem.k) / 2 + 2 * shares.code_bits - 1 + (shares.scale_bits_a + shares.scale_bits_b) / 2;
  units.alpha = static_cast<float>(std::ldexp(1.0, 3 - size));
  return units;
}

OperandData quantize(const scalegemm_operand_desc& desc, const float* values, int64_t rows, int64_t k,
                     const scalegemm_quantize_options* options) {
  OperandData data = allocate_operand(desc, rows, k, 1);
  quantize_into(data, const_cast<float*>(values), options);  // scalegemm_tensor has no const view
  return data;
}

}  // namespace scalegemm::harness
