// Words every CUDA kernel here uses. Needs no header of the toolkit: compiles under nvcc and under NVRTC with
// no include path.
#pragma once

#define SG_DEVICE __device__ __forceinline__
#define SG_CONSTEXPR __host__ __device__ constexpr

namespace scalegemm::cuda {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;

SG_CONSTEXPR u32 ceil_div(u32 a, u32 b) {
  return (a + b - 1) / b;
}
SG_CONSTEXPR u32 align_up(u32 a, u32 b) {
  return ceil_div(a, b) * b;
}
SG_CONSTEXPR u32 min_of(u32 a, u32 b) {
  return a < b ? a : b;
}
SG_CONSTEXPR u32 max_of(u32 a, u32 b) {
  return a < b ? b : a;
}

constexpr u32 kWarp = 32;        // threads
constexpr u32 kWarpgroup = 128;  // threads: the unit that issues wgmma
constexpr u32 kStepBytes = 128;  // bytes of K in one pipeline step: one 128-byte swizzle atom
constexpr u32 kMmaBytes = 32;    // bytes of K in one wgmma, for every operand type
constexpr u32 kMmaRows = 64;     // rows of one wgmma

// A tensor map (128 opaque bytes, encoded on the host by cuTensorMapEncodeTiled), passed as a
// __grid_constant__.
struct alignas(64) TensorMap {
  u8 opaque[128];
};

enum class Type : u8 { kE4m3, kE5m2, kInt8, kBf16, kF16, kF32, kInt32 };

SG_CONSTEXPR u32 bytes_of(Type t) {
  return t == Type::kF32 || t == Type::kInt32 ? 4 : t == Type::kBf16 || t == Type::kF16 ? 2 : 1;
}

}  // namespace scalegemm::cuda
