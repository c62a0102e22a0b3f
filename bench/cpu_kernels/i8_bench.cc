// Micro benchmark of the int8-dot kernels: GOP/s and share of the dot rate probed around every measurement.
//
//   i8_bench [repeats [isa [part of a scheme's name [N [K]]]]]
//
// Prints one line a case: best and median of the repeats, the register probe and the load-fed probe measured
// in the same rounds, and the share of the register probe. M <= 4 lines give GB/s of weights (codes and
// scales) and the share of the probed read bandwidth of a buffer of the same size. One thread.
#include <immintrin.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cpu/abi.h"
#include "kernels/i8_kernels.h"
#include "layout/pack.h"

namespace scalegemm::kernels {
namespace {

using num::DType;

// CPU time of this thread: a preemption does not count, what it evicted does.
double cpu_now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double seconds(const std::function<void()>& work) {
  const double start = cpu_now();
  work();
  return cpu_now() - start;
}

// --- probes -----------------------------------------------------------------------------------------

constexpr int kProbeRounds = 20000;

#define SG_14(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#define SG_CLOBBER                                                                                           \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
      "xmm13", "xmm14", "memory"

// GOP/s of 14 independent VPDPBUSD from registers.
double probe_registers() {
  const double s = seconds([] {
    for (int i = 0; i < kProbeRounds; ++i) {
#define SG_DOT(i) "vpdpbusd %%zmm15, %%zmm14, %%zmm" #i "\n"
      asm volatile(SG_14(SG_DOT)::: SG_CLOBBER);
#undef SG_DOT
    }
  });
  return 14.0 * 128 * kProbeRounds / s * 1e-9;
}

// The same fed as a kernel is: one load and 14 broadcast operands from L1.
double probe_loads() {
  alignas(64) static uint8_t memory[64 * 64];
  const double s = seconds([] {
    for (int i = 0; i < kProbeRounds; ++i) {
      const uint8_t* p = memory + i % 32 * 64;
#define SG_DOT(i) "vpdpbusd 4*" #i "(%0)%{1to16%}, %%zmm14, %%zmm" #i "\n"
      asm volatile("vmovdqa64 (%0), %%zmm14\n" SG_14(SG_DOT)::"r"(p) : SG_CLOBBER);
#undef SG_DOT
    }
  });
  return 14.0 * 128 * kProbeRounds / s * 1e-9;
}

// GB/s of reading a buffer once, four streams with prefetch.
double probe_read(const std::vector<uint8_t>& buffer) {
  const int64_t quarter = static_cast<int64_t>(buffer.size()) / 4 / 64 * 64;
  const double s = seconds([&] {
    const uint8_t* p = buffer.data();
    for (int64_t i = 0; i < quarter; i += 64) {
      asm volatile(
          "prefetcht0 2048(%0)\n prefetcht0 2048(%1)\n prefetcht0 2048(%2)\n prefetcht0 2048(%3)\n"
          "vpaddd (%0), %%zmm0, %%zmm0\n vpaddd (%1), %%zmm1, %%zmm1\n vpaddd (%2), %%zmm2, %%zmm2\n"
          "vpaddd (%3), %%zmm3, %%zmm3\n" ::"r"(p + i),
          "r"(p + quarter + i), "r"(p + 2 * quarter + i), "r"(p + 3 * quarter + i)
          : SG_CLOBBER);
    }
  });
  return static_cast<double>(4 * quarter) / s * 1e-9;
}

// --- cases ------------------------------------------------------------------------------------------

struct Scheme {
  const char* name;
  DType a, b;
  int a_scale;  // SgDType
  int64_t a_block;
  int b_scale;
  int64_t b_block;
  bool raw;
};

const Scheme kSchemes[] = {
    {"mxfp4 x mxfp4", DType::kE2m1, DType::kE2m1, SG_E8M0, 32, SG_E8M0, 32, false},
    {"int8 mx x int8 mx", DType::kInt8, DType::kInt8, SG_E8M0, 32, SG_E8M0, 32, false},
    {"nvfp4 x nvfp4", DType::kE2m1, DType::kE2m1, SG_E4M3, 16, SG_E4M3, 16, false},
    {"int8 row x int8 column", DType::kInt8, DType::kInt8, SG_F32, 0, SG_F32, 0, false},
    {"int8 row x int4 g32", DType::kInt8, DType::kInt4, SG_F32, 0, SG_F16, 32, false},
    {"int8 g128 x int8 g128", DType::kInt8, DType::kInt8, SG_F32, 128, SG_F32, 128, false},
    {"int8 row x int8 column, raw B", DType::kInt8, DType::kInt8, SG_F32, 0, SG_F32, 0, true},
    {"mxfp4 x mxfp4, raw B", DType::kE2m1, DType::kE2m1, SG_E8M0, 32, SG_E8M0, 32, true},
};

struct Data {
  std::vector<uint8_t> a, b, a_scales, b_scales, packed, workspace, scratch;
  std::vector<float> d;
  SgCpuGemm g = {};
  size_t weight_bytes = 0;
};

uint8_t* aligned(std::vector<uint8_t>& v, size_t bytes) {
  v.resize(bytes + 64);
  return v.data() + (64 - reinterpret_cast<uintptr_t>(v.data()) % 64) % 64;
}

int bytes_of_scale(int type) {
  return num::info(static_cast<DType>(type)).bits / 8;
}

std::vector<uint8_t> random_scales(int type, int64_t count, std::mt19937& rng) {
  std::vector<uint8_t> out(static_cast<size_t>(count * bytes_of_scale(type)));
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t one[14] = {0, 0x3f800000u, 0x3c00u, 0x3f80u, 0x38u, 0, 0, 0, 0, 127u, 0, 0, 0, 0};
    const uint32_t code = type == SG_E8M0   ? 120 + static_cast<uint32_t>(rng()) % 12
                          : type == SG_E4M3 ? 0x30 + static_cast<uint32_t>(rng()) % 16
                                            : one[type];
    std::memcpy(out.data() + i * bytes_of_scale(type), &code, static_cast<size_t>(bytes_of_scale(type)));
  }
  return out;
}

SgOperand operand(const uint8_t* codes, const uint8_t* scales, DType type, int64_t k, int scale_type,
                  int64_t block) {
  SgOperand x = {};
  x.data = codes;
  x.stride_r = num::is_packed4(type) ? k / 2 : k;
  x.stride_k = 1;
  x.dtype = static_cast<int>(type);
  const int64_t block_k = block ? block : k;
  x.scale = {scales, k / block_k, 1, 0, 1, block_k, scale_type};
  return x;
}

void pack_weights(const Scheme& s, int64_t n, int64_t k, Data& d) {
  layout::PackedShape shape{.layout = SG_PANEL_K4X16, .type = s.b, .n = n, .k = k};
  shape.scale = spec::ScaleSpec{.type = static_cast<DType>(s.b_scale), .block_rows = 1, .block_k = s.b_block};
  const layout::PackedHeader h = *layout::describe(shape);
  uint8_t* payload = aligned(d.packed, h.payload_bytes);
  layout::RawWeights raw{.data = d.b.data(), .stride_n = d.g.b.stride_r, .stride_k = 1};
  raw.scale = {d.b_scales.data(), d.g.b.scale.stride_r, 1, 0};
  const Status status =
      layout::pack(h, raw, {reinterpret_cast<std::byte*>(payload), static_cast<size_t>(h.payload_bytes)},
                   layout::all_panels(h));
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::exit(1);
  }
  d.g.b.data = payload + h.codes_offset;
  d.g.b.packed = h.layout;
  d.g.b.scale.data = payload + h.scales_offset;
}

void make(const Scheme& s, int64_t m, int64_t n, int64_t k, Data& d) {
  std::mt19937 rng(1);
  const auto random = [&](int64_t bytes) {
    std::vector<uint8_t> out(static_cast<size_t>(bytes));
    uint64_t x = 88172645463325252u;  // xorshift64: the values hardly matter, making 100 MB of them does
    for (size_t i = 0; i + 8 <= out.size(); i += 8) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
      std::memcpy(&out[i], &x, 8);
    }
    return out;
  };
  d.a = random(num::bytes_of(s.a, m * k));
  d.b = random(num::bytes_of(s.b, n * k));
  d.a_scales = random_scales(s.a_scale, m * (s.a_block ? k / s.a_block : 1), rng);
  d.b_scales = random_scales(s.b_scale, n * (s.b_block ? k / s.b_block : 1), rng);
  d.weight_bytes = d.b.size() + d.b_scales.size();
  d.d.resize(static_cast<size_t>(m * n));
  SgCpuGemm& g = d.g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.batch = 1;
  g.a = operand(d.a.data(), d.a_scales.data(), s.a, k, s.a_scale, s.a_block);
  g.b = operand(d.b.data(), d.b_scales.data(), s.b, k, s.b_scale, s.b_block);
  if (!s.raw) {
    pack_weights(s, n, k, d);
  }
  g.d = d.d.data();
  g.d_stride_m = n;
  g.d_stride_n = 1;
  g.d_dtype = SG_F32;
  g.alpha = 1;
  g.clamp_min = -__builtin_inff();
  g.clamp_max = __builtin_inff();
}

struct Size {
  int64_t m, n, k;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

double best(const std::vector<double>& v) {
  return *std::max_element(v.begin(), v.end());
}

void measure(const Scheme& s, const Size& size, const I8KernelEntry& entry, int repeats) {
  const auto [m, n, k] = size;
  Data d;
  make(s, m, n, k, d);
  d.g.workspace = aligned(d.workspace, entry.kernel->workspace_bytes(&d.g));
  uint8_t* scratch = aligned(d.scratch, entry.kernel->scratch_bytes(&d.g));
  const std::vector<uint8_t> buffer(d.weight_bytes, 1);
  const double ops = 2.0 * static_cast<double>(m * n * k);
  std::vector<double> gops, gbps, registers, loads, reads, prepares;
  for (int i = 0; i < repeats; ++i) {
    registers.push_back(probe_registers());
    loads.push_back(probe_loads());
    if (m <= 4) {
      reads.push_back(probe_read(buffer));
    }
    const double p =
        seconds([&] { entry.kernel->prepare(&d.g, 0, entry.kernel->prepare_units(&d.g), scratch); });
    const double c =
        seconds([&] { entry.kernel->compute(&d.g, 0, entry.kernel->compute_units(&d.g), scratch); });
    gops.push_back(ops / (p + c) * 1e-9);
    gbps.push_back(static_cast<double>(d.weight_bytes) / (p + c) * 1e-9);
    prepares.push_back(100 * p / (p + c));
  }
  std::printf(
      "%-30s %-6s M %4ld  best %6.1f median %6.1f GOP/s  probe %6.1f (loads %6.1f)  share %5.1f%%  prepare "
      "%4.1f%%",
      s.name, entry.isa, static_cast<long>(m), best(gops), median(gops), best(registers), best(loads),
      100 * best(gops) / best(registers), median(prepares));
  if (m <= 4) {
    std::printf("  %5.1f GB/s of %5.1f = %5.1f%%", best(gbps), best(reads), 100 * best(gbps) / best(reads));
  }
  std::printf("\n");
}

}  // namespace
}  // namespace scalegemm::kernels

int main(int argc, char** argv) {
  using namespace scalegemm::kernels;
  const auto argument = [&](int i, const char* otherwise) { return argc > i ? argv[i] : otherwise; };
  const int repeats = std::max(1, std::atoi(argument(1, "15")));
  const int64_t n = std::atol(argument(4, "4096")), k = std::atol(argument(5, "4096"));
  for (const Scheme& s : kSchemes) {
    for (const I8KernelEntry& entry : i8_kernels()) {
      if (entry.b_type != static_cast<int>(s.b) || !std::strstr(entry.isa, argument(2, "")) ||
          !std::strstr(s.name, argument(3, ""))) {
        continue;
      }
      for (const int64_t m : {1, 4, 16, 128, 512}) {
        measure(s, {m, n, k}, entry, m > 100 ? repeats : repeats * 3);
      }
    }
  }
  return 0;
}
