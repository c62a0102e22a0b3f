#include "spec/scheme.h"

#include <array>
#include <charconv>

namespace scalegemm::spec {
namespace {

constexpr DType kFp8[] = {DType::kE4m3, DType::kE5m2, DType::kE4m3Fnuz, DType::kE5m2Fnuz};
constexpr DType kOcpFp8[] = {DType::kE4m3, DType::kE5m2};
constexpr DType kAquantA[] = {DType::kE4m3,     DType::kE5m2, DType::kE4m3Fnuz,
                              DType::kE5m2Fnuz, DType::kInt8, DType::kInt4};
constexpr DType kAnyA[] = {DType::kBf16, DType::kF16,      DType::kF32,      DType::kE4m3,
                           DType::kE5m2, DType::kE4m3Fnuz, DType::kE5m2Fnuz, DType::kInt8};
constexpr DType kBquantB[] = {DType::kInt4, DType::kUint4,    DType::kInt8,    DType::kE4m3,
                              DType::kE5m2, DType::kE4m3Fnuz, DType::kE5m2Fnuz};
constexpr DType kAbquant[] = {DType::kE4m3,     DType::kE5m2, DType::kE4m3Fnuz,
                              DType::kE5m2Fnuz, DType::kInt8, DType::kInt4};
constexpr DType kMxfp8B[] = {DType::kE4m3, DType::kE5m2, DType::kE2m1};
constexpr DType kMxfp4A[] = {DType::kE2m1, DType::kE4m3, DType::kE5m2};
constexpr DType kMxWeightA[] = {DType::kBf16, DType::kF16, DType::kF32, DType::kE4m3, DType::kE5m2};
constexpr DType kMxWeightB[] = {DType::kE2m1, DType::kE4m3, DType::kE5m2};
constexpr DType kNvfp4A[] = {DType::kE2m1, DType::kBf16, DType::kF16,
                             DType::kF32,  DType::kE4m3, DType::kE5m2};
constexpr DType kE2m1Only[] = {DType::kE2m1};
constexpr DType kInt8Only[] = {DType::kInt8};
constexpr DType kEvery[] = {DType::kBf16, DType::kF16,  DType::kF32,      DType::kE4m3,
                            DType::kE5m2, DType::kE2m1, DType::kE4m3Fnuz, DType::kE5m2Fnuz,
                            DType::kInt8, DType::kInt4, DType::kUint4};
constexpr DType kFloatScale[] = {DType::kF32, DType::kF16, DType::kBf16};
constexpr DType kMxScale[] = {DType::kE8m0};
constexpr DType kNvScale[] = {DType::kE4m3};
constexpr DType kZeros[] = {DType::kUint4, DType::kInt4, DType::kInt8};

// How a preset scales an operand. kOptionalRow: one f32 a row where the type is narrow, or as `ascale` says.
// kBlockOrRow: like B when the types agree in width, else kOptionalRow.
enum class Side : uint8_t { kNone, kTensor, kRow, kBlock, kOptionalRow, kBlockOrRow };

struct Preset {
  std::string_view name;
  std::span<const DType> a_types;  // the first is the default
  std::span<const DType> b_types;  // empty: the type of A
  Side a, b;
  int64_t g;
  std::span<const DType> scale_types;
  bool global;
  std::string_view keys;  // separated by blanks, in canonical order
};

constexpr Preset kPresets[] = {
    {"tensor", kFp8, kFp8, Side::kTensor, Side::kTensor, kAll, kFloatScale, false, "a b"},
    {"rowcol", kFp8, kFp8, Side::kRow, Side::kRow, kAll, kFloatScale, false, "a b"},
    {"aquant", kAquantA, kFp8, Side::kBlock, Side::kNone, 128, kFloatScale, false, "a b g scale"},
    {"bquant", kAnyA, kBquantB, Side::kOptionalRow, Side::kBlock, 128, kFloatScale, false,
     "a b g bn scale zero ascale"},
    {"abquant", kAbquant, kAbquant, Side::kBlock, Side::kBlock, 128, kFloatScale, false, "a b g bn scale"},
    {"mxfp8", kOcpFp8, kMxfp8B, Side::kBlock, Side::kBlock, 32, kMxScale, false, "a b"},
    {"mxfp4", kMxfp4A, kE2m1Only, Side::kBlock, Side::kBlock, 32, kMxScale, false, "a"},
    {"mx-weight", kMxWeightA, kMxWeightB, Side::kOptionalRow, Side::kBlock, 32, kMxScale, false,
     "a b g bn ascale"},
    {"nvfp4", kNvfp4A, kE2m1Only, Side::kBlockOrRow, Side::kBlock, 16, kNvScale, true, "a ascale"},
    {"int8", kInt8Only, kInt8Only, Side::kRow, Side::kRow, kAll, kFloatScale, false, ""},
    {"none", kEvery, {}, Side::kNone, Side::kNone, kAll, kFloatScale, false, "a b"},
};

constexpr SchemeInfo kKnown[] = {
    {"none", "bf16 x bf16, no scales", true},
    {"none:a=f32", "f32 x f32, no scales", false},
    {"tensor", "fp8 x fp8, one f32 scale an operand", true},
    {"rowcol", "fp8 x fp8, one f32 scale a row of A and a column of B", true},
    {"aquant", "fp8 x fp8, f32 scales of A per 128 along K", true},
    {"bquant", "bf16 activations, int4 weights, f32 scales per 128 along K", true},
    {"bquant:g=32", "bf16 activations, int4 weights, f32 scales per 32 along K", false},
    {"bquant:b=uint4,scale=f16,zero=uint4",
     "uint4 weights with zero points per 128 (the form of GPTQ and AWQ)", false},
    {"bquant:a=int8,g=32", "int8 activations scaled by row, int4 weights per 32", false},
    {"bquant:b=int8,g=all", "bf16 activations, int8 weights scaled by column", false},
    {"abquant", "fp8 x fp8, f32 scales of both per 128 along K", true},
    {"abquant:bn=128", "fp8 x fp8, A per 1 x 128, B per 128 x 128 (the form of DeepSeek-V3)", false},
    {"mxfp8", "e4m3 x e4m3, e8m0 scales per 32 (OCP MX)", true},
    {"mxfp4", "e2m1 x e2m1, e8m0 scales per 32 (OCP MX, a4w4)", true},
    {"mxfp4:a=e4m3", "e4m3 x e2m1, e8m0 scales per 32 on both", false},
    {"mx-weight", "bf16 activations, e2m1 weights, e8m0 scales per 32 (the form of gpt-oss)", true},
    {"mx-weight:a=e4m3", "e4m3 activations scaled by row, e2m1 weights per 32", false},
    {"nvfp4", "e2m1 x e2m1, e4m3 scales per 16 and one f32 an operand", true},
    {"nvfp4:a=bf16", "bf16 activations, e2m1 weights, e4m3 scales per 16", false},
    {"int8", "int8 x int8, one f32 scale a row of A and a column of B", true},
};

struct Alias {
  std::string_view text, preset;
};
constexpr Alias kAliases[] = {{"a4w4", "mxfp4"}};

// The keys of a scheme text before they are turned into operands.
struct Values {
  DType a{}, b{};
  int64_t g = kAll;
  int64_t bn = 1;
  DType scale{};
  std::optional<DType> zero;
  bool a_row = false;

  bool operator==(const Values&) const = default;
};

bool has_key(const Preset& preset, std::string_view key) {
  std::string_view rest = preset.keys;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == key) {
      return true;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

bool optional_row(const Preset& preset, DType a) {
  return preset.a == Side::kOptionalRow || (preset.a == Side::kBlockOrRow && !num::is_packed4(a));
}

// The values of a preset when only the types are given.
Values defaults(const Preset& preset, std::optional<DType> a, std::optional<DType> b) {
  Values v;
  v.a = a.value_or(preset.a_types[0]);
  v.b = b.value_or(preset.b_types.empty() ? v.a : preset.b_types[0]);
  v.g = preset.g;
  v.scale = preset.scale_types[0];
  v.a_row = optional_row(preset, v.a) && num::info(v.a).bits <= 8;
  return v;
}

std::optional<ScaleSpec> side_scale(const Preset& preset, Side side, const Values& v, bool of_b) {
  switch (side) {
    case Side::kNone:
      return std::nullopt;
    case Side::kTensor:
      return ScaleSpec{DType::kF32, kAll, kAll, std::nullopt, false};
    case Side::kRow:
      return ScaleSpec{DType::kF32, 1, kAll, std::nullopt, false};
    case Side::kBlock:
      return ScaleSpec{v.scale, of_b ? v.bn : 1, v.g, of_b ? v.zero : std::nullopt, preset.global};
    case Side::kOptionalRow:
      return v.a_row ? side_scale(preset, Side::kRow, v, of_b) : std::nullopt;
    case Side::kBlockOrRow:
      return side_scale(preset, optional_row(preset, v.a) ? Side::kOptionalRow : Side::kBlock, v, of_b);
  }
  return std::nullopt;
}

std::string block_text(int64_t block) {
  return block == kAll ? std::string("all") : std::to_string(block);
}

std::string canonical(const Preset& preset, const Values& v) {
  const Values none = defaults(preset, std::nullopt, std::nullopt);
  const Values typed = defaults(preset, v.a, v.b);
  std::string text(preset.name);
  const auto add = [&](bool differs, std::string_view key, std::string_view value) {
    if (differs) {
      text += fmt::format("{}{}={}", text.size() == preset.name.size() ? ":" : ",", key, value);
    }
  };
  add(v.a != none.a, "a", num::name(v.a));
  add(v.b != defaults(preset, v.a, std::nullopt).b, "b", num::name(v.b));
  add(v.g != typed.g, "g", block_text(v.g));
  add(v.bn != typed.bn, "bn", block_text(v.bn));
  add(v.scale != typed.scale, "scale", num::name(v.scale));
  add(v.zero.has_value(), "zero", v.zero ? num::name(*v.zero) : "none");
  add(v.a_row != typed.a_row, "ascale", v.a_row ? "row" : "none");
  return text;
}

std::string type_list(std::span<const DType> types) {
  std::string text;
  for (DType type : types) {
    text += text.empty() ? "" : ", ";
    text += num::name(type);
  }
  return text;
}

Result<DType> type_value(std::string_view key, std::string_view value, std::span<const DType> allowed) {
  for (DType type : allowed) {
    if (num::name(type) == value) {
      return type;
    }
  }
  return invalid_argument("scheme key {}: needed one of {}; given \"{}\"", key, type_list(allowed), value);
}

Result<int64_t> block_value(std::string_view key, std::string_view value) {
  if (value == "all") {
    return kAll;
  }
  int64_t block = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, block);
  if (error != std::errc() || stop != end || block <= 0) {
    return invalid_argument("scheme key {}: needed a positive number or all; given \"{}\"", key, value);
  }
  return block;
}

// The given text of every key, or nothing.
struct Given {
  std::optional<std::string_view> a, b, g, bn, scale, zero, ascale;

  std::optional<std::string_view>* slot(std::string_view key) {
    const std::pair<std::string_view, std::optional<std::string_view>*> slots[] = {
        {"a", &a},         {"b", &b},       {"g", &g},          {"bn", &bn},
        {"scale", &scale}, {"zero", &zero}, {"ascale", &ascale}};
    for (const auto& [name, pointer] : slots) {
      if (name == key) {
        return pointer;
      }
    }
    return nullptr;
  }
};

std::string key_list(const Preset& preset) {
  std::string text;
  for (char c : preset.keys) {
    text += c == ' ' ? std::string(", ") : std::string(1, c);
  }
  return text.empty() ? "no keys" : "one of " + text;
}

Result<Given> split_keys(const Preset& preset, std::string_view rest) {
  Given given;
  while (true) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, end);
    const size_t equals = std::min(item.find('='), item.size());
    const std::string_view key = item.substr(0, equals);
    if (!has_key(preset, key)) {
      return invalid_argument("scheme \"{}\", key: needed {}; given \"{}\"", preset.name, key_list(preset),
                              key);
    }
    if (equals == item.size()) {
      return invalid_argument("scheme key {}: needed {}=value; given \"{}\"", key, key, item);
    }
    std::optional<std::string_view>& slot = *given.slot(key);
    if (slot) {
      return invalid_argument("scheme key {}: needed once; given again as \"{}\"", key, item);
    }
    slot = item.substr(equals + 1);
    if (end == rest.size()) {
      return given;
    }
    rest.remove_prefix(end + 1);
  }
}

Result<Values> read_types(const Preset& preset, const Given& given) {
  std::optional<DType> a;
  std::optional<DType> b;
  if (given.a) {
    SCALEGEMM_ASSIGN_OR_RETURN(a, type_value("a", *given.a, preset.a_types));
  }
  if (given.b) {
    SCALEGEMM_ASSIGN_OR_RETURN(
        b, type_value("b", *given.b, preset.b_types.empty() ? preset.a_types : preset.b_types));
  }
  return defaults(preset, a, b);
}

Result<Values> read_values(const Preset& preset, const Given& given) {
  SCALEGEMM_ASSIGN_OR_RETURN(Values v, read_types(preset, given));
  if (given.g) {
    SCALEGEMM_ASSIGN_OR_RETURN(v.g, block_value("g", *given.g));
  }
  if (given.bn) {
    SCALEGEMM_ASSIGN_OR_RETURN(v.bn, block_value("bn", *given.bn));
  }
  if (given.scale) {
    SCALEGEMM_ASSIGN_OR_RETURN(v.scale, type_value("scale", *given.scale, preset.scale_types));
  }
  if (given.zero && *given.zero != "none") {
    SCALEGEMM_ASSIGN_OR_RETURN(v.zero, type_value("zero", *given.zero, kZeros));
  }
  if (given.ascale) {
    if (!optional_row(preset, v.a)) {
      return invalid_argument("scheme key ascale: needed a type of A without block scales; given a={}",
                              num::name(v.a));
    }
    if (*given.ascale != "row" && *given.ascale != "none") {
      return invalid_argument("scheme key ascale: needed row or none; given \"{}\"", *given.ascale);
    }
    v.a_row = *given.ascale == "row";
  }
  return v;
}

Result<const Preset*> find_preset(std::string_view name) {
  for (const Alias& alias : kAliases) {
    name = name == alias.text ? alias.preset : name;
  }
  std::string known;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) {
      return &preset;
    }
    known += known.empty() ? "" : ", ";
    known += preset.name;
  }
  return invalid_argument("scheme: needed one of {}; given \"{}\"", known, name);
}

std::string scale_text(const ScaleSpec& s) {
  std::string text =
      fmt::format("{}[{}x{}]", num::name(s.type), block_text(s.block_rows), block_text(s.block_k));
  if (s.zero_type) {
    text += fmt::format("-z{}", num::name(*s.zero_type));
  }
  return text + (s.global ? "*f32" : "");
}

}  // namespace

Result<Scheme> parse_scheme(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  SCALEGEMM_ASSIGN_OR_RETURN(const Preset* preset, find_preset(text.substr(0, colon)));
  Given given;
  if (colon != text.size()) {
    SCALEGEMM_ASSIGN_OR_RETURN(given, split_keys(*preset, text.substr(colon + 1)));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const Values v, read_values(*preset, given));
  Scheme scheme;
  scheme.text = canonical(*preset, v);
  scheme.preset = preset->name;
  scheme.a = {v.a, Layout::kRow, side_scale(*preset, preset->a, v, false)};
  scheme.b = {v.b, Layout::kCol, side_scale(*preset, preset->b, v, true)};
  // Blocks and zero points are judged where every problem is; the sizes are of no matter.
  Problem probe;
  probe.m = probe.n = probe.k = 2;
  probe.a = scheme.a;
  probe.b = scheme.b;
  SCALEGEMM_RETURN_IF_ERROR(validate(probe).with_context(fmt::format("scheme \"{}\"", text)));
  return scheme;
}

std::span<const SchemeInfo> known_schemes() {
  return kKnown;
}

double bits_per_weight(const OperandSpec& operand, int64_t rows, int64_t k) {
  double bits = num::info(operand.type).bits;
  if (!operand.scale) {
    return bits;
  }
  const ScaleSpec& s = *operand.scale;
  const Grid grid = scale_grid(s, rows, k);
  const double weights = static_cast<double>(rows) * static_cast<double>(k);
  const double blocks = static_cast<double>(grid.rows) * static_cast<double>(grid.cols);
  bits += blocks * (num::info(s.type).bits + (s.zero_type ? 8 : 0)) / weights;
  return bits + (s.global ? 32 / weights : 0);
}

Status apply(const Scheme& scheme, std::string_view layout, Problem& problem) {
  const std::optional<Layouts> layouts = parse_layout_word(layout);
  if (!layouts) {
    return invalid_argument("layout: needed rcr, rrr, crr or ccr; given \"{}\"", layout);
  }
  problem.a = scheme.a;
  problem.b = scheme.b;
  problem.a.layout = layouts->a;
  problem.b.layout = layouts->b;
  return ok_status();
}

std::string describe(const OperandSpec& operand) {
  const std::string type(num::name(operand.type));
  return operand.scale ? type + "*" + scale_text(*operand.scale) : type;
}

std::string signature(const Problem& p) {
  std::string text = fmt::format("{} x {} -> {} {}", describe(p.a), describe(p.b), num::name(p.d),
                                 layout_word({p.a.layout, p.b.layout}));
  if (p.b_packing != Packing::kRaw) {
    text += fmt::format(" {}", to_string(p.b_packing));
  }
  if (p.accuracy != Accuracy::kPromoted) {
    text += fmt::format(" {}", to_string(p.accuracy));
  }
  return text + (p.batch_invariant ? " batch-invariant" : "");
}

}  // namespace scalegemm::spec
