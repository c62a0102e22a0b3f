#include "checkpoint_weight.h"

#include <fmt/format.h>

#include <algorithm>

namespace scalegemm::cli {

Checkpoint open_checkpoint(const std::string& path) {
  try {
    return Checkpoint(path);
  } catch (const Error& error) {
    if (error.status() != SCALEGEMM_UNSUPPORTED) {
      throw;
    }
    throw Failure(kExitFailure, error.what(),
                  "name a safetensors or GGUF file, or a folder of safetensors files");
  }
}

std::vector<LeftOut> left_out(const Checkpoint& checkpoint) {
  std::vector<LeftOut> list;
  const auto visit = [](const char* name, const char* type, const char* reason, void* user) -> int32_t {
    static_cast<std::vector<LeftOut>*>(user)->push_back({name, type, reason});
    return 0;
  };
  check(scalegemm_checkpoint_left_out(checkpoint.get(), visit, &list));
  return list;
}

std::string list_left_out(const Checkpoint& checkpoint) {
  constexpr size_t kShown = 8;
  const std::vector<LeftOut> list = left_out(checkpoint);
  std::string text = list.empty() ? "no tensor" : "";
  for (size_t i = 0; i < std::min(list.size(), kShown); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : ", ", list[i].name, list[i].type);
  }
  return list.size() > kShown ? fmt::format("{}, ... ({} tensors)", text, list.size()) : text;
}

std::vector<float> weight_values(const Weight& weight) {
  const scalegemm_weight_view view = weight.view();
  std::vector<float> values(static_cast<size_t>(view.n * view.k));
  const scalegemm_tensor out = scalegemm_matrix(values.data(), SCALEGEMM_F32, view.n, view.k);
  check(scalegemm_dequantize(&view.operand, &view.codes, view.scales.data != nullptr ? &view.scales : nullptr,
                             view.zeros.data != nullptr ? &view.zeros : nullptr, view.global, &out));
  if (view.columns == nullptr) {
    return values;
  }
  std::vector<float> ordered(values.size());
  for (int64_t n = 0; n < view.n; ++n) {
    for (int64_t j = 0; j < view.k; ++j) {
      ordered[static_cast<size_t>(n * view.k + view.columns[j])] =
          values[static_cast<size_t>(n * view.k + j)];
    }
  }
  return ordered;
}

}  // namespace scalegemm::cli
