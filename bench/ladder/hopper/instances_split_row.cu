// Few tokens: weights on the row side, K split in a cluster, one scale a row.
#include "instances.h"

namespace {
using namespace scalegemm::cuda;
constexpr GemmConfig few(u32 x, u32 y, u32 split_k, u32 ring_kilobytes) {
  return {.scale_a = Scale::kRow,
          .scale_b = Scale::kRow,
          .tile_x = x,
          .tile_y = y,
          .consumers = x / 64,
          .stages = ring_kilobytes * 1024 / ((x + y) * kStepBytes),
          .split_k = split_k,
          .swap_ab = true};
}
constexpr GemmConfig thin(u32 x, u32 y, u32 split_k, u32 ring_kilobytes) {
  GemmConfig c = few(x, y, split_k, ring_kilobytes);
  c.swap_ab = false;
  return c;
}
#define FEW_SPLITS(x, y)                                                                         \
  few(x, y, 1, 104), few(x, y, 2, 104), few(x, y, 4, 104), few(x, y, 8, 104), few(x, y, 1, 200), \
      few(x, y, 2, 200), few(x, y, 4, 66), few(x, y, 8, 66), few(x, y, 1, 66), few(x, y, 2, 66)
constexpr GemmConfig kConfigs[] = {
    FEW_SPLITS(64, 8),     FEW_SPLITS(64, 16),   FEW_SPLITS(64, 32),    FEW_SPLITS(64, 48),
    FEW_SPLITS(64, 64),    FEW_SPLITS(64, 128),  FEW_SPLITS(128, 8),    FEW_SPLITS(128, 16),
    FEW_SPLITS(128, 32),   FEW_SPLITS(128, 64),  FEW_SPLITS(128, 128),  few(64, 8, 3, 104),
    few(128, 8, 3, 104),   few(128, 8, 6, 66),   few(64, 16, 3, 104),   few(128, 16, 3, 104),
    few(64, 32, 3, 104),   few(128, 32, 3, 104), few(64, 48, 3, 104),   few(128, 48, 2, 104),
    few(128, 48, 4, 66),   few(64, 64, 3, 104),  few(64, 64, 6, 66),    few(128, 64, 3, 104),
    few(128, 64, 6, 66),   few(64, 128, 3, 104), few(128, 128, 3, 104), few(128, 128, 6, 104),
    thin(64, 24, 2, 104),  thin(64, 24, 4, 104), thin(64, 32, 2, 104),  thin(64, 32, 4, 66),
    thin(128, 24, 4, 104), thin(64, 64, 4, 104),
};
}  // namespace

#include "instances.inc"
std::vector<ladder::Instance> ladder::split_row_instances() {
  return all_instances();
}
