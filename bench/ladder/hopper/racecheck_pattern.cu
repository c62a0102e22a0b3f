// What compute-sanitizer's racecheck makes of the two ways to hand a buffer back to a bulk copy.
//
//     nvcc -arch=sm_90a -o pattern racecheck_pattern.cu
//     compute-sanitizer --tool racecheck ./pattern warp     1 hazard: the copy against the reads before it
//     compute-sanitizer --tool racecheck ./pattern all      none
//
// Readers wait for the copy on one mbarrier and arrive on another when they have read, which the thread that
// copies waits for. "all": every reader arrives. "warp": __syncwarp, then one lane of each warp: the same
// order in the memory model (PTX ISA, Memory Consistency Model: bar.warp.sync orders the lanes' accesses, and
// a release is cumulative), which racecheck does not follow. The kernels use "warp": an eighth of the
// arrivals.
#include <cstdint>
#include <cstdio>
#include <cstring>

constexpr int kReaders = 256, kRounds = 4, kBytes = 4 * kReaders;

__device__ uint32_t address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ void wait(uint64_t* barrier, int parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(address(barrier)), "r"(parity)
        : "memory");
}

template <bool kAll>
__global__ void pattern(const float* in, float* out) {
  __shared__ alignas(128) float buffer[kReaders];
  __shared__ alignas(8) uint64_t full, empty;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(address(&full)));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(&empty)),
                 "r"(kAll ? kReaders : kReaders / 32));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kRounds; ++i) {
    if (threadIdx.x >= kReaders) {
      if (i > 0)
        wait(&empty, (i & 1) ^ 1);
      if (threadIdx.x == kReaders) {
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address(&full)), "r"(kBytes)
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                address(buffer)),
            "l"(in + kReaders * i), "r"(kBytes), "r"(address(&full))
            : "memory");
      }
      continue;
    }
    wait(&full, i & 1);
    sum += buffer[threadIdx.x];
    __syncwarp();
    if (kAll || threadIdx.x % 32 == 0)
      asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(address(&empty)) : "memory");
  }
  if (threadIdx.x < kReaders)
    out[threadIdx.x] = sum;
}

int main(int argc, char** argv) {
  float *in = nullptr, *out = nullptr;
  cudaMalloc(&in, kRounds * kBytes), cudaMalloc(&out, kBytes), cudaMemset(in, 0, kRounds * kBytes);
  if (argc > 1 && !std::strcmp(argv[1], "all"))
    pattern<true><<<1, kReaders + 32>>>(in, out);
  else
    pattern<false><<<1, kReaders + 32>>>(in, out);
  std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
