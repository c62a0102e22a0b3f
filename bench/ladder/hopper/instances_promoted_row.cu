// The default accuracy with one scale a row of A and of B: fp32 promotion every 128 K, scales in the
// epilogue.
#include "instances.h"

namespace {
using namespace scalegemm::cuda;
constexpr GemmConfig large(u32 x, u32 y, u32 stages, bool carried, u32 cx = 1) {
  return {.scale_a = Scale::kRow,
          .scale_b = Scale::kRow,
          .tile_x = x,
          .tile_y = y,
          .consumers = x == 192  ? 3u
                       : x == 64 ? 1u
                                 : 2u,
          .stages = stages,
          .cluster_x = cx,
          .promote_k = 128,
          .carried = carried};
}
constexpr GemmConfig few(u32 x, u32 y, u32 split_k, u32 ring_kilobytes) {
  return {.scale_a = Scale::kRow,
          .scale_b = Scale::kRow,
          .tile_x = x,
          .tile_y = y,
          .consumers = x / 64,
          .stages = ring_kilobytes * 1024 / ((x + y) * kStepBytes),
          .promote_k = 128,
          .split_k = split_k,
          .swap_ab = true};
}
#define FEW_SPLITS(x, y) \
  few(x, y, 1, 104), few(x, y, 2, 104), few(x, y, 4, 104), few(x, y, 8, 66), few(x, y, 1, 200)
constexpr GemmConfig kConfigs[] = {
    large(128, 128, 6, true),     large(128, 128, 6, true, 2), large(128, 112, 6, true),
    large(128, 96, 7, true),      large(128, 64, 8, true),     large(64, 128, 8, true),
    large(64, 64, 11, true),      large(64, 192, 6, false),    large(256, 128, 4, false),
    large(256, 128, 4, false, 2), large(192, 128, 4, false),   large(128, 176, 5, false),
    large(128, 192, 4, false),    FEW_SPLITS(64, 8),           FEW_SPLITS(64, 16),
    FEW_SPLITS(64, 32),           FEW_SPLITS(64, 48),          FEW_SPLITS(64, 64),
    FEW_SPLITS(64, 128),          FEW_SPLITS(128, 8),          FEW_SPLITS(128, 16),
    FEW_SPLITS(128, 64),
};
}  // namespace

#include "instances.inc"
std::vector<ladder::Instance> ladder::promoted_row_instances() {
  return all_instances();
}
