// The parser of kernel names: one function a field, in the order of the grammar (docs/kernel-names.md).
#include "spec/kernel_spec.h"
#include "spec/name_text.h"

namespace scalegemm::spec {
namespace {

using text::Reader;

Result<std::optional<DType>> parse_type(const Reader& in, std::string_view word, std::string_view needed) {
  if (word == "any") {
    return std::optional<DType>();
  }
  for (const text::Word<DType>& row : text::dtypes()) {
    if (row.word == word) {
      return std::optional<DType>(row.value);
    }
  }
  return in.error(needed);
}

Status parse_types(Reader& in, KernelSpec& spec) {
  constexpr std::string_view kNeeded = "operand types as A-B-D, each any or a type, as in any-e2m1-any";
  const std::string_view word = in.peek();
  const size_t first = word.find('-');
  const size_t second = first == word.npos ? first : word.find('-', first + 1);
  if (second == word.npos) {
    return in.error(kNeeded);
  }
  SCALEGEMM_ASSIGN_OR_RETURN(spec.a, parse_type(in, word.substr(0, first), kNeeded));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.b, parse_type(in, word.substr(first + 1, second - first - 1), kNeeded));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.d, parse_type(in, word.substr(second + 1), kNeeded));
  in.take();
  return ok_status();
}

Status parse_layout(Reader& in, KernelSpec& spec) {
  if (in.skip("any")) {
    return ok_status();
  }
  spec.layouts = parse_layout_word(in.peek());
  if (!spec.layouts) {
    return in.error("a layout (any, rcr, rrr, crr, ccr)");
  }
  in.take();
  return ok_status();
}

std::optional<int64_t> parse_block(std::string_view text) {
  if (text == "all") {
    return kAll;
  }
  return text::parse_size(text, 1);
}

// One "-word" behind the blocks of a scale. Each may come once, in the order type, zero point, global.
bool parse_scale_word(std::string_view word, ScaleSpec& scale) {
  if (word == "global" && !scale.global) {
    scale.global = true;
    return true;
  }
  for (const text::Word<DType>& row : text::dtypes()) {
    if (word == row.word && row.value != DType::kF32 && scale.type == DType::kF32 && !scale.zero_type &&
        !scale.global) {
      scale.type = row.value;
      return true;
    }
    if (word.starts_with('z') && word.substr(1) == row.word && !scale.zero_type && !scale.global) {
      scale.zero_type = row.value;
      return true;
    }
  }
  return false;
}

// "1x128x128-f16-zuint4-global" behind its prefix. `own` is the position of the operand's rows in MxNxK: 0
// for A, 1 for B; the other one is always 1.
std::optional<ScaleSpec> parse_scale(std::string_view text, int own) {
  const size_t dash = std::min(text.find('-'), text.size());
  const std::string_view blocks = text.substr(0, dash);
  const size_t first = blocks.find('x');
  const size_t second = first == blocks.npos ? first : blocks.find('x', first + 1);
  if (second == blocks.npos) {
    return std::nullopt;
  }
  const std::string_view rows[] = {blocks.substr(0, first), blocks.substr(first + 1, second - first - 1)};
  const std::optional<int64_t> block_rows = parse_block(rows[own]);
  const std::optional<int64_t> block_k = parse_block(blocks.substr(second + 1));
  if (!block_rows || !block_k || rows[1 - own] != "1") {
    return std::nullopt;
  }
  ScaleSpec scale{DType::kF32, *block_rows, *block_k, std::nullopt, false};
  std::string_view rest = text.substr(dash);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('-', 1), rest.size());
    if (!parse_scale_word(rest.substr(1, end - 1), scale)) {
      return std::nullopt;
    }
    rest.remove_prefix(end);
  }
  return scale;
}

Status parse_scales(Reader& in, const text::QuantWord& quant, KernelSpec& spec) {
  spec.scales = quant.scales;
  spec.a_scale = quant.a;
  spec.b_scale = quant.b;
  if (quant.names_a) {
    spec.a_scale = in.peek().starts_with("aqg") ? parse_scale(in.peek().substr(3), 0) : std::nullopt;
    if (!spec.a_scale) {
      return in.error("the scale of A as aqg{rows}x1x{k}[-type][-z{zero-point type}][-global]");
    }
    in.take();
  }
  if (quant.names_b) {
    spec.b_scale = in.peek().starts_with("bqg") ? parse_scale(in.peek().substr(3), 1) : std::nullopt;
    if (!spec.b_scale) {
      return in.error("the scale of B as bqg1x{columns}x{k}[-type][-z{zero-point type}][-global]");
    }
    in.take();
  }
  return ok_status();
}

// A word of a table when it is there and not the default, which is never written.
template <class T>
void parse_optional(Reader& in, std::span<const text::Word<T>> words, T& value) {
  for (const text::Word<T>& row : words) {
    if (row.value != value && in.skip(row.word)) {
      value = row.value;
      return;
    }
  }
}

Status parse_via(Reader& in, KernelSpec& spec) {
  if (!in.peek().starts_with("via-")) {
    return ok_status();
  }
  SCALEGEMM_ASSIGN_OR_RETURN(spec.via, parse_type(in, in.peek().substr(4), "the widened type as via-{type}"));
  if (!spec.via) {
    return in.error("the widened type as via-{type}");
  }
  in.take();
  return ok_status();
}

Status parse_packed(Reader& in, KernelSpec& spec) {
  spec.packed = default_packed(spec.pipeline, spec.b);
  if (!in.peek().starts_with("pack-")) {
    return ok_status();
  }
  for (const text::Word<Packing>& row : text::packings()) {
    if (in.peek().substr(5) == row.word && row.value != spec.packed) {
      spec.packed = row.value;
      in.take();
      return ok_status();
    }
  }
  return in.error(
      "a packed layout that is not the default of the pipeline (pack-raw, pack-k1x32, pack-k4x16)");
}

// A word such as "st4": a prefix and a number of at least `least`.
Status parse_count(Reader& in, std::string_view prefix, int least, std::string_view needed, int& count) {
  const std::string_view word = in.peek();
  if (!word.starts_with(prefix) || word.starts_with("streamk") || word.starts_with("strided")) {
    return ok_status();
  }
  const std::optional<int> value = text::parse_size(word.substr(prefix.size()), least);
  if (!value) {
    return in.error(needed);
  }
  count = *value;
  in.take();
  return ok_status();
}

Status parse_cluster(Reader& in, KernelSpec& spec) {
  if (!in.peek().starts_with("cl")) {
    return ok_status();
  }
  const std::optional<Dims> dims = text::parse_dims(std::string(in.peek().substr(2)) + "x1");
  if (!dims || (dims->m == 1 && dims->n == 1)) {
    return in.error("a cluster larger than 1x1 as cl{m}x{n}");
  }
  spec.cluster_m = dims->m;
  spec.cluster_n = dims->n;
  in.take();
  return ok_status();
}

Status parse_pads(Reader& in, KernelSpec& spec) {
  constexpr struct {
    std::string_view word;
    Pads pads;
  } kWords[] = {{"none", {false, false, false}}, {"m", {true, false, false}}, {"n", {false, true, false}},
                {"k", {false, false, true}},     {"mn", {true, true, false}}, {"mk", {true, false, true}},
                {"nk", {false, true, true}}};
  if (!in.peek().starts_with("pad-")) {
    return ok_status();
  }
  for (const auto& row : kWords) {
    if (in.peek().substr(4) == row.word) {
      spec.pads = row.pads;
      in.take();
      return ok_status();
    }
  }
  return in.error("pads as pad-none, pad-m, pad-n, pad-k, pad-mn, pad-mk or pad-nk");
}

Status parse_options(Reader& in, const text::QuantWord& quant, KernelSpec& spec) {
  SCALEGEMM_RETURN_IF_ERROR(parse_scales(in, quant, spec));
  SCALEGEMM_RETURN_IF_ERROR(parse_via(in, spec));
  SCALEGEMM_RETURN_IF_ERROR(parse_packed(in, spec));
  SCALEGEMM_RETURN_IF_ERROR(parse_count(in, "st", 1, "stages as st{number}", spec.stages));
  SCALEGEMM_RETURN_IF_ERROR(parse_cluster(in, spec));
  parse_optional(in, text::splits(), spec.split_k);
  SCALEGEMM_RETURN_IF_ERROR(
      parse_count(in, "ks", 2, "slices of K, at least 2, as ks{number}", spec.k_slices));
  parse_optional(in, text::accuracies(), spec.accuracy);
  spec.swap_ab = in.skip("swapab");
  spec.persistent = in.skip("persistent");
  spec.fused = in.skip("fused");
  spec.strided_scales = in.skip("strided");
  SCALEGEMM_RETURN_IF_ERROR(parse_pads(in, spec));
  if (!in.done()) {
    return in.error(
        "an option in the order aqg, bqg, via-, pack-, st, cl, splitk- or streamk-, ks, accuracy, swapab, "
        "persistent, fused, strided, pad-, or the target");
  }
  return ok_status();
}

Result<const text::QuantWord*> parse_quant(Reader& in) {
  std::string known;
  for (const text::QuantWord& row : text::quant_words()) {
    if (in.skip(row.word)) {
      return &row;
    }
    known += known.empty() ? "" : ", ";
    known += row.word;
  }
  return in.error("a quant word (" + known + ")");
}

Result<KernelSpec> parse_native(std::string_view text, Target target) {
  Reader in(text);
  KernelSpec spec;
  spec.target = target;
  if (!in.skip("gemm")) {
    return in.error("\"gemm\"");
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const text::QuantWord* quant, parse_quant(in));
  SCALEGEMM_RETURN_IF_ERROR(parse_types(in, spec));
  SCALEGEMM_RETURN_IF_ERROR(parse_layout(in, spec));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.pipeline, in.one_of("a pipeline", text::pipelines()));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.epilogue, in.one_of("an epilogue", text::epilogues()));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.scheduler, in.one_of("a scheduler", text::schedulers()));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.tile, in.dims("a tile"));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.warps, in.dims("warps"));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.instruction, in.dims("an instruction"));
  SCALEGEMM_RETURN_IF_ERROR(parse_options(in, *quant, spec));
  return spec;
}

}  // namespace

Result<KernelSpec> parse(std::string_view text) {
  if (text.size() > kMaxKernelName) {
    return invalid_argument("kernel name: needed at most {} characters; given {}", kMaxKernelName,
                            text.size());
  }
  const size_t cut = text.rfind('_');
  const std::string_view last = cut == text.npos ? text : text.substr(cut + 1);
  const std::string_view front = cut == text.npos ? std::string_view() : text.substr(0, cut);
  const bool amd = text::looks_like_amd(front);
  for (const TargetName& row : kTargets) {
    if (row.token == last) {
      return amd ? text::parse_amd(front, row.target) : parse_native(front, row.target);
    }
  }
  std::string tokens;
  for (const TargetName& row : kTargets) {
    tokens += tokens.empty() ? "" : ", ";
    tokens += row.token;
  }
  return invalid_argument(
      "kernel name, column {}: needed a target at the end ({}); given \"{}\"{}",
      text.size() - last.size() + 1, tokens, last.substr(0, 40),
      amd ? "; names of AMD's dispatcher do not say theirs: append _gfx942 or _gfx950" : "");
}

}  // namespace scalegemm::spec
