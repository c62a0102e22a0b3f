// Fast accumulation, one scale a row of A and of B, bf16 out, M >= 256.
#include "instances.h"

namespace {
using namespace scalegemm::cuda;
constexpr GemmConfig cooperative(u32 x, u32 y, u32 stages, u32 cx, u32 cy) {
  return {.scale_a = Scale::kRow,
          .scale_b = Scale::kRow,
          .tile_x = x,
          .tile_y = y,
          .consumers = x == 192 ? 3u : 2u,
          .stages = stages,
          .cluster_x = cx,
          .cluster_y = cy};
}
constexpr GemmConfig pingpong(u32 x, u32 y, u32 stages, u32 cx, u32 cy) {
  return {.scale_a = Scale::kRow,
          .scale_b = Scale::kRow,
          .tile_x = x,
          .tile_y = y,
          .pingpong = true,
          .stages = stages,
          .cluster_x = cx,
          .cluster_y = cy};
}
constexpr GemmConfig kConfigs[] = {
    cooperative(128, 256, 4, 1, 1), cooperative(128, 256, 4, 2, 1), cooperative(256, 128, 4, 1, 1),
    cooperative(256, 128, 4, 1, 2), cooperative(128, 176, 5, 1, 1), cooperative(128, 64, 8, 1, 1),
    cooperative(128, 96, 7, 1, 1),  cooperative(256, 192, 3, 1, 1), cooperative(256, 176, 3, 1, 1),
    cooperative(192, 192, 4, 1, 1), cooperative(192, 176, 4, 1, 1), pingpong(128, 128, 6, 1, 1),
    pingpong(128, 128, 6, 2, 1),    pingpong(128, 128, 6, 1, 2),    pingpong(128, 160, 5, 1, 1),
    pingpong(128, 160, 5, 2, 1),    pingpong(128, 176, 5, 1, 1),    pingpong(128, 176, 5, 2, 1),
    pingpong(128, 192, 4, 1, 1),    pingpong(128, 192, 4, 2, 1),    pingpong(128, 192, 4, 1, 2),
    pingpong(64, 256, 4, 1, 1),     pingpong(64, 256, 4, 2, 1),     pingpong(128, 96, 7, 1, 1),
    pingpong(128, 144, 5, 1, 1),    pingpong(128, 168, 5, 1, 1),    pingpong(128, 184, 4, 1, 1),
    pingpong(128, 152, 5, 1, 1),    pingpong(64, 224, 5, 1, 1),     pingpong(128, 64, 8, 1, 1),
    pingpong(64, 192, 6, 1, 1),     pingpong(64, 128, 8, 1, 1),     pingpong(192, 128, 4, 1, 1),
    pingpong(192, 128, 4, 1, 2),
};
}  // namespace

#include "instances.inc"
std::vector<ladder::Instance> ladder::fast_instances() {
  return all_instances();
}
