// What each target can hold: one row a target. Sources are named at the rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/cpu_info.h"
#include "spec/target.h"

namespace scalegemm::arch {

using spec::Target;

// Which e4m3 and e5m2 a target's matrix instructions read. The same byte means another number in the other.
enum class Fp8Flavour : uint8_t { kNone, kOcp, kFnuz };

struct TargetLimits {
  Target target;
  // CPUs: bits and number of the vector registers that kernels use. 0 on GPUs.
  int vector_bits;
  int vector_registers;
  // GPUs, all 0 on CPUs.
  int wave;            // threads of a warp or wave
  int max_threads;     // of a block
  int max_registers;   // 32-bit, of a thread (with what a kernel may move between warp groups)
  int unit_registers;  // 32-bit, of a multiprocessor (sm) or SIMD (gfx)
  int shared_bytes;    // shared memory or LDS of a block
  int max_cluster;     // blocks of a cluster without opting in to more
  int64_t l2_bytes;    // gfx: of one XCD
  Fp8Flavour fp8;
};

inline constexpr std::array<TargetLimits, 8> kLimits = {{
    // Intel SDM vol. 1: 16 ymm registers, with AVX-512 32 zmm.
    {Target::kX86V3, 256, 16, 0, 0, 0, 0, 0, 0, 0, Fp8Flavour::kNone},
    {Target::kAvx512, 512, 32, 0, 0, 0, 0, 0, 0, 0, Fp8Flavour::kNone},
    {Target::kAvx512Bf16, 512, 32, 0, 0, 0, 0, 0, 0, 0, Fp8Flavour::kNone},
    // CUDA C++ Programming Guide, compute capabilities: 163 KB a block at 8.0, 99 KB at 8.6 and 8.9 (and
    // sm_80
    // code must run on 8.6). L2: 40 MB of A100, 96 MB of AD102.
    {Target::kSm80, 0, 0, 32, 1024, 255, 65536, 101376, 1, 40 << 20, Fp8Flavour::kOcp},
    {Target::kSm89, 0, 0, 32, 1024, 255, 65536, 101376, 1, 96 << 20, Fp8Flavour::kOcp},
    // CUDA C++ Programming Guide, compute capability 9.0: 227 KB a block, 64 K registers, 255 a thread,
    // clusters of 8 (16 opt in). L2: 50 MB.
    {Target::kSm90a, 0, 0, 32, 1024, 255, 65536, 232448, 8, 50 << 20, Fp8Flavour::kOcp},
    // CDNA3: 512 VGPRs a lane (half of them accumulation registers), 64 KB LDS; CDNA4: 160 KB LDS.
    {Target::kGfx942, 0, 0, 64, 1024, 512, 512, 65536, 1, 4 << 20, Fp8Flavour::kFnuz},
    {Target::kGfx950, 0, 0, 64, 1024, 512, 512, 163840, 1, 4 << 20, Fp8Flavour::kOcp},
}};

constexpr const TargetLimits& limits(Target target) {
  return kLimits[static_cast<size_t>(target)];
}

// The instruction sets a CPU must have to run code for a target; empty for GPUs.
std::span<const base::CpuFeature> required_features(Target target);

// Does that CPU run code for a CPU target? False for GPU targets.
bool runs_on(Target target, const base::CpuInfo& cpu);

// Consistency of the table: row i describes target i, and every row is of one kind.
constexpr bool limits_are_consistent() {
  for (size_t i = 0; i < kLimits.size(); ++i) {
    const TargetLimits& row = kLimits[i];
    if (static_cast<size_t>(row.target) != i || spec::kTargets[i].target != row.target) {
      return false;
    }
    const bool cpu =
        row.vector_bits > 0 && row.vector_registers > 0 && row.wave == 0 && row.shared_bytes == 0;
    const bool gpu = row.vector_bits == 0 && row.wave > 0 && row.max_threads % row.wave == 0 &&
                     row.shared_bytes > 0 && row.max_cluster >= 1 && row.fp8 != Fp8Flavour::kNone;
    if (spec::is_cpu(row.target) ? !cpu : !gpu) {
      return false;
    }
  }
  return true;
}
static_assert(limits_are_consistent());
static_assert(kLimits.size() == spec::kTargets.size());

}  // namespace scalegemm::arch
