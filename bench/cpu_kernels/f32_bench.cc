// Speed of the f32 FMA kernels against this core's ceilings, one thread.
//
//   f32_bench [--isa avx2|avx512] [--type NAME] [--m M] [--n N] [--k K] [--layout packed|raw]
//
// For every type of B (packed, or raw with K contiguous; block scales of 32 along K for the 4-bit types and
// e4m3, one scale a column otherwise) and M in {1, 4, 16, 128, 512} prints GOP/s (2*M*N*K), the share of the
// FMA probe, and for M <= 4 the GB/s of weights and scales and its share of the read probe. Each case runs
// over copies of the weights that together exceed twice the L3, so that small M reads memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/panels.h"
#include "cpu_kernels/probe.h"
#include "kernels/f32_kernels.h"

namespace scalegemm::bench {
namespace {

constexpr size_t kCold = size_t{80} << 20;

struct Options {
  std::string isa, type;
  int64_t m = 0, n = 4096, k = 4096;
  bool raw = false;
};

template <class T>
struct Aligned {
  explicit Aligned(size_t count)
      : bytes((count * sizeof(T) + 4095) / 4096 * 4096),
        data(static_cast<T*>(std::aligned_alloc(4096, std::max<size_t>(bytes, 4096)))) {}
  ~Aligned() { std::free(data); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  size_t bytes;
  T* data;
};

struct Case {
  const kernels::F32KernelEntry& entry;
  int64_t m, n, k;
  bool raw;
};

int bits_of(int type) {
  return type == SG_F32                       ? 32
         : type == SG_F16 || type == SG_BF16  ? 16
         : type >= SG_INT4 || type == SG_E2M1 ? 4
                                              : 8;
}

// Codes without NaN or infinity: every byte of the float types below 0x38.. keeps exponents small.
void fill_codes(uint8_t* p, size_t bytes, int type) {
  std::mt19937_64 random(7);
  for (size_t i = 0; i < bytes; ++i) {
    const auto x = static_cast<uint8_t>(random());
    const bool wide = type == SG_F32 || type == SG_BF16 || type == SG_F16;
    p[i] = wide ? (i % (static_cast<size_t>(bits_of(type)) / 8) + 1 == static_cast<size_t>(bits_of(type)) / 8
                       ? static_cast<uint8_t>(0x38 | (x & 0x87))
                       : x)
           : bits_of(type) == 4 ? x
                                : static_cast<uint8_t>(x & 0xbf);
  }
}

void run_case(const Case& c, double fma_ceiling, double read_ceiling) {
  const int type = c.entry.b_type;
  const bool grouped = bits_of(type) <= 8 && type != SG_INT8;
  const int64_t block_k = grouped ? 32 : c.k;
  const int64_t columns = sg_round_up(c.n, 32);
  const auto code_bytes =
      static_cast<size_t>(columns / 32 * sg_panel_bytes(SG_PANEL_K1X32, bits_of(type), c.k));
  const auto scale_count = static_cast<size_t>(columns * ((c.k + block_k - 1) / block_k));
  const size_t copies = std::max<size_t>(1, kCold / code_bytes);

  Aligned<uint8_t> codes(code_bytes * copies), scales(scale_count * copies);
  Aligned<uint16_t> a(static_cast<size_t>(c.m * c.k)), d(static_cast<size_t>(c.m * c.n));
  fill_codes(codes.data, codes.bytes, type);
  std::memset(scales.data, 127, scales.bytes);
  fill_codes(reinterpret_cast<uint8_t*>(a.data), a.bytes, SG_BF16);

  SgCpuGemm g = {};
  g.m = c.m, g.n = c.n, g.k = c.k, g.batch = 1;
  g.a = {a.data, c.k, 1, 0, {}, {}, nullptr, SG_BF16, SG_RAW};
  g.b = {codes.data, 0, 0, 0, {}, {}, nullptr, type, SG_PANEL_K1X32};
  if (c.raw) {
    g.b.packed = SG_RAW, g.b.stride_r = bits_of(type) == 4 ? c.k / 2 : c.k, g.b.stride_k = 1;
  }
  const bool scaled = bits_of(type) <= 8;
  g.b.scale = {scaled ? scales.data : nullptr, (c.k + block_k - 1) / block_k, 1, 0, 1, block_k, SG_E8M0};
  g.d = d.data, g.d_stride_m = c.n, g.d_stride_n = 1, g.d_dtype = SG_BF16;
  g.alpha = 1, g.clamp_min = -__builtin_inff(), g.clamp_max = __builtin_inff();
  Aligned<uint8_t> workspace(c.entry.kernel->workspace_bytes(&g)), scratch(c.entry.kernel->scratch_bytes(&g));
  g.workspace = workspace.data;

  const double ops = 2.0 * static_cast<double>(c.m * c.n * c.k);
  const int repeats = static_cast<int>(std::clamp(60e9 / ops / 3, 3.0, 200.0));
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const size_t copy = static_cast<size_t>(i) % copies;
    g.b.data = codes.data + copy * code_bytes;
    g.b.scale.data = scaled ? scales.data + copy * scale_count : nullptr;
    const double start = seconds();
    c.entry.kernel->prepare(&g, 0, c.entry.kernel->prepare_units(&g), scratch.data);
    c.entry.kernel->compute(&g, 0, c.entry.kernel->compute_units(&g), scratch.data);
    times.push_back(seconds() - start);
  }
  std::sort(times.begin(), times.end());
  const double best = times.front(), median = times[times.size() / 2];
  const double bytes = static_cast<double>(code_bytes + (scaled ? scale_count : 0));
  std::printf("%-7s %-10s M=%-4ld %8.1f us  %7.1f GOP/s (best %7.1f, %3.0f%% of FMA)", c.entry.isa,
              c.entry.name, static_cast<long>(c.m), median * 1e6, ops / median * 1e-9, ops / best * 1e-9,
              100 * ops / best * 1e-9 / fma_ceiling);
  if (c.m <= 4) {
    std::printf("  %5.1f GB/s (best %5.1f, %3.0f%% of read)", bytes / median * 1e-9, bytes / best * 1e-9,
                100 * bytes / best * 1e-9 / read_ceiling);
  }
  std::printf("\n");
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--isa") {
      o.isa = value;
    } else if (key == "--type") {
      o.type = value;
    } else if (key == "--layout") {
      o.raw = value == "raw";
    } else {
      (key == "--m" ? o.m : key == "--n" ? o.n : o.k) = std::atol(value.c_str());
    }
  }
  return o;
}

}  // namespace
}  // namespace scalegemm::bench

int main(int argc, char** argv) {
  using namespace scalegemm;
  const bench::Options o = bench::parse(argc, argv);
  for (const kernels::F32KernelEntry& entry : kernels::f32_kernels()) {
    if ((!o.isa.empty() && o.isa != entry.isa) || (!o.type.empty() && o.type != entry.name)) {
      continue;
    }
    const double fma = std::max(bench::fma_registers_512(), bench::fma_registers_256());
    const double read = bench::read_bandwidth(bench::kCold);
    std::printf("probe: fma %.1f GFLOP/s, read %.1f GB/s (memory), %.1f GB/s (8 MB)\n", fma, read,
                bench::read_bandwidth(size_t{8} << 20));
    for (const int64_t m : {1, 4, 16, 128, 512}) {
      if (o.m == 0 || o.m == m) {
        bench::run_case({entry, m, o.n, o.k, o.raw}, fma, read);
      }
    }
  }
  return 0;
}
