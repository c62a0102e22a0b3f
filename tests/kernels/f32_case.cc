#include "kernels/f32_case.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "common/panels.h"

namespace scalegemm::kernels {
namespace {

constexpr uint8_t kPoison = 0xfb;

struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;
  double max_finite;
};

Format format_of(int type) {
  switch (type) {
    case SG_F32:
      return {8, 23, 127, true, std::numeric_limits<float>::max()};
    case SG_F16:
      return {5, 10, 15, true, 65504};
    case SG_BF16:
      return {8, 7, 127, true, 0x1.fep127};
    case SG_E4M3:
      return {4, 3, 7, false, 448};
    case SG_E4M3_FNUZ:
      return {4, 3, 8, false, 240};
    case SG_E5M2:
      return {5, 2, 15, true, 57344};
    case SG_E5M2_FNUZ:
      return {5, 2, 16, false, 57344};
    default:
      return {2, 1, 1, false, 6};
  }
}

bool is_fnuz(int type) {
  return type == SG_E4M3_FNUZ || type == SG_E5M2_FNUZ;
}

void put(uint8_t* data, int64_t element, int bytes, uint32_t code) {
  std::memcpy(data + element * bytes, &code, static_cast<size_t>(bytes));
}

}  // namespace

int bits_of(int type) {
  switch (type) {
    case SG_F32:
    case SG_INT32:
      return 32;
    case SG_F16:
    case SG_BF16:
      return 16;
    case SG_E2M1:
    case SG_INT4:
    case SG_UINT4:
      return 4;
    default:
      return 8;
  }
}

double decode_code(int type, uint32_t code) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  switch (type) {
    case SG_INT8:
      return static_cast<int8_t>(code);
    case SG_INT4:
      return static_cast<int>(code & 15) - (code & 8 ? 16 : 0);
    case SG_UINT4:
      return code & 15;
    case SG_INT32:
      return static_cast<int32_t>(code);
    case SG_E8M0:
      return code == 255 ? nan : std::ldexp(1.0, static_cast<int>(code) - 127);
    default:
      break;
  }
  const Format f = format_of(type);
  const int bits = 1 + f.exponent_bits + f.mantissa_bits;
  code &= bits == 32 ? 0xffffffffu : (1u << bits) - 1;
  const bool negative = code >> (bits - 1);
  const int exponent = static_cast<int>(code >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const auto mantissa = static_cast<int>(code & ((1u << f.mantissa_bits) - 1));
  const int top = (1 << f.exponent_bits) - 1;
  if (is_fnuz(type) && code == 0x80) {
    return nan;
  }
  if (f.has_infinity && exponent == top) {
    return mantissa ? nan : negative ? -INFINITY : INFINITY;
  }
  if (type == SG_E4M3 && (code & 0x7f) == 0x7f) {
    return nan;
  }
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits)
                    : std::ldexp((1 << f.mantissa_bits) + mantissa, exponent - f.bias - f.mantissa_bits);
  return negative ? -magnitude : magnitude;
}

double round_to(int type, double x) {
  if (std::isnan(x) || type == SG_INT32) {
    return std::nearbyint(x);
  }
  const Format f = format_of(type);
  const bool saturates = bits_of(type) == 8;
  if (std::isinf(x)) {
    return saturates ? std::copysign(f.max_finite, x) : x;
  }
  int exponent = x == 0 ? 1 - f.bias : std::ilogb(x);
  exponent = std::max(exponent, 1 - f.bias);
  const double unit = std::ldexp(1.0, exponent - f.mantissa_bits);
  const double rounded = std::nearbyint(x / unit) * unit;
  if (std::abs(rounded) > f.max_finite) {
    return std::copysign(saturates ? f.max_finite : INFINITY, x);
  }
  return rounded;
}

GuardedBuffer::GuardedBuffer(size_t bytes, size_t alignment) : size_(bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t padded = (bytes + alignment - 1) / alignment * alignment;
  map_bytes_ = (padded + page - 1) / page * page + 2 * page;
  map_ = static_cast<uint8_t*>(
      mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(map_, page, PROT_NONE);
  mprotect(map_ + map_bytes_ - page, page, PROT_NONE);
  data_ = map_ + map_bytes_ - page - padded;
  std::memset(data_, kPoison, padded);
}

GuardedBuffer::~GuardedBuffer() {
  if (map_) {
    munmap(map_, map_bytes_);
  }
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept {
  *this = std::move(other);
}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(map_, other.map_);
  std::swap(map_bytes_, other.map_bytes_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::string Case::describe() const {
  const auto operand = [](const OperandCase& x) {
    return "type " + std::to_string(x.type) + " order " + std::to_string(static_cast<int>(x.order)) +
           " packed " + std::to_string(x.packed) + " scale " + std::to_string(x.scale_type) + " " +
           std::to_string(x.block_r) + "x" + std::to_string(x.block_k) + " zero " +
           std::to_string(x.zero_type) + " global " + std::to_string(x.global);
  };
  return "m " + std::to_string(m) + " n " + std::to_string(n) + " k " + std::to_string(k) + " batch " +
         std::to_string(batch) + "; A " + operand(a) + "; B " + operand(b) + "; D " + std::to_string(d_type) +
         " order " + std::to_string(static_cast<int>(d_order)) + " c " + std::to_string(c_type) + " bias " +
         std::to_string(bias_type) + " act " + std::to_string(activation) + " seed " + std::to_string(seed);
}

uint32_t Problem::random_code(int type) {
  for (;;) {
    auto code = static_cast<uint32_t>(random_());
    const int bits = bits_of(type);
    code &= bits == 32 ? 0xffffffffu : (1u << bits) - 1;
    const double value = std::abs(decode_code(type, code));
    if (case_.exact) {
      // Small multiples of 1/2.
      if (value <= 4 && std::fmod(value, 0.5) == 0) {
        return code;
      }
      if (bits >= 16) {
        const double wanted = static_cast<int>(random_() % 17) * 0.5 - 4;
        const auto f = static_cast<float>(wanted);
        uint32_t f32;
        std::memcpy(&f32, &f, 4);
        if (type == SG_F32) {
          return f32;
        }
        if (type == SG_BF16) {
          return f32 >> 16;
        }
        return f == 0 ? 0 : (f32 >> 16 & 0x8000) | ((f32 >> 13 & 0x3ffff) - (112u << 10));
      }
      continue;
    }
    // Finite and of a size that keeps sums of products inside f32 (16 and 32 bits: near 1).
    if (std::isfinite(value) && (bits <= 8 || value == 0 || (value < 256 && value > 0x1p-12))) {
      return code;
    }
  }
}

void Problem::build(Operand& x, const OperandCase& o, int64_t rows, const CodeSource& source,
                    SgOperand& out) {
  x.definition = o;
  random_.seed(case_.seed + (&x == &b_));
  x.rows = rows;
  const int64_t k = case_.k, batch = case_.batch;
  const int bits = bits_of(o.type);
  const int64_t block_r = std::min(o.block_r, rows), block_k = std::min(o.block_k, k);
  const int64_t grid_r = (rows + block_r - 1) / block_r, grid_k = (k + block_k - 1) / block_k;
  const bool has_scale = o.scale_type != 0, has_zero = o.zero_type != 0;

  // The scale grid, as codes.
  std::vector<uint32_t> scale_codes(static_cast<size_t>(batch * grid_r * grid_k)), zero_codes = scale_codes;
  for (size_t i = 0; i < scale_codes.size(); ++i) {
    const int exponent =
        case_.exact ? static_cast<int>(random_() % 3) - 1 : static_cast<int>(random_() % 5) - 2;
    const float power =
        std::ldexp(case_.exact ? 1.0f : 1.0f + static_cast<float>(random_() % 8) / 8, exponent);
    uint32_t f32;
    std::memcpy(&f32, &power, 4);
    const auto mantissa = f32 >> 20 & 7;
    scale_codes[i] = o.scale_type == SG_F32    ? f32
                     : o.scale_type == SG_BF16 ? f32 >> 16
                     : o.scale_type == SG_F16  ? (static_cast<uint32_t>(15 + exponent) << 10 | mantissa << 7)
                     : o.scale_type == SG_E8M0 ? static_cast<uint32_t>(127 + exponent)
                                               : (static_cast<uint32_t>(7 + exponent) << 3 | mantissa);
    zero_codes[i] = static_cast<uint32_t>(random_()) & (case_.exact              ? 3u
                                                        : o.zero_type == SG_INT8 ? 0x83u
                                                                                 : 15u);
  }

  // Values and raw or packed codes.
  const int64_t elements = bits == 4 ? k / 2 : k;
  const int bytes = bits == 4 ? 1 : bits / 8;
  const int64_t width = sg_panel_columns(o.packed);
  const int64_t columns = (rows + width - 1) / width * width;
  int64_t stride_r = 0, stride_k = 0, stride_batch = 0;
  if (o.packed) {
    stride_batch = columns / width * sg_panel_bytes(o.packed, bits, k) / bytes;
  } else if (o.order == Order::kKContiguous) {
    stride_r = elements, stride_k = 1, stride_batch = rows * elements;
  } else if (o.order == Order::kRowContiguous) {
    stride_r = 1, stride_k = rows, stride_batch = rows * elements;
  } else {
    stride_k = 2, stride_r = 2 * elements + 3, stride_batch = rows * stride_r + 5;
  }
  const int64_t last = (rows - 1) * stride_r + (elements - 1) * stride_k + 1;
  x.codes = GuardedBuffer(
      static_cast<size_t>((o.packed ? batch * stride_batch : (batch - 1) * stride_batch + last) * bytes),
      o.packed ? 64 : 1);
  if (o.packed) {
    std::memset(x.codes.data(), 0, x.codes.size());
  }
  x.values.resize(static_cast<size_t>(batch * rows * k));
  x.magnitude = x.values;
  const double global = o.global != 0 ? static_cast<double>(o.global) : 1.0;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < k; ++i) {
        const uint32_t code = source ? source(b, r, i) : random_code(o.type);
        const auto cell = static_cast<size_t>((b * grid_r + r / block_r) * grid_k + i / block_k);
        const double scale = has_scale ? decode_code(o.scale_type, scale_codes[cell]) : 1.0;
        const double zero = has_zero ? decode_code(o.zero_type, zero_codes[cell]) : 0.0;
        const double v = decode_code(o.type, code);
        x.values[static_cast<size_t>((b * rows + r) * k + i)] = (v - zero) * scale * global;
        x.magnitude[static_cast<size_t>((b * rows + r) * k + i)] =
            (std::abs(v) + std::abs(zero)) * scale * std::abs(global);
        uint8_t* base = x.codes.data() + b * stride_batch * bytes;
        if (o.packed) {
          int high = 0;
          uint8_t* p = base + sg_panel_offset(o.packed, bits, k, r, i, &high);
          if (bits == 4) {
            *p = static_cast<uint8_t>(*p | code << (high ? 4 : 0));
          } else {
            put(p, 0, bytes, code);
          }
        } else if (bits == 4) {
          uint8_t* p = base + r * stride_r + i / 2 * stride_k;
          *p = static_cast<uint8_t>(i % 2 ? (*p & 15) | code << 4 : code & 15);
        } else {
          put(base, r * stride_r + i * stride_k, bytes, code);
        }
      }
    }
  }

  // Scales and zeros: packed [panel][k block][column], else a padded grid with gaps.
  const int scale_bytes = has_scale ? bits_of(o.scale_type) / 8 : 1;
  const int64_t s_r = o.packed ? 0 : grid_k + 1, s_k = o.packed ? 0 : 1;
  const int64_t s_batch = o.packed ? columns * grid_k : grid_r * s_r;
  const int64_t count = o.packed ? batch * s_batch : (batch - 1) * s_batch + (grid_r - 1) * s_r + grid_k;
  if (has_scale) {
    x.scales = GuardedBuffer(static_cast<size_t>(count * scale_bytes), o.packed ? 64 : 1);
  }
  if (has_zero) {
    x.zeros = GuardedBuffer(static_cast<size_t>(count), o.packed ? 64 : 1);
  }
  const int zero_type = o.packed && has_zero ? static_cast<int>(SG_INT8) : o.zero_type;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t r = 0; r < (o.packed ? columns : grid_r); ++r) {
      for (int64_t i = 0; i < grid_k; ++i) {
        const int64_t row = o.packed ? std::min(r, rows - 1) / block_r : r;
        const auto cell = static_cast<size_t>((b * grid_r + row) * grid_k + i);
        const int64_t at =
            b * s_batch + (o.packed ? (r / width * grid_k + i) * width + r % width : r * s_r + i);
        if (has_scale) {
          put(x.scales.data(), at, scale_bytes, scale_codes[cell]);
        }
        if (has_zero) {
          const auto widened =
              static_cast<uint32_t>(static_cast<int>(decode_code(o.zero_type, zero_codes[cell])));
          put(x.zeros.data(), at, 1, o.packed ? widened : zero_codes[cell]);
        }
      }
    }
  }
  if (o.global != 0) {
    x.global = GuardedBuffer(4);
    std::memcpy(x.global.data(), &o.global, 4);
  }
  out.data = x.codes.data();
  out.stride_r = stride_r, out.stride_k = stride_k, out.stride_batch = stride_batch;
  out.scale = {has_scale ? x.scales.data() : nullptr, s_r, s_k, s_batch, block_r, block_k, o.scale_type};
  out.zero = {has_zero ? x.zeros.data() : nullptr, s_r, s_k, s_batch, block_r, block_k, zero_type};
  out.global_scale = o.global != 0 ? reinterpret_cast<const float*>(x.global.data()) : nullptr;
  out.dtype = o.type;
  out.packed = o.packed;
}

void Problem::build_epilogue() {
  const Case& c = case_;
  SgGemm& g = gemm_;
  const auto fill = [&](GuardedBuffer& buffer, std::vector<double>& values, int type, int64_t count) {
    const int bytes = bits_of(type) / 8;
    buffer = GuardedBuffer(static_cast<size_t>(count * bytes));
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t code = random_code(type);
      put(buffer.data(), i, bytes, code);
      values.push_back(decode_code(type, code));
    }
  };
  if (c.c_type) {
    fill(c_, c_values_, c.c_type, c.batch * c.m * c.n);
    g.c = c_.data(), g.c_dtype = c.c_type;
    g.c_stride_m = c.n, g.c_stride_n = 1, g.c_stride_batch = c.m * c.n;
    if (c.beta == 0) {
      std::memset(c_.data(), 0xff, c_.size());  // NaN in every type: must not be read
    }
  }
  if (c.bias_type) {
    fill(bias_, bias_values_, c.bias_type, c.n);
    g.bias = bias_.data(), g.bias_dtype = c.bias_type;
  }
  const int d_bytes = bits_of(c.d_type) / 8;
  if (c.d_order == Order::kKContiguous) {
    g.d_stride_m = c.n + 3, g.d_stride_n = 1, g.d_stride_batch = c.m * (c.n + 3);
  } else if (c.d_order == Order::kRowContiguous) {
    g.d_stride_m = 1, g.d_stride_n = c.m, g.d_stride_batch = c.m * c.n;
  } else {
    g.d_stride_n = 2, g.d_stride_m = 2 * c.n + 1, g.d_stride_batch = c.m * (2 * c.n + 1);
  }
  const int64_t last =
      (c.batch - 1) * g.d_stride_batch + (c.m - 1) * g.d_stride_m + (c.n - 1) * g.d_stride_n + 1;
  d_ = GuardedBuffer(static_cast<size_t>(last * d_bytes));
  g.d = d_.data(), g.d_dtype = c.d_type;
  g.batch_invariant = c.batch_invariant ? 1 : 0;
  g.activation = c.activation, g.alpha = c.alpha, g.beta = c.beta;
  g.clamp_min = c.clamp_min, g.clamp_max = c.clamp_max;
}

Problem::Problem(const Case& c, CodeSource a_codes, CodeSource b_codes) : case_(c), random_(c.seed) {
  gemm_.m = c.m, gemm_.n = c.n, gemm_.k = c.k, gemm_.batch = c.batch;
  build(a_, c.a, c.m, a_codes, gemm_.a);
  build(b_, c.b, c.n, b_codes, gemm_.b);
  build_epilogue();
}

void Problem::run(const SgCpuKernel& kernel, bool reversed) {
  GuardedBuffer workspace(kernel.workspace_bytes(&gemm_), 64), scratch(kernel.scratch_bytes(&gemm_), 64);
  gemm_.workspace = workspace.data();
  std::memset(d_.data(), kPoison, d_.size());
  const int64_t prepare = kernel.prepare_units(&gemm_), compute = kernel.compute_units(&gemm_);
  if (!reversed) {
    kernel.prepare(&gemm_, 0, prepare, scratch.data());
    kernel.compute(&gemm_, 0, compute, scratch.data());
    return;
  }
  for (int64_t i = prepare; i-- > 0;) {
    std::memset(scratch.data(), kPoison, scratch.size());
    kernel.prepare(&gemm_, i, i + 1, scratch.data());
  }
  for (int64_t i = compute; i-- > 0;) {
    std::memset(scratch.data(), kPoison, scratch.size());
    kernel.compute(&gemm_, i, i + 1, scratch.data());
  }
}

double Problem::d(int64_t batch, int64_t m, int64_t n) const {
  const int bytes = bits_of(case_.d_type) / 8;
  uint32_t code = 0;
  const int64_t at = batch * gemm_.d_stride_batch + m * gemm_.d_stride_m + n * gemm_.d_stride_n;
  std::memcpy(&code, d_.data() + at * bytes, static_cast<size_t>(bytes));
  return decode_code(case_.d_type, code);
}

std::vector<uint8_t> Problem::d_bytes() const {
  return {d_.data(), d_.data() + d_.size()};
}

bool Problem::gaps_untouched() const {
  const int bytes = bits_of(case_.d_type) / 8;
  std::vector<uint8_t> mine(d_.size());
  for (int64_t b = 0; b < case_.batch; ++b) {
    for (int64_t m = 0; m < case_.m; ++m) {
      for (int64_t n = 0; n < case_.n; ++n) {
        const int64_t at = b * gemm_.d_stride_batch + m * gemm_.d_stride_m + n * gemm_.d_stride_n;
        std::memset(mine.data() + at * bytes, 1, static_cast<size_t>(bytes));
      }
    }
  }
  for (size_t i = 0; i < mine.size(); ++i) {
    if (!mine[i] && d_.data()[i] != kPoison) {
      return false;
    }
  }
  return true;
}

double Problem::activate(double x) const {
  switch (case_.activation) {
    case SG_ACT_RELU:
      return x < 0 ? 0 : x;
    case SG_ACT_GELU_TANH:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case SG_ACT_GELU_ERF:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case SG_ACT_SILU:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

Problem::Expected Problem::expected(int64_t batch, int64_t m, int64_t n) const {
  const Case& c = case_;
  constexpr double kUnit = 0x1p-24;
  double sum = 0, magnitude = 0;
  for (int64_t i = 0; i < c.k; ++i) {
    const auto ia = static_cast<size_t>((batch * c.m + m) * c.k + i);
    const auto ib = static_cast<size_t>((batch * c.n + n) * c.k + i);
    sum += a_.values[ia] * b_.values[ib];
    magnitude += a_.magnitude[ia] * b_.magnitude[ib];
  }
  // K FMAs, and up to three roundings of each value on both sides; then three of the epilogue.
  double bound = c.exact ? 0 : (static_cast<double>(c.k) + 6) * kUnit * magnitude;
  double t = c.alpha * sum;
  double size = std::abs(t);
  bound *= std::abs(c.alpha);
  if (c.c_type && c.beta != 0) {
    const double x = c.beta * c_values_[static_cast<size_t>((batch * c.m + m) * c.n + n)];
    t += x, size += std::abs(x);
  }
  if (c.bias_type) {
    t += bias_values_[static_cast<size_t>(n)], size += std::abs(bias_values_[static_cast<size_t>(n)]);
  }
  bound += c.exact ? 0 : 4 * kUnit * size;
  const double y = activate(t);
  if (c.activation != SG_ACT_NONE) {
    // No activation is steeper than 1.13; six units of its own result.
    bound = 1.13 * bound + (c.activation == SG_ACT_RELU && c.exact ? 0 : 6 * kUnit * std::abs(y) + 0x1p-126);
  }
  const double low = static_cast<double>(c.clamp_min), high = static_cast<double>(c.clamp_max);
  return {y < low ? low : y > high ? high : y, bound};
}

void check_all(const Problem& p) {
  const Case& c = p.definition();
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t m = 0; m < c.m; ++m) {
      for (int64_t n = 0; n < c.n; ++n) {
        const Problem::Expected want = p.expected(b, m, n);
        const double low = round_to(c.d_type, want.value - want.bound);
        const double high = round_to(c.d_type, want.value + want.bound);
        const double got = p.d(b, m, n);
        ASSERT_TRUE(got >= low && got <= high)
            << "D[" << b << "," << m << "," << n << "] = " << got << ", expected " << want.value << " +- "
            << want.bound << "; " << c.describe();
      }
    }
  }
  ASSERT_TRUE(p.gaps_untouched()) << c.describe();
}

}  // namespace scalegemm::kernels
