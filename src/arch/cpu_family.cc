#include "arch/cpu_family.h"

#include <algorithm>
#include <numeric>

namespace scalegemm::arch {
namespace {

using spec::kAll;
using spec::OperandSpec;
using spec::Packing;
using spec::ScaleSpec;

std::string names(std::span<const DType> types) {
  std::string text;
  for (DType type : types) {
    text += text.empty() ? "" : ", ";
    text += num::name(type);
  }
  return text;
}

bool contains(std::span<const DType> types, DType type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

Decline decline(std::string rule, std::string needed, std::string got) {
  return {"", std::move(rule), std::move(needed), std::move(got)};
}

// block_k of an operand whose scales or zero points change along K; 0 where they do not.
int64_t varying_block(const OperandSpec& x, int64_t k) {
  return x.scale && x.scale->block_k != kAll && x.scale->block_k < k ? x.scale->block_k : 0;
}

bool has_zero(const OperandSpec& x) {
  return x.scale && x.scale->zero_type;
}

std::string zero_text(const OperandSpec& x) {
  return fmt::format("{} on {}", num::name(*x.scale->zero_type), num::name(x.type));
}

// A segment of K with constant scales is one int32 sum over whole panel steps.
std::optional<Decline> i8_block(const KernelSpec& spec, const Problem& p) {
  const int64_t block = std::gcd(varying_block(p.a, p.k), varying_block(p.b, p.k));
  const int64_t step = spec.tile.k;
  if (block % step != 0) {
    return decline("i8dot: common block_k of A and B", fmt::format("a multiple of {}", step),
                   std::to_string(block));
  }
  // |a * (b - zero)| is at most 128 * 128, with zero points 128 * 255, and the sum must stay below 2^31.
  const int64_t longest = has_zero(p.b) ? 65536 : 131071;
  if (block > longest) {
    return decline("i8dot: common block_k of A and B", fmt::format("at most {}", longest),
                   std::to_string(block));
  }
  if (p.d == DType::kInt32 && p.k > 131071) {
    return decline("i8dot: K of an int32 output", "at most 131071", std::to_string(p.k));
  }
  return std::nullopt;
}

std::optional<Decline> i8_declines(const KernelSpec& spec, const Problem& p) {
  if (!contains(kCodeB, p.a.type)) {
    return decline("i8dot: type of A", names(kCodeB), std::string(num::name(p.a.type)));
  }
  // Codes of A and its zero point meet before the dot: their difference must fit a signed byte.
  const bool narrow = num::is_packed4(p.a.type) && !num::info(p.a.type).is_float;
  if (has_zero(p.a) && (!narrow || !num::is_packed4(*p.a.scale->zero_type))) {
    return decline("i8dot: zero points of A", "none, or 4-bit ones on int4 or uint4", zero_text(p.a));
  }
  return i8_block(spec, p);
}

std::optional<Decline> f32_declines(const Problem& p) {
  if (p.d == DType::kInt32) {
    return decline("f32fma: type of D", "a float type, as its sums are f32", "int32");
  }
  return std::nullopt;
}

std::optional<Decline> bf16_operand(const char* rule, const OperandSpec& x, const Problem& p) {
  if (!contains(kBf16B, x.type)) {
    return decline(rule, names(kBf16B), std::string(num::name(x.type)));
  }
  // What one load of codes of B holds along K has one scale.
  const int64_t step = num::is_packed4(p.b.type) ? 8 : p.b.type == DType::kBf16 ? 2 : 4;
  if (varying_block(x, p.k) % step != 0) {
    return decline("bf16dot: block_k", fmt::format("a multiple of {}", step),
                   std::to_string(varying_block(x, p.k)));
  }
  return std::nullopt;
}

std::optional<Decline> bf16_declines(const Problem& p) {
  if (p.d == DType::kInt32) {
    return decline("bf16dot: type of D", "a float type, as its sums are f32", "int32");
  }
  // The instruction takes subnormal operands as zero. The kernel keeps those of A apart, with codes of B that
  // cannot be infinite (kernels/cpu/bf16_gemm.h); of B it loses them.
  if (p.b.type == DType::kBf16 && p.accuracy != spec::Accuracy::kFast) {
    return decline("bf16dot: type of B", "a type without bf16 subnormals, or accuracy fast",
                   fmt::format("bf16, accuracy {}", spec::to_string(p.accuracy)));
  }
  if (p.a.type == DType::kBf16 && p.b.type == DType::kE5m2) {
    return decline("bf16dot: type of B beside bf16", "a type without infinity", "e5m2");
  }
  // Packed weights have one order whatever M is, and few rows of int8 have no fused route.
  if (p.a.type == DType::kBf16 && p.b.type == DType::kInt8) {
    return decline("bf16dot: type of B beside bf16", "a type whose codes a table turns into bf16 pairs",
                   "int8");
  }
  const auto a = bf16_operand("bf16dot: type of A", p.a, p);
  return a ? a : bf16_operand("bf16dot: type of B", p.b, p);
}

}  // namespace

const CpuFamily* find_family(Target target, Pipeline pipeline) {
  for (const CpuFamily& family : kCpuFamilies) {
    if (family.target == target && family.pipeline == pipeline) {
      return &family;
    }
  }
  return nullptr;
}

KernelSpec make_spec(const CpuFamily& family, DType b) {
  KernelSpec spec;
  spec.target = family.target;
  spec.b = b;
  spec.pipeline = family.pipeline;
  spec.scheduler = spec::Scheduler::kDynamic;
  spec.tile = tile_of(family, b);
  spec.instruction = family.instruction;
  spec.packed = spec::default_packed(family.pipeline, b);
  return spec;
}

std::vector<KernelSpec> cpu_specs(Target target) {
  std::vector<KernelSpec> specs;
  for (const CpuFamily& family : kCpuFamilies) {
    if (family.target == target) {
      for (DType b : family.b_types) {
        specs.push_back(make_spec(family, b));
      }
    }
  }
  return specs;
}

std::optional<Decline> cpu_declines(const KernelSpec& spec, const Problem& p) {
  if (spec.b != p.b.type) {
    return decline("type of B", spec.b ? std::string(num::name(*spec.b)) : "none",
                   std::string(num::name(p.b.type)));
  }
  if (p.b_packing != Packing::kRaw && p.b_packing != spec.packed) {
    return decline("packed layout of B", fmt::format("raw or {}", spec::to_string(spec.packed)),
                   std::string(spec::to_string(p.b_packing)));
  }
  switch (spec.pipeline) {
    case Pipeline::kI8Dot:
      return i8_declines(spec, p);
    case Pipeline::kBf16Dot:
      return bf16_declines(p);
    default:
      return f32_declines(p);
  }
}

}  // namespace scalegemm::arch
