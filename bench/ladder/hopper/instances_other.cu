// The same templates with other operands, scales, outputs and promotion lengths: correctness, and a first
// timing.
#include "instances.h"

namespace {
using namespace scalegemm::cuda;
constexpr Scale kRow = Scale::kRow, kTensor = Scale::kTensor, kNone = Scale::kNone, kBlock1 = Scale::kBlock1,
                kBlock128 = Scale::kBlock128;
constexpr GemmConfig kConfigs[] = {
    {.scale_a = kTensor, .scale_b = kTensor, .cluster_x = 2},
    {.scale_a = kRow, .scale_b = kRow, .tile_x = 256, .tile_y = 128, .cluster_x = 2, .promote_k = 128},
    {.a = Type::kE4m3, .b = Type::kE5m2, .scale_a = kRow, .scale_b = kTensor},
    {.d = Type::kF32, .scale_a = kRow, .scale_b = kRow, .tile_y = 192, .promote_k = 128},
    {.a = Type::kE5m2, .b = Type::kE4m3, .d = Type::kF16, .scale_a = kTensor, .scale_b = kRow, .tile_y = 160},
    {.scale_a = kBlock1, .scale_b = kBlock1, .tile_y = 96, .promote_k = 64},
    {.d = Type::kF32, .scale_a = kBlock1, .scale_b = kBlock1, .tile_y = 96, .promote_k = 32},
    {.scale_a = kBlock1, .scale_b = kBlock128, .tile_y = 128, .promote_k = 128, .strided_scales = true},
    {.scale_a = kBlock1, .scale_b = kRow, .tile_y = 160, .stages = 5, .promote_k = 128},
    {.d = Type::kF16, .scale_a = kTensor, .scale_b = kBlock128, .tile_y = 128, .promote_k = 128},
    {.scale_a = kBlock128, .scale_b = kBlock128, .tile_y = 176, .stages = 5, .promote_k = 64},
    {.a = Type::kF16,
     .b = Type::kF16,
     .d = Type::kF16,
     .scale_a = kNone,
     .scale_b = kNone,
     .tile_y = 128,
     .stages = 6},
    {.a = Type::kBf16, .b = Type::kBf16, .scale_a = kNone, .scale_b = kNone},
    {.a = Type::kBf16, .b = Type::kBf16, .scale_a = kNone, .scale_b = kNone, .cluster_x = 2},
    {.a = Type::kBf16,
     .b = Type::kBf16,
     .scale_a = kNone,
     .scale_b = kNone,
     .tile_y = 128,
     .pingpong = true,
     .stages = 6},
    {.a = Type::kBf16,
     .b = Type::kBf16,
     .scale_a = kNone,
     .scale_b = kNone,
     .tile_y = 176,
     .pingpong = true,
     .stages = 5},
    {.a = Type::kBf16,
     .b = Type::kBf16,
     .scale_a = kNone,
     .scale_b = kNone,
     .tile_y = 160,
     .pingpong = true,
     .stages = 5},
    {.a = Type::kBf16,
     .b = Type::kBf16,
     .scale_a = kNone,
     .scale_b = kNone,
     .tile_y = 192,
     .pingpong = true,
     .stages = 4},
    {.a = Type::kBf16,
     .b = Type::kBf16,
     .scale_a = kNone,
     .scale_b = kNone,
     .tile_x = 64,
     .tile_y = 128,
     .pingpong = true,
     .stages = 8},
    {.a = Type::kInt8, .b = Type::kInt8, .scale_a = kRow, .scale_b = kRow},
    {.a = Type::kInt8,
     .b = Type::kInt8,
     .scale_a = kRow,
     .scale_b = kRow,
     .tile_y = 128,
     .pingpong = true,
     .stages = 6},
    {.a = Type::kInt8,
     .b = Type::kInt8,
     .scale_a = kRow,
     .scale_b = kRow,
     .tile_y = 176,
     .pingpong = true,
     .stages = 5},
    {.a = Type::kInt8,
     .b = Type::kInt8,
     .scale_a = kRow,
     .scale_b = kRow,
     .tile_y = 160,
     .pingpong = true,
     .stages = 5},
    {.a = Type::kInt8,
     .b = Type::kInt8,
     .scale_a = kRow,
     .scale_b = kRow,
     .tile_x = 64,
     .tile_y = 128,
     .pingpong = true,
     .stages = 8},
#define FEW(element, scale, y)                                                                             \
  {.a = Type::element,                                                                                     \
   .b = Type::element,                                                                                     \
   .scale_a = scale,                                                                                       \
   .scale_b = scale,                                                                                       \
   .tile_x = 64,                                                                                           \
   .tile_y = y,                                                                                            \
   .consumers = 1,                                                                                         \
   .stages = 832 / (64 + y),                                                                               \
   .swap_ab = true},                                                                                       \
      {.a = Type::element,                                                                                 \
       .b = Type::element,                                                                                 \
       .scale_a = scale,                                                                                   \
       .scale_b = scale,                                                                                   \
       .tile_x = 64,                                                                                       \
       .tile_y = y,                                                                                        \
       .consumers = 1,                                                                                     \
       .stages = 832 / (64 + y),                                                                           \
       .split_k = 2,                                                                                       \
       .swap_ab = true},                                                                                   \
  {                                                                                                        \
    .a = Type::element, .b = Type::element, .scale_a = scale, .scale_b = scale, .tile_x = 64, .tile_y = y, \
    .consumers = 1, .stages = 832 / (64 + y), .split_k = 4, .swap_ab = true                                \
  }
#define THIN(element, scale, y, s)                                                                         \
  {                                                                                                        \
    .a = Type::element, .b = Type::element, .scale_a = scale, .scale_b = scale, .tile_x = 64, .tile_y = y, \
    .consumers = 1, .stages = 832 / (64 + y), .split_k = s                                                 \
  }
#define WIDE(element, scale, y, s)                                                                          \
  {                                                                                                         \
    .a = Type::element, .b = Type::element, .scale_a = scale, .scale_b = scale, .tile_x = 128, .tile_y = y, \
    .stages = 832 / (128 + y), .split_k = s, .swap_ab = true                                                \
  }
    THIN(kBf16, kNone, 24, 2),
    THIN(kBf16, kNone, 24, 4),
    THIN(kInt8, kRow, 24, 2),
    THIN(kInt8, kRow, 24, 4),
    WIDE(kBf16, kNone, 8, 1),
    WIDE(kBf16, kNone, 8, 2),
    WIDE(kBf16, kNone, 16, 2),
    WIDE(kBf16, kNone, 64, 1),
    WIDE(kBf16, kNone, 64, 2),
    WIDE(kBf16, kNone, 48, 2),
    WIDE(kBf16, kNone, 48, 4),
    FEW(kBf16, kNone, 48),
    FEW(kInt8, kRow, 48),
    FEW(kBf16, kNone, 8),
    FEW(kBf16, kNone, 16),
    FEW(kBf16, kNone, 32),
    FEW(kBf16, kNone, 64),
    FEW(kBf16, kNone, 128),
    FEW(kInt8, kRow, 8),
    FEW(kInt8, kRow, 16),
    FEW(kInt8, kRow, 32),
    FEW(kInt8, kRow, 64),
    FEW(kInt8, kRow, 128),
    {.d = Type::kF32,
     .scale_a = kBlock1,
     .scale_b = kBlock128,
     .tile_x = 128,
     .tile_y = 24,
     .consumers = 1,
     .stages = 5,
     .promote_k = 128,
     .split_k = 2,
     .swap_ab = true},
};
}  // namespace

#include "instances.inc"
std::vector<ladder::Instance> ladder::other_instances() {
  return all_instances();
}
