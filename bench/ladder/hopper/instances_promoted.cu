// Block scales 1 x 128 (A) by 128 x 128 (B), fp32 promotion every 128 K, bf16 out, M >= 256.
#include "instances.h"

namespace {
using namespace scalegemm::cuda;
constexpr GemmConfig promoted(u32 x, u32 y, u32 stages, u32 cx = 1, u32 cy = 1) {
  return {.scale_a = Scale::kBlock1,
          .scale_b = Scale::kBlock128,
          .tile_x = x,
          .tile_y = y,
          .consumers = x == 192  ? 3u
                       : x == 64 ? 1u
                                 : 2u,
          .stages = stages,
          .cluster_x = cx,
          .cluster_y = cy,
          .promote_k = 128};
}
constexpr GemmConfig carried(u32 x, u32 y, u32 stages, u32 cx = 1, u32 cy = 1) {
  GemmConfig c = promoted(x, y, stages, cx, cy);
  c.carried = true;
  return c;
}
constexpr GemmConfig kConfigs[] = {
    carried(128, 128, 6),  carried(128, 128, 5),     carried(128, 128, 6, 2),     carried(128, 112, 6),
    carried(128, 96, 7),   carried(128, 64, 8),      carried(128, 120, 6),        carried(64, 128, 8),
    carried(64, 112, 8),   carried(64, 96, 9),       carried(64, 64, 11),         promoted(64, 192, 6),
    promoted(64, 160, 7),  promoted(256, 128, 4),    promoted(256, 128, 4, 2),    promoted(256, 128, 4, 1, 2),
    promoted(192, 128, 4), promoted(192, 128, 4, 2), promoted(192, 128, 4, 1, 2), promoted(192, 112, 4),
    promoted(192, 96, 5),  promoted(128, 192, 4),    promoted(128, 176, 5),       promoted(128, 176, 5, 2),
    promoted(128, 160, 5), promoted(128, 128, 6),    promoted(256, 112, 4),       promoted(256, 120, 4),
};
}  // namespace

#include "instances.inc"
std::vector<ladder::Instance> ladder::promoted_instances() {
  return all_instances();
}
