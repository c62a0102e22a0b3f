// The form of a stored weight and the scheme that runs it. Internal to this room.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/int_math.h"
#include "num/dtype.h"
#include "spec/problem.h"

namespace scalegemm::checkpoint {

using base::ceil_div;

// Activations stay as they are (bf16), or are quantised too.
enum class Activations : uint8_t { kWide, kNarrow };

struct Form {
  num::DType code = num::DType::kBf16;
  std::optional<num::DType> scale = std::nullopt;
  int64_t block_n = spec::kAll;
  int64_t block_k = spec::kAll;
  std::optional<num::DType> zero = std::nullopt;
  bool global = false;
  Activations activations = Activations::kWide;
};

// e2m1 codes with an e4m3 scale a run of 16 and a factor of all.
Form nvfp4_form(Activations activations);
// e2m1 codes with a power of two a run of 32.
Form mxfp4_form(Activations activations);

// The text of the scheme whose B has this form, as spec::parse_scheme takes it.
std::string scheme_text(const Form& form);

struct Blocks {
  int64_t n = spec::kAll;
  int64_t k = spec::kAll;
};

// The block that a scale of `shape` over N x K has: one for all, one a row, or that of the config, or where
// that is 0 x 0 the only power of two from 16 to 256 with as many. Nothing where it cannot be told.
std::optional<Blocks> blocks_of(int64_t n, int64_t k, std::span<const int64_t> shape, const Blocks& config);

}  // namespace scalegemm::checkpoint
