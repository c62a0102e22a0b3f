// A problem of the int8-dot kernels with all its buffers (guard pages around each), an independent double
// precision reference, and a way to run it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cpu/abi.h"
#include "layout/pack.h"
#include "num/convert.h"

namespace scalegemm::kernels {

// Bytes between two inaccessible pages: flush with the second one, or with the first.
class Guarded {
 public:
  Guarded() = default;
  explicit Guarded(size_t bytes, bool at_end = true) : bytes_(bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t body = (bytes + page - 1) / page * page;
    total_ = body + 2 * page;
    void* map = mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map_ = std::unique_ptr<void, Unmap>(map, Unmap{total_});
    uint8_t* start = static_cast<uint8_t*>(map) + page;
    if (body != 0) {
      mprotect(start, body, PROT_READ | PROT_WRITE);
    }
    data_ = at_end ? start + body - bytes : start;
  }
  uint8_t* data() const { return data_; }
  size_t size() const { return bytes_; }
  void fill(uint8_t value) { std::memset(data_, value, bytes_); }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* p) const { munmap(p, bytes); }
  };
  size_t bytes_ = 0;
  size_t total_ = 0;
  std::unique_ptr<void, Unmap> map_{nullptr, Unmap{0}};
  uint8_t* data_ = nullptr;
};

enum class Order { kKContiguous, kRowContiguous, kStrided, kPacked };

struct Grid {
  int type = 0;  // SgDType, 0: no scales
  int64_t block_r = 1;
  int64_t block_k = 0;  // 0: all
  int zero_type = 0;
};

struct Case {
  int64_t m = 1, n = 1, k = 2, batch = 1;
  int a_type = SG_INT8, b_type = SG_INT8;
  Grid a = {}, b = {};
  Order a_order = Order::kKContiguous, b_order = Order::kPacked;
  int d_type = SG_F32;
  bool d_strided = false;
  bool globals = false;
  bool exact = true;  // power-of-two scales and small codes: every sum is exact in f32
  uint32_t seed = 1;

  std::string text() const;
};

// Codes, scales and zero points as numbers, and the same in memory.
struct Operand {
  int64_t rows = 0, k = 0, batch = 0;
  int type = 0;
  Grid grid;
  int64_t block_r = 1, block_k = 1, grid_rows = 1, grid_cols = 1;
  std::vector<uint8_t> codes;    // [batch][row][k]
  std::vector<uint32_t> scales;  // codes of the scale type, [batch][grid row][grid col]
  std::vector<int> zeros;
  float global = 1.0f;
  Guarded code_bytes, scale_bytes, zero_bytes;
  SgOperand view = {};

  double value(int64_t b, int64_t r, int64_t kk) const {
    const num::DType t = static_cast<num::DType>(type);
    const size_t at = static_cast<size_t>((b * grid_rows + r / block_r) * grid_cols + kk / block_k);
    const double zero = grid.zero_type ? zeros[at] : 0;
    const double scale = grid.type ? num::decode(static_cast<num::DType>(grid.type), scales[at]) : 1.0;
    return (num::decode(t, codes[static_cast<size_t>((b * rows + r) * k + kk)]) - zero) * scale * global;
  }
};

class Problem {
 public:
  explicit Problem(const Case& c);

  const Case& spec() const { return case_; }
  SgGemm& gemm() { return gemm_; }
  // Bytes of D of the last run.
  const std::vector<uint8_t>& run(const SgCpuKernel& kernel, int64_t units_per_call);
  // Element of the last result.
  double result(int64_t b, int64_t m, int64_t n) const;
  // sum a*b and sum |a*b|.
  void reference(int64_t b, int64_t m, int64_t n, double* sum, double* magnitude) const;
  // Did the run write exactly D, nothing between its rows and columns?
  bool gaps_untouched() const;

 private:
  int64_t offset(int64_t b, int64_t m, int64_t n) const {
    return b * gemm_.d_stride_batch + m * gemm_.d_stride_m + n * gemm_.d_stride_n;
  }

  Case case_;
  Operand a_, b_;
  std::vector<double> a_values_, b_values_;
  Guarded d_, workspace_, scratch_;
  std::vector<uint8_t> bytes_;
  SgGemm gemm_ = {};
};

}  // namespace scalegemm::kernels
