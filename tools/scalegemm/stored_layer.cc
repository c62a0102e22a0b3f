#include "stored_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "checkpoint_weight.h"

namespace scalegemm::cli {
namespace {

std::string list_of(const std::vector<scalegemm_layer_info>& layers) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(layers.size(), kShown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", layers[i].name);
  }
  return layers.size() > kShown ? fmt::format("{}, ... ({} layers)", text, layers.size()) : text;
}

size_t find_layer(const std::vector<scalegemm_layer_info>& layers, const std::string& name,
                  const std::string& path) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (name == layers[i].name) {
      return i;
    }
  }
  throw Failure(kExitFailure,
                fmt::format("{}: needed a layer named \"{}\"; given none of that name", path, name),
                layers.empty() ? "scalegemm inspect says what it holds" : "it holds " + list_of(layers));
}

void copy(const scalegemm_tensor& from, std::vector<uint8_t>& to) {
  if (from.bytes != to.size()) {
    throw Failure(kExitFailure,
                  fmt::format("the weight: needed {} bytes; the library gives {}", to.size(), from.bytes),
                  "this is a fault of scalegemm: please report it");
  }
  if (!to.empty()) {
    std::memcpy(to.data(), from.data, to.size());
  }
}

}  // namespace

StoredLayer load_layer(const std::string& path, const std::string& name, int64_t member) {
  const Checkpoint checkpoint = open_checkpoint(path);
  const auto layers = checkpoint.layers();
  const size_t index = find_layer(layers, name, path);
  if (layers[index].problem[0] == '\0' && member >= layers[index].count) {
    throw usage_error("--member", fmt::format("less than {}", layers[index].count), std::to_string(member),
                      fmt::format("{} has matrices 0 to {}", name, layers[index].count - 1));
  }
  const Weight weight(checkpoint, static_cast<int64_t>(index), member);
  const scalegemm_weight_view view = weight.view();
  StoredLayer layer{layers[index].scheme, harness::allocate_operand(view.operand, view.n, view.k, 1), {}};
  copy(view.codes, layer.weight.codes);
  copy(view.scales, layer.weight.scales);
  copy(view.zeros, layer.weight.zeros);
  if (view.global != nullptr) {
    layer.weight.global = *view.global;
  }
  if (view.columns != nullptr) {
    layer.columns.assign(view.columns, view.columns + view.k);
  }
  return layer;
}

}  // namespace scalegemm::cli
