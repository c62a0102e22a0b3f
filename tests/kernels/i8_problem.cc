#include "kernels/i8_problem.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

namespace scalegemm::kernels {
namespace {

using num::DType;

int bits_of(int type) {
  return num::info(static_cast<DType>(type)).bits;
}

std::string_view name_of(int type) {
  return type == 0 ? "none" : num::name(static_cast<DType>(type));
}

int zero_point(int type, std::mt19937& rng) {
  const int raw = static_cast<int>(rng() % 16);
  return type == SG_UINT4 ? raw : type == SG_INT4 ? raw - 8 : static_cast<int>(rng() % 256) - 128;
}

// Small codes in exact cases, so that sums of all blocks fit in 24 bits.
uint8_t random_code(int type, bool exact, std::mt19937& rng) {
  if (bits_of(type) == 4) {
    return static_cast<uint8_t>(rng() % 16);
  }
  return static_cast<uint8_t>(exact ? static_cast<int>(rng() % 16) - 8 : static_cast<int>(rng() % 256));
}

// Exact cases: neighbours in both directions differ, so that a permuted or skipped scale shows.
uint32_t scale_code(int type, bool exact, int64_t r, int64_t j, std::mt19937& rng) {
  const int e = static_cast<int>((r * 3 + j * 2 + r / 5 + j / 3) % 5) - 2;
  const float value =
      exact ? std::ldexp(1.0f, e)
            : std::ldexp(1.0f + static_cast<float>(rng() % 1000) / 1000.0f, static_cast<int>(rng() % 9) - 4);
  return num::encode(static_cast<DType>(type), value, num::Overflow::kSaturate);
}

void fill(Operand& x, int64_t rows, int64_t k, int64_t batch, int type, const Grid& grid, bool exact,
          std::mt19937& rng) {
  x.rows = rows;
  x.k = k;
  x.batch = batch;
  x.type = type;
  x.grid = grid;
  x.block_r = grid.block_r == 0 ? rows : grid.block_r;
  x.block_k = grid.block_k == 0 ? k : grid.block_k;
  x.grid_rows = (rows + x.block_r - 1) / x.block_r;
  x.grid_cols = (k + x.block_k - 1) / x.block_k;
  x.codes.resize(static_cast<size_t>(batch * rows * k));
  for (uint8_t& c : x.codes) {
    c = random_code(type, exact, rng);
  }
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t r = 0; r < x.grid_rows; ++r) {
      for (int64_t j = 0; j < x.grid_cols; ++j) {
        x.scales.push_back(grid.type ? scale_code(grid.type, exact, r + b, j, rng) : 0);
        x.zeros.push_back(grid.zero_type ? zero_point(grid.zero_type, rng) : 0);
        if (exact && grid.zero_type == SG_INT8) {
          x.zeros.back() /= 16;
        }
      }
    }
  }
}

// Raw storage with the strides of `order`; what lies between elements is poison.
void store_codes(Operand& x, Order order, bool at_end) {
  const int64_t units = bits_of(x.type) == 4 ? x.k / 2 : x.k;
  int64_t sr = units, sk = 1;
  if (order == Order::kRowContiguous) {
    sr = 1;
    sk = x.rows;
  } else if (order == Order::kStrided) {
    sr = 3;
    sk = 3 * x.rows + 2;
  }
  const int64_t sb = (x.rows - 1) * sr + (units - 1) * sk + 1;
  x.code_bytes = Guarded(static_cast<size_t>(sb * x.batch), at_end);
  x.code_bytes.fill(0xEE);
  for (int64_t b = 0; b < x.batch; ++b) {
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t u = 0; u < units; ++u) {
        const uint8_t* c = &x.codes[static_cast<size_t>((b * x.rows + r) * x.k)];
        x.code_bytes.data()[b * sb + r * sr + u * sk] =
            bits_of(x.type) == 4 ? static_cast<uint8_t>(c[2 * u] | c[2 * u + 1] << 4) : c[u];
      }
    }
  }
  x.view.data = x.code_bytes.data();
  x.view.stride_r = sr;
  x.view.stride_k = sk;
  x.view.stride_batch = sb;
  x.view.dtype = x.type;
}

void store_grids(Operand& x, bool at_end) {
  const int64_t count = x.grid_rows * x.grid_cols;
  const auto view = [&](const Guarded& bytes, int type) {
    return SgScale{.data = bytes.data(),
                   .stride_r = 1,
                   .stride_k = x.grid_rows,
                   .stride_batch = count,
                   .block_r = x.block_r,
                   .block_k = x.block_k,
                   .dtype = type};
  };
  const auto store = [&](Guarded& bytes, int64_t size, auto value_of) {
    bytes = Guarded(static_cast<size_t>(count * x.batch * size), at_end);
    for (int64_t b = 0; b < x.batch; ++b) {
      for (int64_t r = 0; r < x.grid_rows; ++r) {
        for (int64_t j = 0; j < x.grid_cols; ++j) {
          const uint32_t v = value_of(static_cast<size_t>((b * x.grid_rows + r) * x.grid_cols + j));
          std::memcpy(bytes.data() + (b * count + j * x.grid_rows + r) * size, &v, static_cast<size_t>(size));
        }
      }
    }
  };
  if (x.grid.type) {
    store(x.scale_bytes, bits_of(x.grid.type) / 8, [&](size_t i) { return x.scales[i]; });
    x.view.scale = view(x.scale_bytes, x.grid.type);
  }
  if (x.grid.zero_type) {
    const int mask = bits_of(x.grid.zero_type) == 4 ? 15 : 255;
    store(x.zero_bytes, 1, [&](size_t i) { return static_cast<uint32_t>(x.zeros[i] & mask); });
    x.view.zero = view(x.zero_bytes, x.grid.zero_type);
  }
}

// Replaces the raw storage of B by its packed form.
void pack_operand(Operand& x, bool at_end) {
  layout::PackedShape shape{
      .layout = SG_PANEL_K4X16, .type = static_cast<DType>(x.type), .n = x.rows, .k = x.k, .batch = x.batch};
  if (x.grid.type) {
    shape.scale = spec::ScaleSpec{
        .type = static_cast<DType>(x.grid.type), .block_rows = x.grid.block_r, .block_k = x.grid.block_k};
    if (x.grid.zero_type) {
      shape.scale->zero_type = static_cast<DType>(x.grid.zero_type);
    }
  }
  const layout::PackedHeader h = *layout::describe(shape);
  Guarded payload(h.payload_bytes, at_end);
  const layout::RawWeights raw{
      .data = x.view.data,
      .stride_n = x.view.stride_r,
      .stride_k = x.view.stride_k,
      .stride_batch = x.view.stride_batch,
      .scale = {x.view.scale.data, x.view.scale.stride_r, x.view.scale.stride_k, x.view.scale.stride_batch},
      .zero = {x.view.zero.data, x.view.zero.stride_r, x.view.zero.stride_k, x.view.zero.stride_batch}};
  const std::span<std::byte> span(reinterpret_cast<std::byte*>(payload.data()), payload.size());
  const Status status = layout::pack(h, raw, span, layout::all_panels(h));
  if (!status.ok()) {
    std::abort();
  }
  x.code_bytes = std::move(payload);
  const uint8_t* base = x.code_bytes.data();
  const auto per_batch = [&](uint64_t bytes) { return static_cast<int64_t>(bytes) / x.batch; };
  x.view.data = base + h.codes_offset;
  x.view.stride_batch = per_batch(h.codes_bytes);
  x.view.packed = h.layout;
  x.view.scale.block_r = x.view.zero.block_r = 1;
  if (x.grid.type) {
    x.view.scale.data = base + h.scales_offset;
    x.view.scale.stride_batch = per_batch(h.scales_bytes) / (bits_of(x.grid.type) / 8);
  }
  if (x.grid.zero_type) {
    x.view.zero.data = base + h.zeros_offset;
    x.view.zero.stride_batch = per_batch(h.zeros_bytes);
    x.view.zero.dtype = SG_INT8;
  }
}

std::vector<double> values_of(const Operand& x) {
  std::vector<double> out;
  out.reserve(x.codes.size());
  for (int64_t b = 0; b < x.batch; ++b) {
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t k = 0; k < x.k; ++k) {
        out.push_back(x.value(b, r, k));
      }
    }
  }
  return out;
}

}  // namespace

std::string Case::text() const {
  const auto order = [](Order o) {
    return std::array{"k", "r", "strided", "packed"}[static_cast<size_t>(o)];
  };
  std::ostringstream out;
  const auto operand = [&](const char* name, int type, Order o, const Grid& g) {
    out << name << " " << name_of(type) << " " << order(o) << " scale " << name_of(g.type) << " " << g.block_r
        << "x" << g.block_k << " zero " << name_of(g.zero_type) << ", ";
  };
  operand("A", a_type, a_order, a);
  operand("B", b_type, b_order, b);
  out << "m " << m << " n " << n << " k " << k << " batch " << batch << " D " << name_of(d_type);
  return out.str();
}

Problem::Problem(const Case& c) : case_(c) {
  std::mt19937 rng(c.seed);
  const bool at_end = c.seed % 4 != 0;
  fill(a_, c.m, c.k, c.batch, c.a_type, c.a, c.exact, rng);
  fill(b_, c.n, c.k, c.batch, c.b_type, c.b, c.exact, rng);
  a_.global = c.globals ? 0.5f : 1.0f;
  b_.global = c.globals ? 4.0f : 1.0f;
  a_values_ = values_of(a_);
  b_values_ = values_of(b_);
  store_codes(a_, c.a_order, at_end);
  store_codes(b_, c.b_order == Order::kPacked ? Order::kKContiguous : c.b_order, at_end);
  store_grids(a_, at_end);
  store_grids(b_, at_end);
  if (c.b_order == Order::kPacked) {
    pack_operand(b_, at_end);
  }
  a_.view.global_scale = c.globals ? &a_.global : nullptr;
  b_.view.global_scale = c.globals ? &b_.global : nullptr;

  gemm_.m = c.m;
  gemm_.n = c.n;
  gemm_.k = c.k;
  gemm_.batch = c.batch;
  gemm_.a = a_.view;
  gemm_.b = b_.view;
  gemm_.d_dtype = c.d_type;
  gemm_.d_stride_n = c.d_strided ? 2 : 1;
  gemm_.d_stride_m = c.d_strided ? 2 * c.n + 3 : c.n;
  gemm_.d_stride_batch = c.m * gemm_.d_stride_m;
  gemm_.alpha = 1.0f;
  gemm_.clamp_min = -INFINITY;
  gemm_.clamp_max = INFINITY;
  const int64_t elements = offset(c.batch - 1, c.m - 1, c.n - 1) + 1;
  d_ = Guarded(static_cast<size_t>(elements * bits_of(c.d_type) / 8), at_end);
  gemm_.d = d_.data();
}

const std::vector<uint8_t>& Problem::run(const SgCpuKernel& kernel, int64_t units_per_call) {
  workspace_ = Guarded((kernel.workspace_bytes(&gemm_) + 63) / 64 * 64);
  scratch_ = Guarded((kernel.scratch_bytes(&gemm_) + 63) / 64 * 64);
  gemm_.workspace = workspace_.data();
  workspace_.fill(0xFF);
  d_.fill(0xFF);
  const auto all = [&](int64_t units, auto phase) {
    for (int64_t end = units; end > 0; end -= units_per_call) {
      scratch_.fill(0xFF);
      phase(&gemm_, std::max<int64_t>(0, end - units_per_call), end, scratch_.data());
    }
  };
  all(kernel.prepare_units(&gemm_), kernel.prepare);
  all(kernel.compute_units(&gemm_), kernel.compute);
  bytes_.assign(d_.data(), d_.data() + d_.size());
  return bytes_;
}

double Problem::result(int64_t b, int64_t m, int64_t n) const {
  const int size = bits_of(case_.d_type) / 8;
  uint32_t code = 0;
  std::memcpy(&code, bytes_.data() + offset(b, m, n) * size, static_cast<size_t>(size));
  return num::decode_double(static_cast<DType>(case_.d_type), code);
}

void Problem::reference(int64_t b, int64_t m, int64_t n, double* sum, double* magnitude) const {
  *sum = 0;
  *magnitude = 0;
  for (int64_t k = 0; k < case_.k; ++k) {
    const double p = a_values_[static_cast<size_t>((b * case_.m + m) * case_.k + k)] *
                     b_values_[static_cast<size_t>((b * case_.n + n) * case_.k + k)];
    *sum += p;
    *magnitude += std::fabs(p);
  }
}

bool Problem::gaps_untouched() const {
  const int64_t size = bits_of(case_.d_type) / 8;
  std::vector<uint8_t> is_d(bytes_.size(), 0);
  for (int64_t b = 0; b < case_.batch; ++b) {
    for (int64_t m = 0; m < case_.m; ++m) {
      for (int64_t n = 0; n < case_.n; ++n) {
        std::fill_n(is_d.begin() + offset(b, m, n) * size, size, uint8_t{1});
      }
    }
  }
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (!is_d[i] && bytes_[i] != 0xFF) {
      return false;
    }
  }
  return true;
}

}  // namespace scalegemm::kernels
