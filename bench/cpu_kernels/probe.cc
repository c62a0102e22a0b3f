#include "cpu_kernels/probe.h"

#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace scalegemm::bench {
namespace {

constexpr int kRounds = 7;
constexpr int kSteps = 500000;

// Twelve independent chains: more than latency (4) times rate (2).
__attribute__((target("avx512f"))) void fma_512() {
  for (int i = 0; i < kSteps; ++i) {
    asm volatile(
        "vfmadd231ps %%zmm30,%%zmm31,%%zmm0\n vfmadd231ps %%zmm30,%%zmm31,%%zmm1\n"
        "vfmadd231ps %%zmm30,%%zmm31,%%zmm2\n vfmadd231ps %%zmm30,%%zmm31,%%zmm3\n"
        "vfmadd231ps %%zmm30,%%zmm31,%%zmm4\n vfmadd231ps %%zmm30,%%zmm31,%%zmm5\n"
        "vfmadd231ps %%zmm30,%%zmm31,%%zmm6\n vfmadd231ps %%zmm30,%%zmm31,%%zmm7\n"
        "vfmadd231ps %%zmm30,%%zmm31,%%zmm8\n vfmadd231ps %%zmm30,%%zmm31,%%zmm9\n"
        "vfmadd231ps %%zmm30,%%zmm31,%%zmm10\n vfmadd231ps %%zmm30,%%zmm31,%%zmm11\n" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
              "xmm11");
  }
}

__attribute__((target("avx2,fma"))) void fma_256() {
  for (int i = 0; i < kSteps; ++i) {
    asm volatile(
        "vfmadd231ps %%ymm14,%%ymm15,%%ymm0\n vfmadd231ps %%ymm14,%%ymm15,%%ymm1\n"
        "vfmadd231ps %%ymm14,%%ymm15,%%ymm2\n vfmadd231ps %%ymm14,%%ymm15,%%ymm3\n"
        "vfmadd231ps %%ymm14,%%ymm15,%%ymm4\n vfmadd231ps %%ymm14,%%ymm15,%%ymm5\n"
        "vfmadd231ps %%ymm14,%%ymm15,%%ymm6\n vfmadd231ps %%ymm14,%%ymm15,%%ymm7\n"
        "vfmadd231ps %%ymm14,%%ymm15,%%ymm8\n vfmadd231ps %%ymm14,%%ymm15,%%ymm9\n"
        "vfmadd231ps %%ymm14,%%ymm15,%%ymm10\n vfmadd231ps %%ymm14,%%ymm15,%%ymm11\n" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
              "xmm11");
  }
}

double rate(void (*body)(), int lanes) {
  double best = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    const double start = seconds();
    body();
    best = std::min(best, seconds() - start);
  }
  return 12.0 * kSteps * lanes * 2 / best * 1e-9;
}

// Four streams at once, as the M <= 4 kernels read four panels.
__attribute__((target("avx2"))) uint64_t read_all(const char* p, size_t bytes) {
  const size_t stream = bytes / 4 / 64 * 64;
  __m256i x[8] = {};
  for (size_t i = 0; i + 64 <= stream; i += 64) {
    for (size_t j = 0; j < 4; ++j) {
      const char* q = p + j * stream + i;
      _mm_prefetch(q + 1024, _MM_HINT_T0);
      x[2 * j] = _mm256_or_si256(x[2 * j], _mm256_load_si256(reinterpret_cast<const __m256i*>(q)));
      x[2 * j + 1] =
          _mm256_or_si256(x[2 * j + 1], _mm256_load_si256(reinterpret_cast<const __m256i*>(q + 32)));
    }
  }
  for (size_t j = 1; j < 8; ++j) {
    x[0] = _mm256_or_si256(x[0], x[j]);
  }
  return static_cast<uint64_t>(_mm256_extract_epi64(x[0], 0));
}

}  // namespace

double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double fma_registers_512() {
  return rate(&fma_512, 16);
}

double fma_registers_256() {
  return rate(&fma_256, 8);
}

double read_bandwidth(size_t bytes) {
  const std::unique_ptr<char, decltype(&std::free)> memory(
      static_cast<char*>(std::aligned_alloc(4096, bytes)), &std::free);
  std::memset(memory.get(), 1, bytes);
  double best = 1e9;
  const size_t passes = std::max<size_t>(1, (size_t{64} << 20) / bytes);
  uint64_t sink = 0;
  for (int i = 0; i < 5; ++i) {
    const double start = seconds();
    for (size_t pass = 0; pass < passes; ++pass) {
      asm volatile("" ::: "memory");  // a pass may not be merged with the one before
      sink |= read_all(memory.get(), bytes);
    }
    best = std::min(best, (seconds() - start) / static_cast<double>(passes));
  }
  return sink == 42 ? 0 : static_cast<double>(bytes) / best * 1e-9;
}

}  // namespace scalegemm::bench
