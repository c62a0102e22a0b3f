// The oracle: what a scaled GEMM must give, in double, and how far a kernel may be off, element by element.
//
//   D[m,n] = convert(clamp(act(alpha * sum_k a(m,k) * b(n,k) + beta * C[m,n] + bias[n])))
//
// A kernel is judged by intervals. With v the exact value before the activation and e the most that f32
// arithmetic in any order may be off (docs/numerics.md derives it), D must lie between convert(act(v) - e')
// and convert(act(v) + e'), ends included; e' = e for no activation and ReLU (monotone: its ends are mapped),
// Lipschitz constant times e plus 16 units of f32 rounding of |v| for GELU and SiLU. Rounding to D's type is
// monotone, so that this is the same as half a unit of D more, but exact at saturation, at overflow to
// infinity and among subnormals.
//
// Conversion to D: f32, f16, bf16 are IEEE (overflow is infinity); e4m3 and e5m2 saturate, infinities too;
// NaN stays NaN. int32 is the exact integer product. NaN passes through every activation and through the
// clamp. C is not read when beta is 0.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/status.h"
#include "ref/operand.h"
#include "spec/problem.h"

namespace scalegemm::ref {

// A strided matrix of the type that the problem names; strides count elements.
struct MatrixData {
  const void* data = nullptr;
  int64_t stride_m = 0;
  int64_t stride_n = 0;
};

// One batch element of a problem; of a batched problem the caller moves the pointers.
struct GemmData {
  OperandData a = {};
  OperandData b = {};
  MatrixData c = {};           // read where the problem has C and beta is not 0
  const void* bias = nullptr;  // N contiguous elements, read where the problem has a bias
  float alpha = 1;
  float beta = 0;
};

// The part of D that is computed: all combinations of these rows and columns.
struct Sample {
  std::vector<int64_t> rows = {};
  std::vector<int64_t> cols = {};
};

Sample whole(int64_t m, int64_t n);

// At most `rows` x `cols` of them in increasing order: the first and last two, the rest evenly random. The
// same seed gives the same sample.
struct SampleSize {
  int64_t rows = 16;
  int64_t cols = 64;
};
Sample choose_sample(int64_t m, int64_t n, SampleSize size, uint64_t seed);

// How the device adds up products before they reach f32 (accuracy `fast`: along all of K; `promoted`: at most
// 128). 2^-24 is f32 itself, as on every CPU.
struct Accumulator {
  double unit_roundoff = 0x1p-24;
  // Addends are aligned by the exponents that their factors' codes have, and that of a zero or a subnormal is
  // the least normal one: a large value times zero still pushes small products out.
  bool aligns_by_exponent = false;
};

enum class Rule : uint8_t {
  kInterval,  // low <= D <= high
  kNan,       // D must be NaN
  kAny,       // not judged: f32 arithmetic may overflow on the way, or the order of operations decides
};

struct Element {
  double exact = 0;  // act and clamp applied, before rounding to D's type
  double low = 0;    // values of D's type
  double high = 0;
  Rule rule = Rule::kInterval;
};

struct Reference {
  Sample sample = {};
  spec::DType d = spec::DType::kF32;
  std::vector<Element> elements = {};  // [row of sample][column of sample]
};

// Fails for a problem that spec::validate refuses, null pointers that would be read, and rows or columns
// outside D. Time: about rows * cols * K nanoseconds, and decoding the rows and columns once per 64 rows of
// the sample.
Result<Reference> reference(const spec::Problem& problem, const GemmData& data, const Sample& sample,
                            const Accumulator& accumulator);
Result<Reference> reference(const spec::Problem& problem, const GemmData& data, const Sample& sample);

// What is demanded of D: to lie in the interval, or to be the correctly rounded exact value (for operands
// chosen so that all sums are exact; -0 equals +0).
enum class Demand : uint8_t { kBound, kExact };

struct WrongElement {
  int64_t m = 0;
  int64_t n = 0;
  double expected = 0;  // correctly rounded
  double got = 0;
  double bound = 0;  // of |got - exact value|; 0 for kExact
};

struct Comparison {
  int64_t compared = 0;
  int64_t wrong = 0;
  int64_t unjudged = 0;                              // Rule::kAny; among `compared`
  double worst_ratio = 0;                            // largest |got - exact| / bound; above 1 means wrong
  std::optional<WrongElement> first = std::nullopt;  // in row-major order

  bool ok() const { return wrong == 0; }
};

// `d` is the whole of D (elements outside the sample are not read).
Comparison compare(const Reference& reference, const MatrixData& d, Demand demand);

// The value of D's type that is nearest to `value`, by the rules above.
double round_output(spec::DType type, double value);

}  // namespace scalegemm::ref
