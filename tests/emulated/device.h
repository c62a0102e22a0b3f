// CUDA's words for a kernel that is compiled for the host: every thread of a CTA is a fiber, and a shuffle or
// a barrier passes the turn on until all threads of the warp or the CTA have come to it. For kernels without
// inline PTX. Divisions and multiply-adds are IEEE here as there.
#pragma once

#include <ucontext.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "num/convert.h"

#define __device__
#define __host__
#define __global__
#define __constant__ const
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(threads)
#define __shared__ static  // CTAs run one after the other

namespace scalegemm::emulated {

struct Dim {
  unsigned x = 0;
};

// The CTA that runs now.
class Cta {
 public:
  static Cta& now();
  void run(unsigned block, unsigned threads, const std::function<void()>& body);

  // Until all threads of the group (a warp, or the CTA) wait for the same.
  void sync(unsigned first, unsigned count);
  unsigned exchange(unsigned value, unsigned mask);

  Dim thread, block;

 private:
  struct Fiber {
    ucontext_t context{};
    std::vector<char> stack = std::vector<char>(64 << 10);
    uint64_t syncs = 0;  // that it has come to
    bool done = false;
  };
  static void start();
  void yield() { swapcontext(&fibers_[thread.x].context, &scheduler_); }

  std::vector<Fiber> fibers_;
  std::vector<unsigned> slots_;
  ucontext_t scheduler_{};
  const std::function<void()>* body_ = nullptr;
};

}  // namespace scalegemm::emulated

#define threadIdx (::scalegemm::emulated::Cta::now().thread)
#define blockIdx (::scalegemm::emulated::Cta::now().block)

inline void __syncthreads() {
  scalegemm::emulated::Cta::now().sync(0, 256);
}
inline unsigned __shfl_xor_sync(unsigned, unsigned value, unsigned mask) {
  return scalegemm::emulated::Cta::now().exchange(value, mask);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<uint64_t>(high) << 32) | low) >> (shift % 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = (static_cast<uint64_t>(y) << 32) | x;
  unsigned out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    out |= static_cast<unsigned>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  }
  return out;
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __frcp_rn(float a) {
  return 1 / a;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline int __float2int_rn(float x) {
  return static_cast<int>(std::nearbyint(x));
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}

// kernels/cuda/finish.cuh has one PTX instruction outside of the code for sm_89 and later: f16 to f32.
#define asm(...) v = ::scalegemm::num::decode(::scalegemm::num::DType::kF16, bits)
