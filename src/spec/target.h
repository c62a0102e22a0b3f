// Target: the instruction set a kernel is compiled for. What a target can do is in src/arch.
//
// A target is never guessed: a text that names none is an error that lists the known ones.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace scalegemm::spec {

enum class Target : uint8_t {
  kX86V3 = 0,       // x86-64-v3: AVX2, FMA, F16C, BMI
  kAvx512 = 1,      // AVX-512 F, BW, VL, DQ and VNNI (Ice Lake, Zen 4 and later)
  kAvx512Bf16 = 2,  // kAvx512, AVX512_VBMI and AVX512_BF16 (Zen 4, Sapphire Rapids and later)
  kSm80 = 3,        // NVIDIA Ampere (and 8.6, 8.7, which run its code)
  kSm89 = 4,        // NVIDIA Ada
  kSm90a = 5,       // NVIDIA Hopper
  kGfx942 = 6,      // AMD CDNA3 (MI300)
  kGfx950 = 7,      // AMD CDNA4 (MI350)
};

struct TargetName {
  Target target;
  std::string_view name;   // for people and options: "x86-64-v3", "sm_90a"
  std::string_view token;  // in kernel names, which separate fields by '_': "x86v3", "sm90a"
  bool is_cpu;
};

inline constexpr std::array<TargetName, 8> kTargets = {{
    {Target::kX86V3, "x86-64-v3", "x86v3", true},
    {Target::kAvx512, "avx512", "avx512", true},
    {Target::kAvx512Bf16, "avx512bf16", "avx512bf16", true},
    {Target::kSm80, "sm_80", "sm80", false},
    {Target::kSm89, "sm_89", "sm89", false},
    {Target::kSm90a, "sm_90a", "sm90a", false},
    {Target::kGfx942, "gfx942", "gfx942", false},
    {Target::kGfx950, "gfx950", "gfx950", false},
}};

constexpr const TargetName& target_row(Target target) {
  return kTargets[static_cast<size_t>(target)];
}

constexpr std::string_view target_name(Target target) {
  return target_row(target).name;
}

constexpr bool is_cpu(Target target) {
  return target_row(target).is_cpu;
}

constexpr bool is_cuda(Target target) {
  return target == Target::kSm80 || target == Target::kSm89 || target == Target::kSm90a;
}

// The target of that name or token. kUnsupported with the known names otherwise.
Result<Target> parse_target(std::string_view text);

// The CPU target of that name or token. kInvalidArgument with the known ones otherwise.
Result<Target> parse_cpu_target(std::string_view text);

// "x86-64-v3, avx512, ...": for messages.
std::string known_targets();

}  // namespace scalegemm::spec
