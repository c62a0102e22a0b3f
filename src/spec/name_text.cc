#include "spec/name_text.h"

#include <array>
#include <charconv>

namespace scalegemm::spec::text {
namespace {

constexpr Word<Pipeline> kPipelines[] = {
    {Pipeline::kF32Fma, "f32fma"},
    {Pipeline::kI8Dot, "i8dot"},
    {Pipeline::kBf16Dot, "bf16dot"},
    {Pipeline::kTmaCoop, "tmacoop"},
    {Pipeline::kTmaPingPong, "tmapingpong"},
    {Pipeline::kTmaCarried, "tmacarried"},
    {Pipeline::kMma, "mma"},
    {Pipeline::kMem, "mem"},
    {Pipeline::kCompV3, "compv3"},
    {Pipeline::kCompV4, "compv4"},
    {Pipeline::kCompV5, "compv5"},
    {Pipeline::kCompAsync, "compasync"},
    {Pipeline::kMicroscale, "microscale"},
};
constexpr Word<EpilogueKind> kEpilogues[] = {
    {EpilogueKind::kDefault, "default"},
    {EpilogueKind::kCShuffle, "cshuffle"},
    {EpilogueKind::kTma, "tma"},
};
constexpr Word<Scheduler> kSchedulers[] = {
    {Scheduler::kDefault, "default"},
    {Scheduler::kDynamic, "dynamic"},
    {Scheduler::kIntrawave, "intrawave"},
    {Scheduler::kInterwave, "interwave"},
};
constexpr Word<SplitK> kSplits[] = {
    {SplitK::kNone, "none"},
    {SplitK::kWorkspace, "splitk-workspace"},
    {SplitK::kCluster, "splitk-cluster"},
    {SplitK::kStreamKLinear, "streamk-linear"},
    {SplitK::kStreamKTree, "streamk-tree"},
};
constexpr Word<Packing> kPackings[] = {
    {Packing::kRaw, "raw"},
    {Packing::kPanelK1x32, "k1x32"},
    {Packing::kPanelK4x16, "k4x16"},
};
constexpr Word<Accuracy> kAccuracies[] = {
    {Accuracy::kPromoted, "promoted"},
    {Accuracy::kFast, "fast"},
    {Accuracy::kExact, "exact"},
};
constexpr Word<DType> kTypes[] = {
    {DType::kF32, "f32"},           {DType::kF16, "f16"},           {DType::kBf16, "bf16"},
    {DType::kE4m3, "e4m3"},         {DType::kE4m3Fnuz, "e4m3fnuz"}, {DType::kE5m2, "e5m2"},
    {DType::kE5m2Fnuz, "e5m2fnuz"}, {DType::kE2m1, "e2m1"},         {DType::kE8m0, "e8m0"},
    {DType::kInt8, "int8"},         {DType::kInt4, "int4"},         {DType::kUint4, "uint4"},
    {DType::kInt32, "int32"},
};
static_assert(std::size(kTypes) == num::kDTypes.size());

constexpr ScaleSpec kTensor{DType::kF32, kAll, kAll, std::nullopt, false};
constexpr ScaleSpec kRow{DType::kF32, 1, kAll, std::nullopt, false};
constexpr ScaleSpec kMx{DType::kE8m0, 1, 32, std::nullopt, false};
constexpr ScaleSpec kNv{DType::kE4m3, 1, 16, std::nullopt, true};

// Order matters: the first row that fits a spec is its word.
constexpr QuantWord kQuantWords[] = {
    {"any", Scales::kRunTime, std::nullopt, std::nullopt, false, false},
    {"none", Scales::kFixed, std::nullopt, std::nullopt, false, false},
    {"tensorquant", Scales::kFixed, kTensor, kTensor, false, false},
    {"rowcolquant", Scales::kFixed, kRow, kRow, false, false},
    {"mxquant", Scales::kFixed, kMx, kMx, false, false},
    {"nvfp4quant", Scales::kFixed, kNv, kNv, false, false},
    {"aquant", Scales::kFixed, std::nullopt, std::nullopt, true, false},
    {"bquant", Scales::kFixed, std::nullopt, std::nullopt, false, true},
    {"abquant", Scales::kFixed, std::nullopt, std::nullopt, true, true},
};

bool fits(const QuantWord& row, const KernelSpec& spec) {
  if (row.scales != spec.scales) {
    return false;
  }
  if (row.scales == Scales::kRunTime) {
    return true;
  }
  const bool a_fits = row.names_a ? spec.a_scale.has_value() : spec.a_scale == row.a;
  const bool b_fits = row.names_b ? spec.b_scale.has_value() : spec.b_scale == row.b;
  return a_fits && b_fits;
}

}  // namespace

std::span<const Word<Pipeline>> pipelines() {
  return kPipelines;
}
std::span<const Word<EpilogueKind>> epilogues() {
  return kEpilogues;
}
std::span<const Word<Scheduler>> schedulers() {
  return kSchedulers;
}
std::span<const Word<SplitK>> splits() {
  return kSplits;
}
std::span<const Word<Packing>> packings() {
  return kPackings;
}
std::span<const Word<Accuracy>> accuracies() {
  return kAccuracies;
}
std::span<const Word<DType>> dtypes() {
  return kTypes;
}
std::span<const QuantWord> quant_words() {
  return kQuantWords;
}

const QuantWord& quant_row(const KernelSpec& spec) {
  for (const QuantWord& row : kQuantWords) {
    if (fits(row, spec)) {
      return row;
    }
  }
  return kQuantWords[0];  // not reached: the last four rows cover every pair of scales
}

std::string_view Reader::peek() const {
  return done() ? std::string_view() : text_.substr(pos_, text_.find('_', pos_) - pos_);
}

std::string_view Reader::take() {
  const std::string_view word = peek();
  pos_ += word.size() + 1;
  return word;
}

bool Reader::skip(std::string_view word) {
  const std::string_view rest = done() ? std::string_view() : text_.substr(pos_);
  if (!rest.starts_with(word) || (rest.size() > word.size() && rest[word.size()] != '_')) {
    return false;
  }
  pos_ += word.size() + 1;
  return true;
}

Status Reader::error(std::string_view needed) const {
  const std::string given = done() ? std::string("the end") : fmt::format("\"{}\"", peek());
  return invalid_argument("kernel name, column {}: needed {}; given {}", std::min(pos_, text_.size()) + 1,
                          needed, given);
}

Status Reader::refuse(std::string_view reason) const {
  const std::string given = done() ? std::string("the end") : fmt::format("\"{}\"", peek());
  return unsupported("kernel name, column {}: {} has no KernelSpec: {}", std::min(pos_, text_.size()) + 1,
                     given, reason);
}

Result<Dims> Reader::dims(std::string_view what) {
  const std::optional<Dims> dims = parse_dims(peek());
  if (!dims) {
    return error(fmt::format("{} as MxNxK, each 1 to {}", what, kMaxSize));
  }
  take();
  return *dims;
}

std::optional<int> parse_size(std::string_view text, int low) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool canonical = !text.empty() && text[0] != '-' && (text[0] != '0' || text.size() == 1);
  if (error != std::errc() || stop != end || !canonical || value < low || value > kMaxSize) {
    return std::nullopt;
  }
  return value;
}

std::optional<Dims> parse_dims(std::string_view text) {
  const size_t first = text.find('x');
  const size_t second = first == text.npos ? first : text.find('x', first + 1);
  if (second == text.npos) {
    return std::nullopt;
  }
  const auto m = parse_size(text.substr(0, first), 1);
  const auto n = parse_size(text.substr(first + 1, second - first - 1), 1);
  const auto k = parse_size(text.substr(second + 1), 1);
  if (!m || !n || !k) {
    return std::nullopt;
  }
  return Dims{*m, *n, *k};
}

}  // namespace scalegemm::spec::text
