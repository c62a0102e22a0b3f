// PTX wrappers, one instruction each (PTX ISA 8.x, sm_90a). Shared memory is named by its 32-bit address in
// the shared window, so that address arithmetic stays in one register (a uniform one where the compiler can
// prove it).
#pragma once
#include "cuda/base.cuh"

namespace scalegemm::cuda {

SG_DEVICE u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

// ---- programmatic dependent launch (PTX ISA, 9.7.13.13): a kernel launched for it may start while the one
// before it in the stream still runs. Nothing that the one before may have written is read, and nothing it
// may read is written, before wait_for_earlier(). No effect in other launches. ----
SG_DEVICE void wait_for_earlier() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
// ---- mbarrier (PTX ISA, 9.7.13.15). A phase ends when its arrivals and its transaction bytes are both
// complete. ----
SG_DEVICE void mbarrier_init(u32 bar, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals));
}
SG_DEVICE void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
SG_DEVICE void mbarrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
SG_DEVICE void mbarrier_arrive_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
// Arrives at the barrier at the same address in CTA `rank` of the cluster. No .release.cluster: the stage
// that it frees was read by wgmma (complete by wait_group) and is next written by the async proxy, so no
// ordinary write has to be published.
SG_DEVICE void mbarrier_arrive_remote(u32 bar, u32 rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(bar),
      "r"(rank)
      : "memory");
}
SG_DEVICE bool mbarrier_try_wait(u32 bar, u32 parity) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done != 0;
}
SG_DEVICE void mbarrier_wait(u32 bar, u32 parity) {
  while (!mbarrier_try_wait(bar, parity)) {
  }
}

// ---- TMA: one 2-D box from global to shared, completing on an mbarrier by bytes ----
SG_DEVICE void tma_prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
SG_DEVICE void tma_load(u32 dst, const TensorMap* map, u32 bar, u32 x, u32 y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(dst),
      "l"(map), "r"(bar), "r"(x), "r"(y)
      : "memory");
}
// The box lands at the same offset in every CTA of `mask` and completes on each one's barrier at the same
// offset.
SG_DEVICE void tma_load_multicast(u32 dst, const TensorMap* map, u32 bar, u32 x, u32 y, u16 mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(x), "r"(y), "h"(mask)
      : "memory");
}

// `bytes` contiguous bytes from global to shared; both addresses and the size are multiples of 16.
SG_DEVICE void bulk_load(u32 dst, const void* src, u32 bytes, u32 bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
      "l"(src), "r"(bytes), "r"(bar)
      : "memory");
}
// The reverse: one box from shared to global, clipped at the tensor's edges; done as a member of this
// thread's open bulk group.
SG_DEVICE void tma_store(const TensorMap* map, u32 src, u32 x, u32 y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(src), "r"(x), "r"(y)
               : "memory");
}
SG_DEVICE void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until at most kPending of this thread's bulk groups still read their source.
template <u32 kPending>
SG_DEVICE void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// Makes this thread's shared-memory writes visible to TMA and wgmma.
SG_DEVICE void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- cp.async: four bytes, any alignment of four, zero when `valid` is false ----
SG_DEVICE void cp_async_4(u32 dst, const void* src, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src), "r"(valid ? 4 : 0)
               : "memory");
}
SG_DEVICE void cp_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
// This thread's one arrival (counted in the barrier's init) happens when its earlier cp.async have landed.
SG_DEVICE void cp_async_arrive(u32 bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

// ---- wgmma ordering ----
SG_DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
SG_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <u32 kPending>
SG_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Pins accumulators behind the wait before it: without this the compiler may read them too early.
template <u32 kCount>
SG_DEVICE void pin_registers(float (&r)[kCount]) {
#pragma unroll
  for (u32 i = 0; i < kCount; ++i)
    asm volatile("" : "+f"(r[i])::"memory");
}
template <u32 kCount>
SG_DEVICE void pin_registers(i32 (&r)[kCount]) {
#pragma unroll
  for (u32 i = 0; i < kCount; ++i)
    asm volatile("" : "+r"(r[i])::"memory");
}

// ---- registers, barriers, roles ----
template <u32 kRegisters>
SG_DEVICE void registers_shrink() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <u32 kRegisters>
SG_DEVICE void registers_grow() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
SG_DEVICE void barrier_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
SG_DEVICE void barrier_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
SG_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
SG_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
SG_DEVICE u32 cluster_rank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
// The same value in every lane, and known to be so: descriptors built from it live in uniform registers.
SG_DEVICE u32 warp_uniform(u32 v) {
  return __shfl_sync(0xffffffffu, v, 0);
}

// ---- two 16-bit numbers in a word ----
SG_DEVICE u32 max_halves(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 900
  u32 d;
  asm("max.u16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
#else
  return max_of(a & 0xffff, b & 0xffff) | max_of(a >> 16, b >> 16) << 16;
#endif
}
SG_DEVICE u32 min_halves(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 900
  u32 d;
  asm("min.u16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
#else
  return min_of(a & 0xffff, b & 0xffff) | min_of(a >> 16, b >> 16) << 16;
#endif
}
SG_DEVICE u32 fma_bf16_halves(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

// ---- shared memory ----
SG_DEVICE void stmatrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0),
               "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}
SG_DEVICE float load_shared(u32 address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}
struct alignas(8) Float2 {
  float x, y;
};
SG_DEVICE Float2 load_shared_2(u32 address) {
  Float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}
struct alignas(16) U32x4 {
  u32 x, y, z, w;
};
SG_DEVICE U32x4 load_shared_16(u32 address) {
  U32x4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
SG_DEVICE void store_shared(u32 address, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}
// Reads the word at `address` of CTA `rank`'s shared memory (distributed shared memory).
SG_DEVICE float load_shared_remote(u32 address, u32 rank) {
  float v;
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %1, %2;\nld.shared::cluster.f32 %0, "
      "[remote];\n}"
      : "=f"(v)
      : "r"(address), "r"(rank)
      : "memory");
  return v;
}
SG_DEVICE U32x4 load_global_16(const void* p) {
  U32x4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
SG_DEVICE void store_global_16(void* p, U32x4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

// ---- numbers ----
// Two floats, rounded to nearest even, in one word: `low` in the low half.
SG_DEVICE u32 pack_bf16(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
SG_DEVICE u32 pack_f16(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

}  // namespace scalegemm::cuda
