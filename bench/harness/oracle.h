// The bridge to the oracle (src/ref): what D must be, how far it may be off, and where it is wrong.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/instance.h"

namespace scalegemm::harness {

// How much of D is compared: every combination of so many rows and columns, of every batch index.
struct Probe {
  int64_t rows = 1;
  int64_t cols = 1;
  uint64_t seed = 0;
};

// All of D where batch * M * N * K is at most `most_products`; else the first and last rows and columns and
// random ones between, of about that many products.
Probe choose_probe(const scalegemm_problem& problem, int64_t most_products, uint64_t seed);

struct WrongElement {
  int64_t batch = 0;
  int64_t row = 0;
  int64_t col = 0;
  double expected = 0;
  double got = 0;
  double bound = 0;  // 0: bit equality was demanded
};

struct Verdict {
  std::optional<WrongElement> wrong;  // the first in row-major order
  double worst_ratio = 0;             // largest |got - expected| / bound
  int64_t compared = 0;
  int64_t unjudged = 0;  // of those compared: f32 may overflow on the way, so that nothing is demanded
};

// Compares `output` (contiguous, as Instance::output) with the oracle. An exact fill demands bit equality
// (+0 and -0 are equal), others |got - expected| <= bound; NaN where none is expected fails.
Verdict judge(const CaseData& data, const std::vector<uint8_t>& output, const Probe& probe,
              const Accumulation& accumulation = {});

// Of each compared element |got - exact| / sum over K of |a| * |b|, for a case without an epilogue. The rms
// is NaN where an element is NaN.
struct Errors {
  double max = 0;
  double rms = 0;
  int64_t elements = 0;
  // How many errors lie in [2^e, 2^(e + 1)), by e; those that are 0 (or no number) are in none.
  std::map<int, int64_t> histogram;
};
Errors errors_of(const CaseData& data, const std::vector<uint8_t>& output, const Probe& probe);

// The largest sum over K of |a| * |b| of any element of D, where a zero point counts as |code| + |zero|: what
// an exact fill keeps below 2^24 units.
double largest_magnitude_sum(const CaseData& data);

// An output element as a number; `index` counts elements.
double output_value(const std::vector<uint8_t>& output, int32_t dtype, int64_t index);

}  // namespace scalegemm::harness
