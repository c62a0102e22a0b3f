#include "device/cpu/probe.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "base/cpu_info.h"

// Each loop is compiled for its own ISA; none is entered before the processor was asked.
#define SG_AVX2 __attribute__((target("avx2,fma"), noinline))
#define SG_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"), noinline))
#define SG_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"), noinline))

namespace scalegemm::device {
namespace {

using spec::Target;

// Operands of the load-fed loops: an A panel of [k][rows] and a B panel of [k][2 vectors], together below
// 24 KB, so that they stay in the first cache.
constexpr int kDepth = 96;
struct alignas(64) Panels {
  float a[kDepth * 16];
  float b[kDepth * 32];
  float out[32];
};

// A loop runs `rounds` times over its body and leaves something of its result in `p.out`.
using Loop = void (*)(Panels& p, int rounds);

constexpr int kChains = 12;  // latency 4 x 2 a cycle = 8 would do

SG_AVX2 void f32_registers_v3(Panels& p, int rounds) {
  __m256 acc[kChains];
  const __m256 x = _mm256_load_ps(p.a);
  for (__m256& v : acc) {
    v = x;
  }
  for (int i = 0; i < rounds * kDepth; ++i) {
#pragma GCC unroll 12
    for (__m256& v : acc) {
      v = _mm256_fmadd_ps(x, x, v);
    }
  }
  for (int i = 1; i < kChains; ++i) {
    acc[0] = _mm256_add_ps(acc[0], acc[i]);
  }
  _mm256_store_ps(p.out, acc[0]);
}

SG_AVX2 void f32_tile_v3(Panels& p, int rounds) {
  __m256 acc[6][2];
#pragma GCC unroll 6
  for (auto& row : acc) {
    row[0] = row[1] = _mm256_setzero_ps();
  }
  for (int r = 0; r < rounds; ++r) {
    const float* a = p.a;
    const float* b = p.b;
    for (int k = 0; k < kDepth; ++k, a += 6, b += 16) {
      const __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
#pragma GCC unroll 6
      for (int i = 0; i < 6; ++i) {
        const __m256 x = _mm256_broadcast_ss(a + i);
        acc[i][0] = _mm256_fmadd_ps(x, b0, acc[i][0]);
        acc[i][1] = _mm256_fmadd_ps(x, b1, acc[i][1]);
      }
    }
  }
#pragma GCC unroll 5
  for (int i = 1; i < 6; ++i) {
    acc[0][0] = _mm256_add_ps(acc[0][0], _mm256_add_ps(acc[i][0], acc[i][1]));
  }
  _mm256_store_ps(p.out, _mm256_add_ps(acc[0][0], acc[0][1]));
}

// Products into 16-bit pairs, pairs into int32, added: 64 operations.
SG_AVX2 void i8_registers_v3(Panels& p, int rounds) {
  __m256i acc[kChains];
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(p.a));
  for (__m256i& v : acc) {
    v = x;
  }
  for (int i = 0; i < rounds * kDepth; ++i) {
#pragma GCC unroll 12
    for (__m256i& v : acc) {
      asm("" : "+x"(x));  // another x as far as the compiler knows: no product is shared
      v = _mm256_add_epi32(v, _mm256_madd_epi16(_mm256_maddubs_epi16(x, x), ones));
    }
  }
  for (int i = 1; i < kChains; ++i) {
    acc[0] = _mm256_add_epi32(acc[0], acc[i]);
  }
  _mm256_store_si256(reinterpret_cast<__m256i*>(p.out), acc[0]);
}

SG_AVX2 void i8_tile_v3(Panels& p, int rounds) {
  __m256i acc[6][2];
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 6
  for (auto& row : acc) {
    row[0] = row[1] = _mm256_setzero_si256();
  }
  for (int r = 0; r < rounds; ++r) {
    const float* a = p.a;
    const float* b = p.b;
    for (int k = 0; k < kDepth; ++k, a += 6, b += 16) {
      const __m256i b0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(b));
      const __m256i b1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(b + 8));
#pragma GCC unroll 6
      for (int i = 0; i < 6; ++i) {
        const __m256i x = _mm256_castps_si256(_mm256_broadcast_ss(a + i));
        acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(_mm256_maddubs_epi16(b0, x), ones));
        acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(_mm256_maddubs_epi16(b1, x), ones));
      }
    }
  }
#pragma GCC unroll 5
  for (int i = 1; i < 6; ++i) {
    acc[0][0] = _mm256_add_epi32(acc[0][0], _mm256_add_epi32(acc[i][0], acc[i][1]));
  }
  _mm256_store_si256(reinterpret_cast<__m256i*>(p.out), _mm256_add_epi32(acc[0][0], acc[0][1]));
}

SG_AVX512 void f32_registers_avx512(Panels& p, int rounds) {
  __m512 acc[kChains];
  const __m512 x = _mm512_load_ps(p.a);
  for (__m512& v : acc) {
    v = x;
  }
  for (int i = 0; i < rounds * kDepth; ++i) {
#pragma GCC unroll 12
    for (__m512& v : acc) {
      v = _mm512_fmadd_ps(x, x, v);
    }
  }
  for (int i = 1; i < kChains; ++i) {
    acc[0] = _mm512_add_ps(acc[0], acc[i]);
  }
  _mm512_store_ps(p.out, acc[0]);
}

SG_AVX512 void f32_tile_avx512(Panels& p, int rounds) {
  __m512 acc[14][2];
#pragma GCC unroll 14
  for (auto& row : acc) {
    row[0] = row[1] = _mm512_setzero_ps();
  }
  for (int r = 0; r < rounds; ++r) {
    const float* a = p.a;
    const float* b = p.b;
    for (int k = 0; k < kDepth; ++k, a += 14, b += 32) {
      const __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
#pragma GCC unroll 14
      for (int i = 0; i < 14; ++i) {
        const __m512 x = _mm512_set1_ps(a[i]);
        acc[i][0] = _mm512_fmadd_ps(x, b0, acc[i][0]);
        acc[i][1] = _mm512_fmadd_ps(x, b1, acc[i][1]);
      }
    }
  }
#pragma GCC unroll 13
  for (int i = 1; i < 14; ++i) {
    acc[0][0] = _mm512_add_ps(acc[0][0], _mm512_add_ps(acc[i][0], acc[i][1]));
  }
  _mm512_store_ps(p.out, _mm512_add_ps(acc[0][0], acc[0][1]));
}

SG_AVX512 void i8_registers_avx512(Panels& p, int rounds) {
  __m512i acc[kChains];
  const __m512i x = _mm512_load_si512(p.a);
  for (__m512i& v : acc) {
    v = x;
  }
  for (int i = 0; i < rounds * kDepth; ++i) {
#pragma GCC unroll 12
    for (__m512i& v : acc) {
      v = _mm512_dpbusd_epi32(v, x, x);
    }
  }
  for (int i = 1; i < kChains; ++i) {
    acc[0] = _mm512_add_epi32(acc[0], acc[i]);
  }
  _mm512_store_si512(p.out, acc[0]);
}

SG_AVX512 void i8_tile_avx512(Panels& p, int rounds) {
  __m512i acc[14];
#pragma GCC unroll 14
  for (__m512i& v : acc) {
    v = _mm512_setzero_si512();
  }
  for (int r = 0; r < rounds; ++r) {
    const float* a = p.a;
    const float* b = p.b;
    for (int k = 0; k < kDepth; ++k, a += 14, b += 16) {
      const __m512i b0 = _mm512_load_si512(b);
#pragma GCC unroll 14
      for (int i = 0; i < 14; ++i) {
        acc[i] = _mm512_dpbusd_epi32(acc[i], b0, _mm512_castps_si512(_mm512_set1_ps(a[i])));
      }
    }
  }
#pragma GCC unroll 13
  for (int i = 1; i < 14; ++i) {
    acc[0] = _mm512_add_epi32(acc[0], acc[i]);
  }
  _mm512_store_si512(p.out, acc[0]);
}

SG_AVX512_BF16 void bf16_registers(Panels& p, int rounds) {
  __m512 acc[kChains];
  const __m512 x = _mm512_load_ps(p.a);
  __m512bh pair;
  std::memcpy(&pair, p.a, sizeof pair);
  for (__m512& v : acc) {
    v = x;
  }
  for (int i = 0; i < rounds * kDepth; ++i) {
#pragma GCC unroll 12
    for (__m512& v : acc) {
      v = _mm512_dpbf16_ps(v, pair, pair);
    }
  }
  for (int i = 1; i < kChains; ++i) {
    acc[0] = _mm512_add_ps(acc[0], acc[i]);
  }
  _mm512_store_ps(p.out, acc[0]);
}

SG_AVX512_BF16 void bf16_tile(Panels& p, int rounds) {
  __m512 acc[14][2];
#pragma GCC unroll 14
  for (auto& row : acc) {
    row[0] = row[1] = _mm512_setzero_ps();
  }
  for (int r = 0; r < rounds; ++r) {
    const float* a = p.a;
    const float* b = p.b;
    for (int k = 0; k < kDepth; ++k, a += 14, b += 32) {
      const __m512bh b0 = reinterpret_cast<__m512bh>(_mm512_load_si512(b));
      const __m512bh b1 = reinterpret_cast<__m512bh>(_mm512_load_si512(b + 16));
#pragma GCC unroll 14
      for (int i = 0; i < 14; ++i) {
        const __m512bh x = reinterpret_cast<__m512bh>(_mm512_set1_ps(a[i]));
        acc[i][0] = _mm512_dpbf16_ps(acc[i][0], x, b0);
        acc[i][1] = _mm512_dpbf16_ps(acc[i][1], x, b1);
      }
    }
  }
#pragma GCC unroll 13
  for (int i = 1; i < 14; ++i) {
    acc[0][0] = _mm512_add_ps(acc[0][0], _mm512_add_ps(acc[i][0], acc[i][1]));
  }
  _mm512_store_ps(p.out, _mm512_add_ps(acc[0][0], acc[0][1]));
}

// One measured loop: operations of one round, and where its rate goes.
struct Measurement {
  Target from;  // the first target that has the instruction
  bool loaded;
  double spec::CpuRates::*rate;
  Loop loop;
  double operations;
};
constexpr double kRegister512 = 2.0 * kDepth * kChains;

// Only one set of f32 and int8 loops is of use to a target: that of its vector width.
constexpr Measurement kV3[] = {
    {Target::kX86V3, false, &spec::CpuRates::f32_fma_gflops, f32_registers_v3, kRegister512 * 8},
    {Target::kX86V3, true, &spec::CpuRates::f32_fma_gflops, f32_tile_v3, 2.0 * kDepth * 6 * 16},
    {Target::kX86V3, false, &spec::CpuRates::i8dot_gops, i8_registers_v3, kRegister512 * 8 * 4},
    {Target::kX86V3, true, &spec::CpuRates::i8dot_gops, i8_tile_v3, 2.0 * kDepth * 6 * 16 * 4},
};
constexpr Measurement kWide[] = {
    {Target::kAvx512, false, &spec::CpuRates::f32_fma_gflops, f32_registers_avx512, kRegister512 * 16},
    {Target::kAvx512, true, &spec::CpuRates::f32_fma_gflops, f32_tile_avx512, 2.0 * kDepth * 14 * 32},
    {Target::kAvx512, false, &spec::CpuRates::i8dot_gops, i8_registers_avx512, kRegister512 * 16 * 4},
    {Target::kAvx512, true, &spec::CpuRates::i8dot_gops, i8_tile_avx512, 2.0 * kDepth * 14 * 16 * 4},
    {Target::kAvx512Bf16, false, &spec::CpuRates::bf16dp_gflops, bf16_registers, kRegister512 * 16 * 2},
    {Target::kAvx512Bf16, true, &spec::CpuRates::bf16dp_gflops, bf16_tile, 2.0 * kDepth * 14 * 32 * 2},
};

double seconds_of(Loop loop, Panels& panels, int rounds) {
  const auto start = std::chrono::steady_clock::now();
  loop(panels, rounds);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Best of a dozen runs of about 0.15 ms each.
double best_gops(const Measurement& m, Panels& panels) {
  int rounds = 1;
  double seconds = seconds_of(m.loop, panels, rounds);  // also warms up
  while (seconds < 1e-4 && rounds < 1 << 20) {
    rounds *= 2;
    seconds = seconds_of(m.loop, panels, rounds);
  }
  double best = seconds;
  for (int i = 0; i < 12; ++i) {
    best = std::min(best, seconds_of(m.loop, panels, rounds));
  }
  return m.operations * rounds / best * 1e-9;
}

// Reads every 64-byte line in several streams of their own, as kernels read panels.
SG_AVX2 uint64_t read_all(const uint8_t* data, int64_t bytes) {
  constexpr int kStreams = 4;
  const int64_t part = bytes / kStreams / 64 * 64;
  __m256i sum[kStreams];
  for (__m256i& v : sum) {
    v = _mm256_setzero_si256();
  }
  for (int64_t at = 0; at < part; at += 64) {
#pragma GCC unroll 4
    for (int s = 0; s < kStreams; ++s) {
      const uint8_t* line = data + s * part + at;
      _mm_prefetch(reinterpret_cast<const char*>(line + 1024), _MM_HINT_T0);
      sum[s] = _mm256_xor_si256(sum[s], _mm256_load_si256(reinterpret_cast<const __m256i*>(line)));
      sum[s] = _mm256_xor_si256(sum[s], _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 32)));
    }
  }
  sum[0] = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
  return static_cast<uint64_t>(_mm256_extract_epi64(sum[0], 0) ^ _mm256_extract_epi64(sum[0], 1));
}

bool has_all(const base::CpuInfo& cpu, std::span<const base::CpuFeature> features) {
  return std::all_of(features.begin(), features.end(), [&cpu](base::CpuFeature f) { return cpu.has(f); });
}

// What the loops of a target need; a subset of what its kernels need.
bool can_run(Target target, const base::CpuInfo& cpu) {
  using enum base::CpuFeature;
  constexpr base::CpuFeature kNarrow[] = {kAvx2, kFma};
  constexpr base::CpuFeature kZmm[] = {kAvx2, kFma, kAvx512f, kAvx512bw, kAvx512vl, kAvx512dq, kAvx512vnni};
  constexpr base::CpuFeature kBf16[] = {kAvx2,     kFma,      kAvx512f,    kAvx512bw,
                                        kAvx512vl, kAvx512dq, kAvx512vnni, kAvx512bf16};
  switch (target) {
    case Target::kX86V3:
      return has_all(cpu, kNarrow);
    case Target::kAvx512:
      return has_all(cpu, kZmm);
    case Target::kAvx512Bf16:
      return has_all(cpu, kBf16);
    default:
      return false;
  }
}

// Past the last cache, but not more than what can be touched in a few milliseconds.
double dram_gbps(const base::CpuInfo& cpu) {
  const int64_t bytes = std::clamp<int64_t>(2 * cpu.l3_bytes, 16 << 20, 64 << 20);
  const Result<double> rate = measure_read_gbps(bytes);
  return rate.ok() ? *rate : 0;
}

Result<CpuProbe> measure(Target target) {
  const base::CpuInfo cpu = base::detect_cpu();
  if (!can_run(target, cpu)) {
    return unsupported("probe, target: needed a processor that runs {}; given {}", spec::target_name(target),
                       cpu.model);
  }
  static const double kReadGbps = dram_gbps(cpu);  // the same for every target
  const auto panels = std::make_unique<Panels>();
  std::fill(std::begin(panels->a), std::end(panels->a), 1.0f);
  std::fill(std::begin(panels->b), std::end(panels->b), 1.0f);
  CpuProbe result;
  result.ceiling.read_gbps = result.loaded.read_gbps = kReadGbps;
  const std::span<const Measurement> list =
      target == Target::kX86V3 ? std::span<const Measurement>(kV3) : std::span<const Measurement>(kWide);
  // A noisy neighbour can only lower a rate, and may stay longer than one measurement: the best of several
  // rounds over the whole list.
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    for (const Measurement& m : list) {
      if (m.from <= target) {
        spec::CpuRates& rates = m.loaded ? result.loaded : result.ceiling;
        rates.*m.rate = std::max(rates.*m.rate, best_gops(m, *panels));
      }
    }
  }
  return result;
}

}  // namespace

Result<CpuProbe> probe_now(Target target) {
  return measure(target);
}

Result<double> measure_read_gbps(int64_t bytes) {
  if (bytes < 64) {
    return invalid_argument("read probe, bytes: needed at least 64; given {}", bytes);
  }
  const int64_t size = (bytes + 255) / 256 * 256;
  const std::unique_ptr<uint8_t, decltype(&std::free)> buffer(
      static_cast<uint8_t*>(std::aligned_alloc(4096, static_cast<size_t>((size + 4095) / 4096 * 4096))),
      &std::free);
  if (!buffer) {
    return make_error(Code::kOutOfMemory, "read probe, bytes: needed a buffer; given {} bytes", bytes);
  }
  std::memset(buffer.get(), 1, static_cast<size_t>(size));  // untouched pages would all be one page of zeros
  // Spans of 1 to 4 MB are timed one after the other through the whole buffer: a large buffer stays cold, and
  // a span that lost its core to another process does not count.
  const int64_t span = std::min<int64_t>(size, 4 << 20);
  const int64_t passes = std::max<int64_t>(1, (int64_t{1} << 20) / size);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(12);
  volatile uint64_t sink = 0;
  std::vector<double> seconds;
  for (int64_t at = 0;
       seconds.size() < 16 || (seconds.size() < 1000 && std::chrono::steady_clock::now() < limit);
       at = at + 2 * span <= size ? at + span : 0) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t pass = 0; pass < passes; ++pass) {
      sink = sink ^ read_all(buffer.get() + at, span);
    }
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    seconds.push_back(took / static_cast<double>(passes));
  }
  // The mean of the faster half of the spans.
  std::sort(seconds.begin(), seconds.end());
  const size_t half = seconds.size() / 2;
  const double mean = std::accumulate(seconds.begin(), seconds.begin() + static_cast<ptrdiff_t>(half), 0.0) /
                      static_cast<double>(half);
  return static_cast<double>(span) / mean * 1e-9;
}

Result<CpuProbe> probe(Target target) {
  switch (target) {
    case Target::kX86V3: {
      static const Result<CpuProbe> kResult = measure(Target::kX86V3);
      return kResult;
    }
    case Target::kAvx512: {
      static const Result<CpuProbe> kResult = measure(Target::kAvx512);
      return kResult;
    }
    case Target::kAvx512Bf16: {
      static const Result<CpuProbe> kResult = measure(Target::kAvx512Bf16);
      return kResult;
    }
    default:
      return unsupported("probe, target: needed a CPU target; given {}", spec::target_name(target));
  }
}

}  // namespace scalegemm::device
