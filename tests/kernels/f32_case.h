// One problem for a CPU kernel, built in guarded memory, with a double reference that shares no code with the
// kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cpu/abi.h"

namespace scalegemm::kernels {

// Memory that ends at an inaccessible page: a read or write one byte past the end faults.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes = 0, size_t alignment = 1);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* map_ = nullptr;
  size_t map_bytes_ = 0;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// The value of a code, from the format's definition; NaN and infinity as such.
double decode_code(int type, uint32_t code);
// The value of `type` nearest to x (ties to even): what D must hold. 8-bit floats saturate.
double round_to(int type, double x);
int bits_of(int type);

enum class Order { kKContiguous, kRowContiguous, kStrided };

struct OperandCase {
  int type = SG_F32;
  Order order = Order::kKContiguous;
  int packed = 0;      // SgPanelLayout (B only)
  int scale_type = 0;  // 0: none
  int64_t block_r = 1, block_k = 1 << 30;
  int zero_type = 0;  // 0: none
  float global = 0;   // 0: none
};

struct Case {
  int64_t m = 1, n = 1, k = 1, batch = 1;
  OperandCase a, b;
  int d_type = SG_F32;
  Order d_order = Order::kKContiguous;  // kKContiguous: unit column stride
  int c_type = 0, bias_type = 0;
  float alpha = 1, beta = 0;
  int activation = SG_ACT_NONE;
  float clamp_min = -__builtin_inff(), clamp_max = __builtin_inff();
  bool batch_invariant = false;
  bool exact = false;  // codes and scales whose sums are exact in f32
  uint64_t seed = 1;

  std::string describe() const;
};

// Chooses the code of operand element (r, k).
using CodeSource = std::function<uint32_t(int64_t batch, int64_t r, int64_t k)>;

class Problem {
 public:
  // Random codes unless a source is given.
  explicit Problem(const Case& c, CodeSource a_codes = {}, CodeSource b_codes = {});

  // Poisons D, workspace and scratch and runs; `reversed`: every unit alone, last first, scratch poisoned in
  // between.
  void run(const SgCpuKernel& kernel, bool reversed = false);

  double d(int64_t batch, int64_t m, int64_t n) const;
  // Every byte of D, gaps included.
  std::vector<uint8_t> d_bytes() const;
  // Does a byte of D's buffer that belongs to no element still hold the poison?
  bool gaps_untouched() const;

  // The result before rounding to D, and the bound of its error.
  struct Expected {
    double value, bound;
  };
  Expected expected(int64_t batch, int64_t m, int64_t n) const;

  const Case& definition() const { return case_; }

 private:
  struct Operand {
    OperandCase definition;
    int64_t rows = 0;
    GuardedBuffer codes, scales, zeros, global;
    std::vector<double> values;     // [batch][row][k], dequantised
    std::vector<double> magnitude;  // the size of the largest intermediate of that value
  };
  void build(Operand& x, const OperandCase& definition, int64_t rows, const CodeSource& source,
             SgOperand& out);
  void build_epilogue();
  uint32_t random_code(int type);
  double activate(double x) const;

  Case case_;
  std::mt19937_64 random_;
  Operand a_, b_;
  GuardedBuffer c_, bias_, d_;
  std::vector<double> c_values_, bias_values_;
  SgGemm gemm_ = {};
};

// Fails the test unless every element of D lies between the roundings of the ends of its bound (so NaN fails)
// and nothing else was written.
void check_all(const Problem& p);

}  // namespace scalegemm::kernels
