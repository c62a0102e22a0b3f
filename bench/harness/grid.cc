#include "harness/grid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "harness/words.h"

namespace scalegemm::harness {
namespace {

constexpr std::array kFloatOutputs = {SCALEGEMM_F32, SCALEGEMM_BF16, SCALEGEMM_F16, SCALEGEMM_E4M3,
                                      SCALEGEMM_E5M2};
constexpr std::array kGridPackings = {SCALEGEMM_RAW, SCALEGEMM_PACKED};

// Epilogues that the grid goes through. Exact proofs replace alpha and beta by powers of two.
constexpr std::array<Epilogue, 6> kEpilogues = {{
    {},
    {.alpha = -1.5f, .bias_dtype = SCALEGEMM_F32},
    {.beta = 0.75f, .c_dtype = SCALEGEMM_BF16, .activation = SCALEGEMM_ACT_RELU},
    {.alpha = 0.5f, .bias_dtype = SCALEGEMM_BF16, .activation = SCALEGEMM_ACT_GELU_TANH},
    {.beta = -2.0f,
     .c_dtype = SCALEGEMM_F32,
     .bias_dtype = SCALEGEMM_F16,
     .activation = SCALEGEMM_ACT_SILU,
     .has_clamp = 1,
     .clamp_min = -0.25f,
     .clamp_max = 6.0f},
    {.beta = 1.0f, .c_dtype = SCALEGEMM_F16, .activation = SCALEGEMM_ACT_GELU_ERF},
}};

template <class T, size_t kCount>
const T& pick(const std::array<T, kCount>& values, uint64_t at) {
  return values[at % kCount];
}

struct Key {
  std::string_view name;
  std::string_view values;  // separated by '|'
};

constexpr std::array<Key, 7> kKeys = {{
    {"a", "bf16|f16|f32|e4m3|e5m2|e2m1|e4m3_fnuz|e5m2_fnuz|int8|int4|uint4"},
    {"b", "int4|uint4|int8|e4m3|e5m2|e2m1|e4m3_fnuz|e5m2_fnuz|bf16|f16|f32"},
    {"g", "16|32|64|128|256|all|48|2"},
    {"bn", "1|16|32|128|all|7"},
    {"scale", "f32|f16|bf16"},
    {"zero", "none|int8|int4|uint4"},
    {"ascale", "row|none"},
}};

constexpr std::array<std::string_view, 11> kPresets = {"tensor",    "rowcol", "aquant", "bquant",
                                                       "abquant",   "mxfp8",  "mxfp4",  "nvfp4",
                                                       "mx-weight", "int8",   "none"};

std::string_view pick_word(std::string_view words, Random& random) {
  int64_t skip = random.below(std::count(words.begin(), words.end(), '|') + 1);
  for (; skip > 0; --skip) {
    words.remove_prefix(words.find('|') + 1);
  }
  return words.substr(0, words.find('|'));
}

// Small sizes as often as large ones.
int64_t random_size(Random& random, double most) {
  return static_cast<int64_t>(std::exp2(random.uniform() * std::log2(most + 1)));
}

std::string legal_scheme(Random& random) {
  for (int attempt = 0; attempt < 64; ++attempt) {
    std::string scheme = random_scheme(random);
    scalegemm_problem problem{};
    problem.struct_size = sizeof(problem);
    if (scalegemm_problem_init(&problem, scheme.c_str(), "rcr", 2, 2, 2) == SCALEGEMM_OK) {
      return scheme;
    }
  }
  return "mxfp4";
}

Epilogue random_epilogue(Random& random) {
  Epilogue e = pick(kEpilogues, random.next());
  if (random.below(2) == 0) {
    e.alpha = static_cast<float>(random.normal());
  }
  e.activation = static_cast<int32_t>(random.below(SCALEGEMM_ACT_SILU + 1));
  return e;
}

}  // namespace

std::vector<int32_t> output_types(const std::string& scheme) {
  std::vector<int32_t> types(kFloatOutputs.begin(), kFloatOutputs.end());
  const scalegemm_problem p = make_problem(scheme, "rcr", 2, 2, 2);
  const bool unscaled = p.a.scale.dtype == SCALEGEMM_DTYPE_NONE && p.b.scale.dtype == SCALEGEMM_DTYPE_NONE;
  if (unscaled && p.a.dtype == SCALEGEMM_INT8 && p.b.dtype == SCALEGEMM_INT8) {
    types.push_back(SCALEGEMM_INT32);
  }
  return types;
}

Case grid_case(const std::string& scheme, const std::string& layout, int32_t d_dtype, uint64_t index) {
  const std::vector<Size> sizes = edge_sizes();
  // Strides without a common factor, so that the rotations run through all combinations.
  const Size size = sizes[index % sizes.size()];
  Case c;
  c.scheme = scheme;
  c.layout = layout;
  c.d_dtype = d_dtype;
  c.m = size.m;
  c.n = size.n;
  c.k = size.k;
  c.packing = pick(kGridPackings, index / 3);
  c.place = static_cast<Place>(index % 3);
  c.strides = static_cast<Strides>(index / 5 % 2);
  c.batch = index % 7 == 3 ? 2 : 1;
  c.epilogue = d_dtype == SCALEGEMM_INT32 ? Epilogue{} : pick(kEpilogues, index / 2);
  c.seed = index;
  return c;
}

std::vector<Case> grid_of(const std::string& scheme, int each) {
  std::vector<Case> cases;
  // Schemes start at different places of the rotation.
  uint64_t index = 0;
  for (char letter : scheme) {
    index = index * 31 + static_cast<uint64_t>(letter);
  }
  for (std::string_view layout : kLayouts) {
    for (int32_t type : output_types(scheme)) {
      for (int i = 0; i < each; ++i) {
        cases.push_back(grid_case(scheme, std::string(layout), type, index++));
      }
    }
  }
  return cases;
}

std::string random_scheme(Random& random) {
  std::string scheme(pick(kPresets, random.next()));
  char separator = ':';
  for (const Key& key : kKeys) {
    if (random.below(4) == 0) {
      scheme += separator;
      scheme += std::string(key.name) + "=" + std::string(pick_word(key.values, random));
      separator = ',';
    }
  }
  return scheme;
}

Case random_case(Random& random, int64_t most_products) {
  Case c;
  c.scheme = legal_scheme(random);
  c.layout = pick(kLayouts, random.next());
  c.m = random_size(random, 300);
  c.n = random_size(random, 600);
  c.k = 2 * random_size(random, 1200);
  c.batch = random.below(8) == 0 ? 1 + random.below(3) : 1;
  while (c.batch * c.m * c.n * c.k > most_products) {
    (c.m > c.n ? c.m : c.n) /= 2;
  }
  const std::vector<int32_t> types = output_types(c.scheme);
  c.d_dtype = types[static_cast<size_t>(random.below(static_cast<int64_t>(types.size())))];
  c.packing = pick(kGridPackings, random.next());
  c.place = static_cast<Place>(random.below(3));
  c.strides = static_cast<Strides>(random.below(2));
  c.fill = static_cast<Fill>(random.below(4));
  c.accuracy = static_cast<int32_t>(random.below(SCALEGEMM_EXACT + 1));
  c.epilogue = c.d_dtype == SCALEGEMM_INT32 ? Epilogue{} : random_epilogue(random);
  // Only activations that keep exact sums exact (see prove).
  if (c.fill == Fill::kExact && c.epilogue.activation != SCALEGEMM_ACT_RELU) {
    c.epilogue.activation = SCALEGEMM_ACT_NONE;
  }
  c.seed = random.next() >> 16;
  return c;
}

}  // namespace scalegemm::harness
