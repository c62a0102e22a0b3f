#include "checkpoint/detect.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "checkpoint/form.h"
#include "checkpoint/printable.h"
#include "spec/scheme.h"

namespace scalegemm::checkpoint {
namespace {

using num::DType;

constexpr int64_t kMx = 32;
constexpr int64_t kNv = 16;

bool is_wide_float(const StoredTensor& tensor) {
  return tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBf16;
}

bool is_fp8(const StoredTensor& tensor) {
  return tensor.dtype == DType::kE4m3 || tensor.dtype == DType::kE5m2 || tensor.dtype == DType::kE4m3Fnuz ||
         tensor.dtype == DType::kE5m2Fnuz;
}

bool is_bytes(const StoredTensor& tensor) {
  return tensor.type == "U8" || tensor.type == "I8";
}

bool is_e8m0(const StoredTensor& tensor) {
  return tensor.type == "U8" || tensor.dtype == DType::kE8m0;
}

bool has_shape(const StoredTensor& tensor, std::initializer_list<int64_t> shape) {
  return std::ranges::equal(tensor.shape, shape);
}

// 0 when any extent is, without a look at the others, whose product nothing has checked then.
int64_t elements(const StoredTensor& tensor) {
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) {
    return 0;
  }
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) {
    count *= extent;
  }
  return count;
}

uint32_t word(const StoredTensor& tensor, int64_t index) {
  uint32_t value = 0;
  std::memcpy(&value, tensor.bytes.data() + index * 4, sizeof value);
  return value;
}

// Names of tensors that belong to a weight; one that no layer took has lost its weight.
constexpr std::string_view kPartEndings[] = {
    "_scale_inv",  "_scale", "_scale_2", "_scales", ".scales", ".scale",  "_global_scale", ".qzeros",
    "_zero_point", "_g_idx", ".g_idx",   "_shape",  ".zero",   ".global", ".types"};

class Detector {
 public:
  explicit Detector(const TensorStore& store) : store_(store) {}

  Contents run() {
    for (const StoredTensor& tensor : store_.tensors()) {
      if (store_.is_gguf()) {
        gguf(tensor);
      } else {
        weight(tensor);
      }
    }
    for (const StoredTensor& tensor : store_.tensors()) {
      if (!used_.contains(&tensor)) {
        rest(tensor);
      }
    }
    std::ranges::sort(contents_.layers, {}, &Layer::name);
    return std::move(contents_);
  }

 private:
  // Layers that need more than one tensor, or a type that says it all, by the tensor of their codes.
  void weight(const StoredTensor& tensor) {
    const std::string_view name = tensor.name;
    const auto without = [&](std::string_view ending) {
      return std::string(name.substr(0, name.size() - ending.size()));
    };
    if (name.ends_with(".qweight")) {
      words(tensor, without(".qweight"));
    } else if (name.ends_with(".weight_packed")) {
      packed(tensor, without(".weight_packed"));
    } else if (name.ends_with("_blocks") || name.ends_with(".blocks")) {
      mx_blocks(tensor, without("_blocks"));
    } else if (is_fp8(tensor) || is_bytes(tensor) || tensor.type == "F4") {
      if (!is_part(name)) {
        scaled(tensor, name.ends_with(".weight") ? without(".weight") : std::string(name));
      }
    }
  }

  static bool is_part(std::string_view name) {
    return std::ranges::any_of(kPartEndings, [&](std::string_view ending) { return name.ends_with(ending); });
  }

  // The tensor of that name, noted as a part of `layer`.
  const StoredTensor* take(Layer& layer, const std::string& name) {
    const StoredTensor* tensor = store_.find(name);
    if (tensor != nullptr) {
      use(layer, *tensor);
    }
    return tensor;
  }

  void use(Layer& layer, const StoredTensor& tensor) {
    used_.insert(&tensor);
    layer.bytes += tensor.bytes.size();
    parts_.push_back(&tensor);
  }

  Layer start(const StoredTensor& codes, const std::string& name) {
    parts_.clear();
    Layer layer;
    layer.name = name;
    layer.source.codes = &codes;
    use(layer, codes);
    return layer;
  }

  // What was found, for a refusal.
  std::string facts() const {
    std::string text;
    for (const StoredTensor* part : parts_) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(part->name), describe(*part));
    }
    const QuantConfig& config = store_.config();
    return config.method.empty() ? text + "; no quantisation config"
                                 : fmt::format("{}; {} says {} {}", text, config.where,
                                               printable(config.method), printable(config.format));
  }

  void refuse(Layer layer, std::string_view needed) {
    layer.problem = fmt::format("layer {}: needed {}; found {}", printable(layer.name), needed, facts());
    contents_.layers.push_back(std::move(layer));
  }

  void finish(Layer layer, std::string_view format, const Form& form) {
    const Result<spec::Scheme> scheme = spec::parse_scheme(scheme_text(form));
    if (!scheme.ok()) {
      return refuse(std::move(layer), "a form that a scheme has (" + scheme.status().message() + ")");
    }
    layer.format = format;
    layer.scheme = scheme->text;
    layer.operand = scheme->b;
    if (num::is_packed4(form.code) && layer.k % 2 != 0) {
      return refuse(std::move(layer), fmt::format("an even K for {}", num::name(form.code)));
    }
    contents_.layers.push_back(std::move(layer));
  }

  // A method that the config names, when it names any, must be one of these.
  bool config_allows(std::initializer_list<std::string_view> methods) const {
    const std::string& method = store_.config().method;
    return method.empty() || std::ranges::find(methods, method) != methods.end();
  }

  Blocks config_blocks() const { return {store_.config().block_n, store_.config().block_k}; }

  Activations activations_or(Activations unsaid) const {
    switch (store_.config().quantised_activations) {
      case Tristate::kYes:
        return Activations::kNarrow;
      case Tristate::kNo:
        return Activations::kWide;
      case Tristate::kUnknown:
        break;
    }
    return unsaid;
  }

  // gpt-oss: U8 [experts, N, K/32, 16] and the exponents U8 [experts, N, K/32].
  void mx_blocks(const StoredTensor& blocks, const std::string& stem) {
    const bool dotted = blocks.name.ends_with(".blocks");
    Layer layer = start(blocks, stem);
    layer.source.scales = take(layer, stem + (dotted ? ".scales" : "_scales"));
    const StoredTensor* scales = layer.source.scales;
    const auto shape = blocks.shape;
    if (scales == nullptr || blocks.type != "U8" || !is_e8m0(*scales) || shape.size() != 4 ||
        shape[3] != kMx / 2 || !has_shape(*scales, {shape[0], shape[1], shape[2]}) || elements(blocks) == 0 ||
        !config_allows({"mxfp4"})) {
      return refuse(std::move(layer),
                    "U8 blocks [E, N, K/32, 16] with U8 scales [E, N, K/32] and, if any, quant_method mxfp4");
    }
    layer.count = shape[0];
    layer.n = shape[1];
    layer.k = shape[2] * kMx;
    if (stem.find("gate_up") != std::string::npos || stem.find("mlp1") != std::string::npos) {
      layer.note = "rows of gate and up alternate";
    }
    finish(std::move(layer), "gpt-oss MXFP4", mxfp4_form(Activations::kWide));
  }

  // X.weight_packed of compressed-tensors: int4 in I32 words, nvfp4, mxfp4.
  void packed(const StoredTensor& codes, const std::string& stem) {
    Layer layer = start(codes, stem);
    LayerSource& source = layer.source;
    source.scales = take(layer, stem + ".weight_scale");
    source.global = take(layer, stem + ".weight_global_scale");
    source.global_divides = true;
    const bool inputs = take(layer, stem + ".input_global_scale") != nullptr;
    if (source.scales == nullptr || codes.shape.size() != 2 || elements(codes) == 0 ||
        !config_allows({"compressed-tensors"})) {
      return refuse(std::move(layer),
                    "2-D codes with a weight_scale and, if any, quant_method compressed-tensors");
    }
    if (codes.type == "I32") {
      return packed_int4(std::move(layer), stem);
    }
    layer.n = codes.shape[0];
    layer.k = codes.shape[1] * 2;
    const int64_t n = layer.n;
    const int64_t k = layer.k;
    if (codes.type == "U8" && source.scales->dtype == DType::kE4m3 && source.global != nullptr &&
        is_factor(*source.global) && has_shape(*source.scales, {n, ceil_div(k, kNv)})) {
      return finish(std::move(layer), "compressed-tensors NVFP4",
                    nvfp4_form(inputs ? Activations::kNarrow : Activations::kWide));
    }
    if (codes.type == "U8" && is_e8m0(*source.scales) && source.global == nullptr &&
        has_shape(*source.scales, {n, ceil_div(k, kMx)})) {
      return finish(std::move(layer), "compressed-tensors MXFP4",
                    mxfp4_form(activations_or(Activations::kWide)));
    }
    refuse(std::move(layer),
           "I32 [N, K/8] (int4), U8 [N, K/2] with F8_E4M3 scales [N, K/16] and an F32 weight_global_scale "
           "(nvfp4), or with U8 scales [N, K/32] (mxfp4)");
  }

  static bool is_factor(const StoredTensor& tensor) {
    return tensor.dtype == DType::kF32 && elements(tensor) == 1;
  }

  void packed_int4(Layer layer, const std::string& stem) {
    LayerSource& source = layer.source;
    const StoredTensor* shape = take(layer, stem + ".weight_shape");
    source.zeros = take(layer, stem + ".weight_zero_point");
    const StoredTensor* groups = take(layer, stem + ".weight_g_idx");
    if (shape == nullptr || elements(*shape) != 2 || (shape->type != "I64" && shape->type != "I32") ||
        source.global != nullptr) {
      return refuse(std::move(layer), "an I64 weight_shape [2] and no weight_global_scale beside int4");
    }
    int64_t extents[2] = {};
    for (int64_t i = 0; i < 2; ++i) {
      if (shape->type == "I64") {
        std::memcpy(&extents[i], shape->bytes.data() + i * 8, 8);
      } else {
        extents[i] = static_cast<int32_t>(word(*shape, i));
      }
    }
    layer.n = source.codes->shape[0];
    layer.k = extents[1];
    const int64_t columns = source.codes->shape[1];
    const bool scales_fit = is_wide_float(*source.scales) && source.scales->shape.size() == 2 &&
                            source.scales->shape[0] == layer.n && source.scales->shape[1] > 0;
    if (extents[0] != layer.n || extents[1] < 1 || ceil_div(extents[1], 8) != columns || !scales_fit ||
        layer.k % source.scales->shape[1] != 0) {
      return refuse(std::move(layer),
                    fmt::format("4-bit codes I32 [N, ceil(K/8)] and float scales [N, K/group] for the "
                                "weight_shape [{}, {}]",
                                extents[0], extents[1]));
    }
    const int64_t grid = source.scales->shape[1];
    if (source.zeros != nullptr &&
        (source.zeros->type != "I32" || !has_shape(*source.zeros, {ceil_div(layer.n, 8), grid}))) {
      return refuse(std::move(layer), "an I32 weight_zero_point [ceil(N/8), K/group]");
    }
    source.order = CodeOrder::kWordsAlongK;
    source.flip = source.zeros != nullptr ? 0 : 0x88;
    const int64_t group = grid == 1 ? spec::kAll : layer.k / grid;
    if (!order_groups(layer, groups, layer.k / grid)) {
      return;
    }
    const bool zeros = source.zeros != nullptr;
    const Form form = {.code = zeros ? DType::kUint4 : DType::kInt4,
                       .scale = source.scales->dtype,
                       .block_n = 1,
                       .block_k = group,
                       .zero = zeros ? std::optional(DType::kUint4) : std::nullopt};
    finish(std::move(layer), "compressed-tensors INT4", form);
  }

  // Notes columns that are not in the order of their groups; false (and a refusal) when they fit no grid.
  bool order_groups(Layer& layer, const StoredTensor* groups, int64_t group) {
    if (groups == nullptr) {
      return true;
    }
    if (groups->type != "I32" || !has_shape(*groups, {layer.k}) ||
        layer.k > std::numeric_limits<int32_t>::max()) {
      refuse(std::move(layer), "an I32 g_idx [K], K below 2^31");
      return false;
    }
    bool in_order = true;
    for (int64_t k = 0; k < layer.k && in_order; ++k) {
      in_order = word(*groups, k) == static_cast<uint32_t>(k / group);
    }
    if (in_order) {
      return true;
    }
    const auto columns = sort_by_group(*groups, layer.k, group);
    if (!columns.ok()) {
      refuse(std::move(layer), columns.status().message());
      return false;
    }
    layer.source.group_of_k = groups;
    layer.note = "act-order: gather the columns of activations";
    return true;
  }

  // X.qweight: GPTQ packs down K, AWQ along N; the shapes tell them apart.
  void words(const StoredTensor& codes, const std::string& stem) {
    Layer layer = start(codes, stem);
    LayerSource& source = layer.source;
    source.scales = take(layer, stem + ".scales");
    source.zeros = take(layer, stem + ".qzeros");
    const StoredTensor* groups = take(layer, stem + ".g_idx");
    constexpr std::string_view kNeeded =
        "GPTQ (qweight I32 [K/8, N], qzeros I32 [K/group, N/8], scales F16 [K/group, N], checkpoint_format "
        "gptq or "
        "gptq_v2) or AWQ GEMM (qweight I32 [K, N/8]) with 4 bits";
    const int64_t bits = store_.config().bits;
    if (source.scales == nullptr || source.zeros == nullptr || codes.type != "I32" ||
        source.zeros->type != "I32" || !is_wide_float(*source.scales) || codes.shape.size() != 2 ||
        source.scales->shape.size() != 2 || elements(codes) == 0 || elements(*source.scales) == 0 ||
        (bits != 0 && bits != 4)) {
      return refuse(std::move(layer), kNeeded);
    }
    layer.n = source.scales->shape[1];
    const int64_t grid = source.scales->shape[0];
    const bool gptq = codes.shape[1] == layer.n;
    const bool awq = layer.n % 8 == 0 && codes.shape[1] == layer.n / 8;
    layer.k = gptq ? codes.shape[0] * 8 : codes.shape[0];
    if ((!gptq && !awq) || layer.k % grid != 0 || layer.n % 8 != 0 ||
        !has_shape(*source.zeros, {grid, layer.n / 8}) || !config_allows({gptq ? "gptq" : "awq"})) {
      return refuse(std::move(layer), kNeeded);
    }
    source.order = gptq ? CodeOrder::kWordsDownK : CodeOrder::kWordsAlongN;
    std::string_view format = "AWQ";
    if (gptq && !gptq_version(layer, &format)) {
      return refuse(std::move(layer), kNeeded);
    }
    const std::string& version = store_.config().format;
    if (awq && !version.empty() && version != "gemm" && version != "GEMM") {
      return refuse(std::move(layer), kNeeded);
    }
    if (!order_groups(layer, groups, layer.k / grid)) {
      return;
    }
    // Zero points of GPTQ v1 reach 16, which uint4 does not.
    const bool wide_zero = source.zero_bias != 0 && has_nibble_15(*source.zeros);
    const Form form = {.code = DType::kUint4,
                       .scale = source.scales->dtype,
                       .block_n = 1,
                       .block_k = grid == 1 ? spec::kAll : layer.k / grid,
                       .zero = wide_zero ? DType::kInt8 : DType::kUint4};
    finish(std::move(layer), format, form);
  }

  // Both versions have the same tensors, so only the config can tell. Tools older than the field write v1.
  bool gptq_version(Layer& layer, std::string_view* format) const {
    const QuantConfig& config = store_.config();
    const bool v2 = config.format == "gptq_v2";
    if (config.method != "gptq" || (!v2 && config.format != "gptq" && !config.format.empty())) {
      return false;
    }
    layer.source.zero_bias = v2 ? 0 : 1;
    *format = v2 ? "GPTQ v2" : "GPTQ v1";
    return true;
  }

  static bool has_nibble_15(const StoredTensor& zeros) {
    return std::ranges::any_of(zeros.bytes, [](std::byte b) {
      return (b & std::byte{0xF}) == std::byte{0xF} || (b >> 4) == std::byte{0xF};
    });
  }

  // Codes of a byte or half a byte with a scale beside them: DeepSeek, compressed-tensors FP8 and INT8,
  // ModelOpt, Quark, MX.
  void scaled(const StoredTensor& codes, const std::string& stem) {
    Layer layer = start(codes, stem);
    const std::string name(codes.name);
    std::vector<const StoredTensor*> scales;
    for (const std::string& candidate :
         std::set<std::string>{name + "_scale_inv", name + "_scale", name + ".scale", stem + ".scale"}) {
      if (const StoredTensor* scale = take(layer, candidate)) {
        scales.push_back(scale);
      }
    }
    LayerSource& source = layer.source;
    source.global = take(layer, name + "_scale_2");
    const bool inputs = take(layer, stem + ".input_scale") != nullptr;
    const bool zeros = take(layer, name + "_zero_point") != nullptr ||
                       take(layer, name + ".zero") != nullptr || take(layer, name + ".global") != nullptr ||
                       take(layer, name + ".types") != nullptr;
    if (scales.empty() && store_.config().method.empty() && is_fp8(codes) && codes.shape.size() == 2 &&
        elements(codes) > 0) {
      layer.n = codes.shape[0];
      layer.k = codes.shape[1];
      layer.note = "no scales";
      return finish(std::move(layer), "plain", {.code = *codes.dtype});
    }
    const bool named_weight = name.ends_with(".weight") && !store_.config().method.empty();
    if (scales.empty() && !is_fp8(codes) &&
        !named_weight) {  // any bytes: nothing says that they are a weight
      used_.erase(&codes);
      return;
    }
    if (scales.size() != 1 || zeros || codes.shape.size() != 2 || elements(codes) == 0) {
      return refuse(std::move(layer), "2-D codes with one scale tensor and no zero points");
    }
    source.scales = scales[0];
    layer.n = codes.shape[0];
    layer.k = codes.shape[1];
    if (is_fp8(codes) || (codes.type == "I8" && is_wide_float(*source.scales))) {
      return scaled_bytes(std::move(layer));
    }
    scaled_nibbles(std::move(layer), inputs);
  }

  std::string_view format_name() const {
    const std::string& method = store_.config().method;
    return method == "fp8" ? "DeepSeek" : method.empty() ? "scaled" : std::string_view(method);
  }

  void scaled_bytes(Layer layer) {
    const StoredTensor& codes = *layer.source.codes;
    const StoredTensor& scales = *layer.source.scales;
    const std::string format = fmt::format("{} {}", format_name(), num::name(*codes.dtype));
    if (layer.source.global == nullptr && is_e8m0(scales)) {
      const bool mx = has_shape(scales, {layer.n, ceil_div(layer.k, kMx)});
      const auto blocks =
          mx ? std::optional(Blocks{1, kMx}) : blocks_of(layer.n, layer.k, scales.shape, config_blocks());
      if (blocks && (mx || scales.dtype == DType::kE8m0)) {
        return finish(std::move(layer), format,
                      {.code = *codes.dtype,
                       .scale = DType::kE8m0,
                       .block_n = blocks->n,
                       .block_k = blocks->k,
                       .activations = activations_or(mx ? Activations::kNarrow : Activations::kWide)});
      }
    }
    const auto blocks = blocks_of(layer.n, layer.k, scales.shape, config_blocks());
    if (layer.source.global != nullptr || !is_wide_float(scales) || !blocks ||
        !config_allows({"fp8", "compressed-tensors", "modelopt", "quark", "fbgemm_fp8"})) {
      return refuse(
          std::move(layer),
          "scales that are one float, one a row, one a block of the config's weight_block_size (or of the "
          "only power of two from 16 to 256 that fits), or e8m0 [N, K/32]");
    }
    const Activations activations = activations_or(Activations::kNarrow);
    const bool f32 = activations == Activations::kNarrow;
    finish(std::move(layer), format,
           {.code = *codes.dtype,
            .scale = f32 ? DType::kF32 : *scales.dtype,
            .block_n = blocks->n,
            .block_k = blocks->k,
            .activations = activations});
  }

  void scaled_nibbles(Layer layer, bool inputs) {
    const StoredTensor& codes = *layer.source.codes;
    const StoredTensor& scales = *layer.source.scales;
    const StoredTensor* global = layer.source.global;
    layer.k = codes.type == "F4" ? layer.k : layer.k * 2;
    if (global != nullptr && is_factor(*global) && scales.dtype == DType::kE4m3 && codes.type != "I8" &&
        has_shape(scales, {layer.n, ceil_div(layer.k, kNv)}) &&
        config_allows({"modelopt", "modelopt_fp4", "quark"})) {
      return finish(std::move(layer),
                    fmt::format("{} NVFP4", store_.config().method.empty() ? "ModelOpt" : format_name()),
                    nvfp4_form(inputs ? Activations::kNarrow : Activations::kWide));
    }
    if (global == nullptr && is_e8m0(scales) && has_shape(scales, {layer.n, ceil_div(layer.k, kMx)}) &&
        config_allows({"quark", "fp8", "mxfp4", "modelopt"})) {
      return finish(std::move(layer), fmt::format("{} MXFP4", format_name()),
                    mxfp4_form(activations_or(Activations::kWide)));
    }
    refuse(
        std::move(layer),
        "4-bit codes U8 [N, K/2] with F8_E4M3 scales [N, K/16] and an F32 weight_scale_2 (NVFP4), or with U8 "
        "or F8_E8M0 scales [N, K/32] and none (MXFP4)");
  }

  // GGUF: the type says it all. Three dimensions are experts.
  void gguf(const StoredTensor& tensor) {
    const bool blocks = tensor.type == "Q4_0" || tensor.type == "Q8_0" || tensor.type == "MXFP4";
    const size_t rank = tensor.shape.size();
    if (tensor.dtype || rank < 2 || rank > 3 || elements(tensor) == 0) {
      return;  // rest() looks at it
    }
    const std::string_view name = tensor.name;
    Layer layer =
        start(tensor, std::string(name.substr(0, name.ends_with(".weight") ? name.size() - 7 : name.size())));
    layer.k = tensor.shape[rank - 1];
    layer.n = tensor.shape[rank - 2];
    layer.count = rank == 3 ? tensor.shape[0] : 1;
    if (!blocks) {
      return refuse(std::move(layer), "one of Q4_0, Q8_0, MXFP4, F16, BF16, F32");
    }
    layer.source.order = tensor.type == "Q8_0" ? CodeOrder::kByteBlocks : CodeOrder::kNibbleBlocks;
    layer.source.flip = tensor.type == "Q4_0" ? 0x88 : 0;
    const std::string format = fmt::format("GGUF {}", tensor.type);
    if (tensor.type == "MXFP4") {
      return finish(std::move(layer), format, mxfp4_form(Activations::kWide));
    }
    finish(std::move(layer), format,
           {.code = tensor.type == "Q4_0" ? DType::kInt4 : DType::kInt8,
            .scale = DType::kF16,
            .block_n = 1,
            .block_k = 32});
  }

  // What no layer took: a matrix of floats is a weight by itself.
  void rest(const StoredTensor& tensor) {
    if (is_part(tensor.name)) {
      contents_.left_out.push_back({&tensor, "a part of a quantised weight that is not there"});
    } else if (!is_wide_float(tensor)) {
      contents_.left_out.push_back({&tensor, "holds no float weights"});
    } else if (tensor.shape.size() != 2 || elements(tensor) == 0) {
      contents_.left_out.push_back({&tensor, "is no matrix"});
    } else {
      const std::string_view name = tensor.name;
      Layer layer = start(
          tensor, std::string(name.substr(0, name.ends_with(".weight") ? name.size() - 7 : name.size())));
      layer.n = tensor.shape[0];
      layer.k = tensor.shape[1];
      finish(std::move(layer), "plain", {.code = *tensor.dtype});
    }
  }

  const TensorStore& store_;
  Contents contents_;
  std::set<const StoredTensor*> used_;
  std::vector<const StoredTensor*> parts_;  // of the layer at hand
};

}  // namespace

Contents detect(const TensorStore& store) {
  return Detector(store).run();
}

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  SCALEGEMM_ASSIGN_OR_RETURN(TensorStore store, TensorStore::open(path));
  Contents contents = detect(store);
  return Checkpoint(std::move(store),
                    std::move(contents));  // moving a store keeps its tensors where they are
}

}  // namespace scalegemm::checkpoint
