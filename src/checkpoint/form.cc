#include "checkpoint/form.h"

#include <fmt/format.h>

#include <algorithm>

namespace scalegemm::checkpoint {
namespace {

using num::DType;

std::string word(int64_t block) {
  return block == spec::kAll ? "all" : std::to_string(block);
}

bool is_fp8(DType type) {
  return num::info(type).is_float && num::info(type).bits == 8 && type != DType::kE8m0;
}

// The block that gives `count` blocks over `extent`, if there is just one.
std::optional<int64_t> block_of(int64_t extent, int64_t count) {
  if (count == 1) {
    return spec::kAll;
  }
  if (count == extent) {
    return 1;
  }
  std::optional<int64_t> found;
  for (int64_t block = 16; block <= 256; block *= 2) {
    if (ceil_div(extent, block) == count) {
      if (found) {
        return std::nullopt;
      }
      found = block;
    }
  }
  return found;
}

}  // namespace

Form nvfp4_form(Activations activations) {
  return {.code = DType::kE2m1,
          .scale = DType::kE4m3,
          .block_n = 1,
          .block_k = 16,
          .global = true,
          .activations = activations};
}

Form mxfp4_form(Activations activations) {
  return {
      .code = DType::kE2m1, .scale = DType::kE8m0, .block_n = 1, .block_k = 32, .activations = activations};
}

std::string scheme_text(const Form& form) {
  const std::string_view code = num::name(form.code);
  const bool narrow = form.activations == Activations::kNarrow;
  if (!form.scale) {
    return fmt::format("none:a={}", code);
  }
  if (form.global) {
    return narrow ? "nvfp4" : "nvfp4:a=bf16";
  }
  if (*form.scale == DType::kE8m0) {
    const bool groups_of_32 = form.block_n == 1 && form.block_k == 32;
    if (narrow && groups_of_32) {
      return form.code == DType::kE2m1 ? "mxfp4" : fmt::format("mxfp8:a={},b={}", code, code);
    }
    return fmt::format("mx-weight:a=bf16,b={},g={},bn={}", code, word(form.block_k), word(form.block_n));
  }
  if (narrow && form.block_k == spec::kAll && form.block_n <= 1) {
    if (form.code == DType::kInt8 && form.block_n == 1) {
      return "int8";
    }
    if (is_fp8(form.code)) {
      return fmt::format("{}:a={},b={}", form.block_n == 1 ? "rowcol" : "tensor", code, code);
    }
  }
  if (narrow && is_fp8(form.code)) {
    return fmt::format("abquant:a={},b={},g={},bn={},scale=f32", code, code, word(form.block_k),
                       word(form.block_n));
  }
  return fmt::format("bquant:a=bf16,b={},g={},bn={},scale={},zero={}", code, word(form.block_k),
                     word(form.block_n), num::name(*form.scale), form.zero ? num::name(*form.zero) : "none");
}

std::optional<Blocks> blocks_of(int64_t n, int64_t k, std::span<const int64_t> shape, const Blocks& config) {
  const bool matrix = shape.size() == 2;
  if (matrix && config.n > 0 && config.k > 0 && ceil_div(n, config.n) == shape[0] &&
      ceil_div(k, config.k) == shape[1]) {
    return config;
  }
  if (std::ranges::all_of(shape, [](int64_t extent) { return extent == 1; })) {
    return Blocks{};
  }
  if (shape.size() == 1) {
    return shape[0] == n ? std::optional(Blocks{1, spec::kAll}) : std::nullopt;
  }
  if (!matrix) {
    return std::nullopt;
  }
  const std::optional<int64_t> rows = block_of(n, shape[0]);
  const std::optional<int64_t> cols = block_of(k, shape[1]);
  return rows && cols ? std::optional(Blocks{*rows, *cols}) : std::nullopt;
}

}  // namespace scalegemm::checkpoint
