// Scheme: how both operands are quantised, as data and as text.
//
//   mxfp4                                        a preset
//   bquant:a=bf16,b=int4,g=32,zero=uint4         a preset with some of its keys set
//
// Keys (which of them a preset has is in its row):
//   a, b     operand types
//   g        block along K: a number or all
//   bn       block of B along N: a number or all
//   scale    type of the block scales: f32, f16, bf16 (e8m0, e4m3 where a preset has them)
//   zero     zero-point type of B: none, int8, int4, uint4
//   ascale   one f32 scale a row of A beside a block-scaled B: row or none
// The canonical text holds the keys that differ from the preset's defaults, in the order above.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/kernel_spec.h"
#include "spec/problem.h"

namespace scalegemm::spec {

struct Scheme {
  std::string text;    // canonical: parse_scheme(text) gives this scheme again
  std::string preset;  // "bquant"
  OperandSpec a;       // layouts are those of "rcr"
  OperandSpec b{DType::kF32, Layout::kCol, std::nullopt};

  bool operator==(const Scheme&) const = default;
};

// kInvalidArgument that lists the known presets, keys or values.
Result<Scheme> parse_scheme(std::string_view text);

// One line of `scalegemm schemes`: a preset or a well-known instance of one.
struct SchemeInfo {
  std::string_view text;  // takes part in "every scheme" runs
  std::string_view description;
  bool is_preset;  // false: an instance with keys
};
std::span<const SchemeInfo> known_schemes();

// Bits a stored weight takes with its share of scales and zero points (a byte each, the stored form) and the
// global factor; rows x k is the shape of the operand.
double bits_per_weight(const OperandSpec& operand, int64_t rows, int64_t k);

// The scheme as the operands of a problem, in the layout of a word ("rcr", "rrr", "crr", "ccr").
Status apply(const Scheme& scheme, std::string_view layout, Problem& problem);

// "e2m1*e8m0[1x32]": an operand in short, for messages and reports.
std::string describe(const OperandSpec& operand);

// "e2m1*e8m0[1x32] x e2m1*e8m0[1x32] -> f32 rcr": everything of a problem but its sizes; keys the tuned
// table.
std::string signature(const Problem& problem);

}  // namespace scalegemm::spec
