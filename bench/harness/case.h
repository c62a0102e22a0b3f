// One problem as tests, verify, bench, evaluate and the fuzzer name it, and the lists of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/buffer.h"
#include "scalegemm/scalegemm.h"

namespace scalegemm::harness {

// How operands are filled.
enum class Fill : uint8_t {
  kExact,      // small integers and distinct power-of-two scales: every sum is exact in f32, in any order
  kRandom,     // normal values through the quantiser
  kAdversary,  // as kRandom, with huge outliers, blocks of zeros and values far below the rest
  kExtreme,    // values within 1, scales of one operand at both ends of their type, tiny unscaled activations
  kOnes,       // every value 1, through the quantiser: sums that only grow
};

// Leading strides of A, B, C and D.
enum class Strides : uint8_t {
  kDense,
  kPadded,   // room between rows, filled with poison
  kLines,    // rows a multiple of 16 bytes apart, with room: what TMA asks for
  kAligned,  // rows padded to 16 bytes and no further: as frameworks allocate for TMA
};

// Everything after the sum over K.
struct Epilogue {
  float alpha = 1;
  float beta = 0;
  int32_t c_dtype = SCALEGEMM_DTYPE_NONE;
  int32_t bias_dtype = SCALEGEMM_DTYPE_NONE;
  int32_t activation = SCALEGEMM_ACT_NONE;
  int32_t has_clamp = 0;
  float clamp_min = 0;
  float clamp_max = 0;
};

// How scale grids lie in memory.
enum class ScaleOrder : uint8_t {
  kDense,  // row-major, contiguous
  kLines,  // as GPU kernels like them: f32 1 x k scales contiguous along rows, others along K, every line
           // padded to four scales
};

struct Case {
  std::string name;  // of a suite's row; may be empty
  std::string scheme = "none";
  std::string layout = "rcr";
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  int64_t batch = 1;
  int32_t d_dtype = SCALEGEMM_F32;
  int32_t packing = SCALEGEMM_RAW;  // scalegemm_packing
  int32_t accuracy = SCALEGEMM_PROMOTED;
  Fill fill = Fill::kRandom;
  Strides strides = Strides::kDense;
  ScaleOrder scale_order = ScaleOrder::kDense;
  Place place = Place::kAligned;
  Epilogue epilogue;
  int64_t unique_rows =
      0;  // random fills: rows of each operand that are drawn, the others repeat them; 0: all
  uint64_t seed = 0;
};

// The problem of a case. Throws scalegemm::Error for an unknown scheme, a bad layout or size.
scalegemm_problem problem_of(const Case& c);

// One line that names every field that is not at its default, as options of `scalegemm verify`.
std::string to_string(const Case& c);

// Reads a suite: CSV with the header name,m,n,k; more columns and lines starting with # are ignored. Throws
// scalegemm::Error with file, line, what was needed and what was given.
std::vector<Case> read_suite(const std::string& path);

// M, N, K of a problem.
struct Size {
  int64_t m;
  int64_t n;
  int64_t k;
};

// Sizes around the tiles of the kernels (14 rows, 16 and 32 columns, blocks of 16, 32 and 128 along K) and
// primes. K is even.
std::vector<Size> edge_sizes();

// Names of every target there are tables of, present or not: "avx512", "sm_90a", ...
std::vector<std::string> known_targets();

// The schemes that the library lists, and those with the further type combinations that tests go through.
std::vector<std::string> known_schemes();
std::vector<std::string> every_scheme();

// "mxfp4,bquant:a=bf16,g=32,int8" is three schemes: a piece "key=value" belongs to the scheme before it.
std::vector<std::string> split_schemes(const std::string& list);

// The scheme texts of such lists, each once, where "all" stands for known_schemes(). Throws for a word that
// is no scheme.
std::vector<std::string> resolve_schemes(const std::vector<std::string>& lists);

}  // namespace scalegemm::harness
