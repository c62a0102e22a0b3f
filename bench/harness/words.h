// The words of options and the values they stand for: one table an option, read in both directions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "scalegemm/scalegemm.h"

namespace scalegemm::harness {

struct Word {
  std::string_view word;
  int32_t value;
};

inline constexpr std::array<Word, 14> kTypes = {{{"none", SCALEGEMM_DTYPE_NONE},
                                                 {"f32", SCALEGEMM_F32},
                                                 {"f16", SCALEGEMM_F16},
                                                 {"bf16", SCALEGEMM_BF16},
                                                 {"e4m3", SCALEGEMM_E4M3},
                                                 {"e4m3_fnuz", SCALEGEMM_E4M3_FNUZ},
                                                 {"e5m2", SCALEGEMM_E5M2},
                                                 {"e5m2_fnuz", SCALEGEMM_E5M2_FNUZ},
                                                 {"e2m1", SCALEGEMM_E2M1},
                                                 {"e8m0", SCALEGEMM_E8M0},
                                                 {"int8", SCALEGEMM_INT8},
                                                 {"int4", SCALEGEMM_INT4},
                                                 {"uint4", SCALEGEMM_UINT4},
                                                 {"int32", SCALEGEMM_INT32}}};
// What D may be (src/spec/problem.cc refuses the rest), what C and the bias may be.
inline constexpr std::array<Word, 6> kOutputTypes = {{{"f32", SCALEGEMM_F32},
                                                      {"f16", SCALEGEMM_F16},
                                                      {"bf16", SCALEGEMM_BF16},
                                                      {"e4m3", SCALEGEMM_E4M3},
                                                      {"e5m2", SCALEGEMM_E5M2},
                                                      {"int32", SCALEGEMM_INT32}}};
inline constexpr std::array<Word, 4> kVectorTypes = {{{"none", SCALEGEMM_DTYPE_NONE},
                                                      {"f32", SCALEGEMM_F32},
                                                      {"f16", SCALEGEMM_F16},
                                                      {"bf16", SCALEGEMM_BF16}}};
inline constexpr std::array<Word, 4> kPackings = {{{"raw", SCALEGEMM_RAW},
                                                   {"packed", SCALEGEMM_PACKED},
                                                   {"k1x32", SCALEGEMM_PANEL_K1X32},
                                                   {"k4x16", SCALEGEMM_PANEL_K4X16}}};
inline constexpr std::array<Word, 3> kAccuracies = {
    {{"promoted", SCALEGEMM_PROMOTED}, {"fast", SCALEGEMM_FAST}, {"exact", SCALEGEMM_EXACT}}};
inline constexpr std::array<Word, 5> kActivations = {{{"none", SCALEGEMM_ACT_NONE},
                                                      {"relu", SCALEGEMM_ACT_RELU},
                                                      {"gelu-tanh", SCALEGEMM_ACT_GELU_TANH},
                                                      {"gelu-erf", SCALEGEMM_ACT_GELU_ERF},
                                                      {"silu", SCALEGEMM_ACT_SILU}}};
inline constexpr std::array<Word, 3> kScaleRoundings = {
    {{"floor", SCALEGEMM_SCALE_FLOOR}, {"even", SCALEGEMM_SCALE_EVEN}, {"ceil", SCALEGEMM_SCALE_CEIL}}};
// Values of Strides and Place (harness/case.h, harness/buffer.h).
inline constexpr std::array<Word, 4> kStrideWords = {
    {{"dense", 0}, {"padded", 1}, {"lines", 2}, {"aligned", 3}}};
inline constexpr std::array<Word, 3> kPlaces = {{{"aligned", 0}, {"misaligned", 1}, {"flush-end", 2}}};
// A, B, D: the layouts a problem takes.
inline constexpr std::array<std::string_view, 4> kLayouts = {"rcr", "rrr", "crr", "ccr"};

// "?" for a value that has no word.
constexpr std::string_view word_of(std::span<const Word> words, int32_t value) {
  for (const Word& row : words) {
    if (row.value == value) {
      return row.word;
    }
  }
  return "?";
}

constexpr std::optional<int32_t> value_of(std::span<const Word> words, std::string_view word) {
  for (const Word& row : words) {
    if (row.word == word) {
      return row.value;
    }
  }
  return std::nullopt;
}

}  // namespace scalegemm::harness
