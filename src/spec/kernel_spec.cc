#include "spec/kernel_spec.h"

#include <algorithm>

#include "spec/name_text.h"

namespace scalegemm::spec {
namespace {

using text::find_word;

struct LayoutWord {
  std::string_view word;
  Layouts layouts;
};
constexpr LayoutWord kLayoutWords[] = {
    {"rcr", {Layout::kRow, Layout::kCol}},
    {"rrr", {Layout::kRow, Layout::kRow}},
    {"crr", {Layout::kCol, Layout::kRow}},
    {"ccr", {Layout::kCol, Layout::kCol}},
};

std::string_view type_word(const std::optional<DType>& type) {
  return type ? find_word(text::dtypes(), *type) : std::string_view("any");
}

std::string block_word(int64_t block) {
  return block == kAll ? std::string("all") : std::to_string(block);
}

// "-e8m0-zuint4-global": what of a scale is not the default f32 without zero points.
std::string scale_suffix(const ScaleSpec& scale) {
  std::string text;
  if (scale.type != DType::kF32) {
    text += fmt::format("-{}", type_word(scale.type));
  }
  if (scale.zero_type) {
    text += fmt::format("-z{}", type_word(scale.zero_type));
  }
  return text + (scale.global ? "-global" : "");
}

// Groups are written M x N x K, as the field does: A has rows along M, B along N.
std::string scale_options(const KernelSpec& spec) {
  const text::QuantWord& row = text::quant_row(spec);
  std::string text;
  if (row.names_a) {
    const ScaleSpec& s = *spec.a_scale;
    text += fmt::format("_aqg{}x1x{}{}", block_word(s.block_rows), block_word(s.block_k), scale_suffix(s));
  }
  if (row.names_b) {
    const ScaleSpec& s = *spec.b_scale;
    text += fmt::format("_bqg1x{}x{}{}", block_word(s.block_rows), block_word(s.block_k), scale_suffix(s));
  }
  return text;
}

std::string pad_option(const Pads& pads) {
  if (pads == Pads{}) {
    return "";
  }
  std::string text = "_pad-";
  text += pads.m ? "m" : "";
  text += pads.n ? "n" : "";
  text += pads.k ? "k" : "";
  return pads == Pads{false, false, false} ? "_pad-none" : text;
}

std::string options(const KernelSpec& spec) {
  std::string text = scale_options(spec);
  if (spec.via) {
    text += fmt::format("_via-{}", type_word(spec.via));
  }
  if (spec.packed != default_packed(spec.pipeline, spec.b)) {
    text += fmt::format("_pack-{}", to_string(spec.packed));
  }
  if (spec.stages != 0) {
    text += fmt::format("_st{}", spec.stages);
  }
  if (spec.cluster_m != 1 || spec.cluster_n != 1) {
    text += fmt::format("_cl{}x{}", spec.cluster_m, spec.cluster_n);
  }
  if (spec.split_k != SplitK::kNone) {
    text += fmt::format("_{}", to_string(spec.split_k));
  }
  if (spec.k_slices != 1) {
    text += fmt::format("_ks{}", spec.k_slices);
  }
  if (spec.accuracy != Accuracy::kPromoted) {
    text += fmt::format("_{}", to_string(spec.accuracy));
  }
  text += spec.swap_ab ? "_swapab" : "";
  text += spec.persistent ? "_persistent" : "";
  text += spec.fused ? "_fused" : "";
  text += spec.strided_scales ? "_strided" : "";
  return text + pad_option(spec.pads);
}

Status check_size(std::string_view argument, int64_t value, int64_t low) {
  if (value < low || value > text::kMaxSize) {
    return invalid_argument("kernel spec, {}: needed {} to {}; given {}", argument, low, text::kMaxSize,
                            value);
  }
  return ok_status();
}

Status check_dims(std::string_view argument, const Dims& dims) {
  for (int value : {dims.m, dims.n, dims.k}) {
    SCALEGEMM_RETURN_IF_ERROR(check_size(argument, value, 1));
  }
  return ok_status();
}

Status check_scale(std::string_view argument, const std::optional<ScaleSpec>& scale) {
  if (!scale) {
    return ok_status();
  }
  SCALEGEMM_RETURN_IF_ERROR(check_size(argument, scale->block_rows, kAll));
  return check_size(argument, scale->block_k, kAll);
}

}  // namespace

Packing default_packed(Pipeline pipeline, std::optional<DType> b) {
  switch (pipeline) {
    case Pipeline::kF32Fma:
      return Packing::kPanelK1x32;
    case Pipeline::kBf16Dot:  // the other layout is one of bytes
      return b == DType::kBf16 ? Packing::kPanelK1x32 : Packing::kPanelK4x16;
    case Pipeline::kI8Dot:
      return Packing::kPanelK4x16;
    default:
      return Packing::kRaw;
  }
}

std::string_view to_string(Pipeline pipeline) {
  return find_word(text::pipelines(), pipeline);
}
std::string_view to_string(EpilogueKind epilogue) {
  return find_word(text::epilogues(), epilogue);
}
std::string_view to_string(Scheduler scheduler) {
  return find_word(text::schedulers(), scheduler);
}
std::string_view to_string(SplitK split) {
  return find_word(text::splits(), split);
}
std::string_view to_string(Packing packed) {
  return packed == Packing::kChosen ? "chosen" : find_word(text::packings(), packed);
}
std::string_view to_string(Accuracy accuracy) {
  return find_word(text::accuracies(), accuracy);
}
std::string to_string(const Dims& dims) {
  return fmt::format("{}x{}x{}", dims.m, dims.n, dims.k);
}

std::string_view layout_word(const Layouts& layouts) {
  for (const LayoutWord& row : kLayoutWords) {
    if (row.layouts == layouts) {
      return row.word;
    }
  }
  return "?";
}

std::optional<Layouts> parse_layout_word(std::string_view word) {
  for (const LayoutWord& row : kLayoutWords) {
    if (row.word == word) {
      return row.layouts;
    }
  }
  return std::nullopt;
}

std::string_view quant_word(const KernelSpec& spec) {
  return text::quant_row(spec).word;
}

Status check(const KernelSpec& spec) {
  if (spec.scales == Scales::kRunTime && (spec.a_scale || spec.b_scale)) {
    return invalid_argument(
        "kernel spec, scales: needed no a_scale and b_scale where scales are a run-time "
        "argument; given {}",
        spec.a_scale ? "a_scale" : "b_scale");
  }
  SCALEGEMM_RETURN_IF_ERROR(check_scale("a_scale block", spec.a_scale));
  SCALEGEMM_RETURN_IF_ERROR(check_scale("b_scale block", spec.b_scale));
  SCALEGEMM_RETURN_IF_ERROR(check_dims("tile", spec.tile));
  SCALEGEMM_RETURN_IF_ERROR(check_dims("warps", spec.warps));
  SCALEGEMM_RETURN_IF_ERROR(check_dims("instruction", spec.instruction));
  if (spec.packed == Packing::kChosen) {
    return invalid_argument("kernel spec, packed: needed a layout; given {}", to_string(spec.packed));
  }
  SCALEGEMM_RETURN_IF_ERROR(check_size("stages", spec.stages, 0));
  SCALEGEMM_RETURN_IF_ERROR(check_size("cluster_m", spec.cluster_m, 1));
  SCALEGEMM_RETURN_IF_ERROR(check_size("k_slices", spec.k_slices, 1));
  return check_size("cluster_n", spec.cluster_n, 1);
}

std::string name(const KernelSpec& spec) {
  const std::string_view layout = spec.layouts ? layout_word(*spec.layouts) : std::string_view("any");
  return fmt::format("gemm_{}_{}-{}-{}_{}_{}_{}_{}_{}_{}_{}{}_{}", quant_word(spec), type_word(spec.a),
                     type_word(spec.b), type_word(spec.d), layout, to_string(spec.pipeline),
                     to_string(spec.epilogue), to_string(spec.scheduler), to_string(spec.tile),
                     to_string(spec.warps), to_string(spec.instruction), options(spec),
                     target_row(spec.target).token);
}

std::string symbol_name(const KernelSpec& spec) {
  std::string symbol;
  for (char c : name(spec)) {
    symbol += c == '-' ? "__" : std::string(1, c);
  }
  return symbol;
}

}  // namespace scalegemm::spec
