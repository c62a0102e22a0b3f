// Problem: what is asked, independent of any kernel or device.
//
//   D[m,n] = convert(clamp(act(alpha * sum_k a(m,k) * b(n,k) + beta * C[m,n] + bias[n])))
//   x(r,k) = (code(r,k) - zero(r/br, k/bk)) * scale(r/br, k/bk) * global
//
// A is seen as M x K and B as N x K. Everything after the products is fp32; D is rounded once.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/status.h"
#include "num/dtype.h"

namespace scalegemm::spec {

using num::DType;

// The order of an operand's elements, as the field writes it for the mathematical A (M x K) and B (K x N):
// kRow: the last index is contiguous. So A row = K contiguous, B row = N contiguous, B column = K contiguous.
enum class Layout : uint8_t { kRow = 0, kCol = 1 };

enum class Activation : uint8_t { kNone = 0, kRelu = 1, kGeluTanh = 2, kGeluErf = 3, kSilu = 4 };

// How sums over K are formed. kFast: the device's matrix accumulator end to end. kPromoted: at least every
// 128 products along K are added up in fp32. kExact: fp32 sums per scale block. Modes are lower bounds on
// care: a kernel may do better than asked.
enum class Accuracy : uint8_t { kPromoted = 0, kFast = 1, kExact = 2 };

// How B is given. Values of the packed layouts equal SgPanelLayout (kernels/common/panels.h).
enum class Packing : int8_t {
  kChosen = -1,  // packed, in the layout that dispatch prefers for this problem whatever M is
  kRaw = 0,
  kPanelK1x32 = 1,
  kPanelK4x16 = 2,
};

inline constexpr int64_t kAll = 0;  // a block that spans the whole extent

// One block-scale (and zero point) grid of an operand with R rows: scale (i, j) serves
// rows [i*block_rows, ...) and k in [j*block_k, ...). The grid is ceil(R/block_rows) x ceil(K/block_k); a
// last partial block is legal.
struct ScaleSpec {
  DType type = DType::kF32;                       // f32, f16, bf16, e8m0, e4m3
  int64_t block_rows = 1;                         // kAll, 1, or a block of rows (B: of columns n)
  int64_t block_k = kAll;                         // kAll, 16, 32, 64, 128, 256, ...
  std::optional<DType> zero_type = std::nullopt;  // int8, int4 or uint4 zero points on the same grid
  bool global = false;                            // one more f32 factor for the whole operand

  bool operator==(const ScaleSpec&) const = default;
};

struct OperandSpec {
  DType type = DType::kF32;
  Layout layout = Layout::kRow;
  std::optional<ScaleSpec> scale;

  bool operator==(const OperandSpec&) const = default;
};

struct EpilogueSpec {
  std::optional<DType> bias;  // f32, bf16, f16: one value a column
  std::optional<DType> c;     // f32, bf16, f16: the matrix added with factor beta
  Activation activation = Activation::kNone;
  float clamp_min = -std::numeric_limits<float>::infinity();
  float clamp_max = std::numeric_limits<float>::infinity();

  bool operator==(const EpilogueSpec&) const = default;
};

struct Problem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  OperandSpec a;
  OperandSpec b{DType::kF32, Layout::kCol, std::nullopt};
  DType d = DType::kF32;
  Packing b_packing = Packing::kRaw;
  EpilogueSpec epilogue;
  Accuracy accuracy = Accuracy::kPromoted;
  bool batch_invariant = false;  // a row of D has the same bits whatever M is

  bool operator==(const Problem&) const = default;
};

// Is the problem well formed (types, blocks, sizes, overflow)? Says nothing about kernels or devices.
Status validate(const Problem& problem);

// Rows and columns of the scale grid of an operand with `rows` rows.
struct Grid {
  int64_t rows = 1;
  int64_t cols = 1;
};
Grid scale_grid(const ScaleSpec& scale, int64_t rows, int64_t k);

}  // namespace scalegemm::spec
