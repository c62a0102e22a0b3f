// fuzz_readers: everything that reads files and words of strangers.
#include <array>

#include "fuzz/target.h"

namespace scalegemm::fuzz {
namespace {

constexpr auto kTargets =
    std::to_array<MakeTarget>({safetensors_target, npy_target, kernel_name_target, scheme_target,
                               packed_target, gguf_target, quant_config_target, layers_target});

}  // namespace

std::span<const MakeTarget> targets() {
  return kTargets;
}

}  // namespace scalegemm::fuzz
