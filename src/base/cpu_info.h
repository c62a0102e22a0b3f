// What the CPU under us is: features that both the processor and the operating system support, caches,
// cores this process may use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace scalegemm::base {

// Instruction sets that kernels are generated for or that help to tell processors apart.
enum class CpuFeature : uint8_t {
  kAvx,
  kAvx2,
  kFma,
  kF16c,
  kBmi2,
  kAvxVnni,
  kAvx512f,
  kAvx512bw,
  kAvx512dq,
  kAvx512vl,
  kAvx512vnni,
  kAvx512vbmi,
  kAvx512bf16,
  kAvx512fp16,
  kAmxTile,
  kAmxInt8,
  kAmxBf16,
  kCount,
};

// "avx2", "avx512_vnni", ... as /proc/cpuinfo spells them.
std::string_view name(CpuFeature feature);

struct CpuInfo {
  std::string vendor;  // "GenuineIntel", "AuthenticAMD"
  std::string model;   // the brand string, trimmed
  int family = 0;      // display family and model (SDM vol. 2A, CPUID leaf 1)
  int model_number = 0;
  uint64_t features = 0;  // bit i: CpuFeature i; read through has()
  int64_t l1d_bytes = 0;  // of one instance; 0 where unknown
  int64_t l2_bytes = 0;
  int64_t l3_bytes = 0;
  int logical_cores = 1;  // that this process may run on (its affinity mask)

  bool has(CpuFeature feature) const { return (features >> static_cast<int>(feature) & 1) != 0; }
};

// Asks the processor and /sys. An AVX, AVX-512 or AMX feature counts only when the operating system saves
// its registers (XGETBV), so code for a reported feature can run.
CpuInfo detect_cpu();

}  // namespace scalegemm::base
