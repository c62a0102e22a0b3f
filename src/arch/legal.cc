#include "arch/legal.h"

#include <algorithm>
#include <span>

#include "arch/cuda_family.h"
#include "num/name_list.h"

namespace scalegemm::arch {
namespace {

using spec::Accuracy;
using spec::Dims;
using spec::Layout;
using spec::Scales;
using spec::ScaleSpec;
using spec::SplitK;

struct Broken {
  std::string needed, got;
};
using Check = std::optional<Broken> (*)(const KernelSpec&);

struct Rule {
  const char* name;
  Check check;
};

std::string type_text(const std::optional<DType>& type) {
  return type ? std::string(num::name(*type)) : std::string("any");
}

// --- CPU rules: a spec is what its family makes, but for the K block of a decoded panel ---

std::optional<Broken> cpu_family(const KernelSpec& s) {
  if (find_family(s.target, s.pipeline) != nullptr) {
    return std::nullopt;
  }
  std::string known;
  for (const CpuFamily& family : kCpuFamilies) {
    known += fmt::format("{}{} on {}", known.empty() ? "" : ", ", spec::to_string(family.pipeline),
                         spec::target_name(family.target));
  }
  return Broken{known, fmt::format("{} on {}", spec::to_string(s.pipeline), spec::target_name(s.target))};
}

std::optional<Broken> cpu_type_b(const KernelSpec& s) {
  const auto types = find_family(s.target, s.pipeline)->b_types;
  if (s.b && std::find(types.begin(), types.end(), *s.b) != types.end()) {
    return std::nullopt;
  }
  return Broken{num::name_list(types), type_text(s.b)};
}

std::optional<Broken> cpu_run_time(const KernelSpec& s) {
  const bool any = !s.a && !s.d && s.scales == Scales::kRunTime && !s.layouts;
  return any ? std::nullopt
             : std::optional(
                   Broken{"any: CPU kernels take A, D, scales and layouts at run time", "fixed ones"});
}

std::optional<Broken> cpu_tile(const KernelSpec& s) {
  const Dims want = tile_of(*find_family(s.target, s.pipeline), *s.b);
  const bool blocked = s.pipeline == Pipeline::kF32Fma;
  const bool k_fits = blocked ? s.tile.k % 2 == 0 && s.tile.k >= 32 && s.tile.k <= 4096 : s.tile.k == want.k;
  if (s.tile.m == want.m && s.tile.n == want.n && k_fits) {
    return std::nullopt;
  }
  return Broken{
      blocked ? fmt::format("{}x{}xK with an even K from 32 to 4096", want.m, want.n) : to_string(want),
      to_string(s.tile)};
}

std::optional<Broken> cpu_instruction(const KernelSpec& s) {
  const Dims want = find_family(s.target, s.pipeline)->instruction;
  return s.instruction == want ? std::nullopt
                               : std::optional(Broken{to_string(want), to_string(s.instruction)});
}

// What is left has one legal value: that of make_spec.
std::optional<Broken> cpu_options(const KernelSpec& s) {
  KernelSpec want = make_spec(*find_family(s.target, s.pipeline), *s.b);
  want.tile = s.tile;
  return s == want ? std::nullopt : std::optional(Broken{spec::name(want), spec::name(s)});
}

constexpr Rule kCpuRules[] = {
    {"kernel family", cpu_family},     {"type of B", cpu_type_b},
    {"run-time fields", cpu_run_time}, {"tile", cpu_tile},
    {"instruction", cpu_instruction},  {"options", cpu_options},
};

// --- GPU rules, in the order in which a person wants to hear of them ---

int consumer_threads(const KernelSpec& s) {
  // A warp of sm_90a's wgmma is a warp group of four.
  const int width = s.target == Target::kSm90a && s.pipeline != Pipeline::kMma ? 128 : limits(s.target).wave;
  return s.warps.m * s.warps.n * s.warps.k * width;
}

bool is_mma(const KernelSpec& s) {
  return s.pipeline == Pipeline::kMma;
}

int block_threads(const KernelSpec& s) {
  if (is_mma(s)) {
    return consumer_threads(s);
  }
  const int sharing = s.pipeline == Pipeline::kTmaPingPong ? 2 : 1;  // consumers with a tile of their own
  return consumer_threads(s) * sharing + (s.target == Target::kSm90a ? 128 : 0);  // and the TMA producer's
}

std::optional<Broken> gpu_fixed(const KernelSpec& s) {
  if (is_mma(s)) {
    return std::nullopt;
  }
  const bool fixed = s.a && s.b && s.d && s.scales == Scales::kFixed && s.layouts;
  return fixed ? std::nullopt : std::optional(Broken{"types, scales and layouts fixed", "any"});
}

std::optional<Broken> gpu_pipeline(const KernelSpec& s) {
  const bool tma = s.pipeline == Pipeline::kTmaCoop || s.pipeline == Pipeline::kTmaPingPong ||
                   s.pipeline == Pipeline::kTmaCarried;
  const bool wave = s.pipeline >= Pipeline::kMem && s.pipeline <= Pipeline::kMicroscale;
  const bool nvidia = spec::is_cuda(s.target);
  if (nvidia ? is_mma(s) || (tma && s.target == Target::kSm90a) : wave) {
    return std::nullopt;
  }
  return Broken{s.target == Target::kSm90a ? "tmacoop, tmapingpong, tmacarried or mma"
                : nvidia                   ? "mma"
                                           : "mem, compv3, compv4, compv5, compasync or microscale",
                std::string(spec::to_string(s.pipeline))};
}

// Widened to bf16 or f16 either flavour will do, so this rule only explains why there is no instruction.
std::optional<Broken> gpu_flavour(const KernelSpec& s) {
  if (instruction_of(s) != nullptr) {
    return std::nullopt;
  }
  const bool ocp = limits(s.target).fp8 == Fp8Flavour::kOcp;
  const TypeSet wrong = ocp ? kFnuz8 : kOcp8;
  for (DType type : {*s.a, *s.b}) {
    if (wrong.has(type)) {
      return Broken{ocp ? "e4m3 or e5m2: its instructions read OCP bytes"
                        : "e4m3_fnuz or e5m2_fnuz: its instructions read FNUZ bytes",
                    std::string(num::name(type))};
    }
  }
  return std::nullopt;
}

std::string shape_text(const Instruction& row) {
  return row.n_step == 0 ? to_string(row.shape)
                         : fmt::format("{}x({} to {} by {})x{}", row.shape.m, row.shape.n, row.n_max,
                                       row.n_step, row.shape.k);
}

std::optional<Broken> gpu_instruction(const KernelSpec& s) {
  if (s.target == Target::kSm90a && !is_mma(s) && !tma_types(*s.a, *s.b)) {
    return Broken{"e4m3 and e5m2 in any mix, or int8, bf16 or f16 on both sides, as the instruction takes",
                  fmt::format("{} x {}", num::name(*s.a), num::name(*s.b))};
  }
  if (instruction_of(s) != nullptr) {
    return std::nullopt;
  }
  std::string known;
  for (const Instruction& row : kInstructions) {
    if (row.target == s.target && feeds({*s.a, *s.b, s.via}, row.types)) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", shape_text(row));
    }
  }
  const std::string via = s.via ? fmt::format(" via {}", num::name(*s.via)) : "";
  return Broken{
      known.empty() ? fmt::format("operand types that {} multiplies", spec::target_name(s.target)) : known,
      fmt::format("{} for {} x {}{}", to_string(s.instruction), num::name(*s.a), num::name(*s.b), via)};
}

// A `via` that nothing uses would be a second name of the same code.
std::optional<Broken> gpu_via(const KernelSpec& s) {
  const TypeSet& types = instruction_of(s)->types;
  const bool unused = s.via && types.has(*s.a) && types.has(*s.b);
  return unused ? std::optional(
                      Broken{"none, as the instruction takes both operands", std::string(num::name(*s.via))})
                : std::nullopt;
}

std::optional<Broken> gpu_layouts(const KernelSpec& s) {
  if (is_mma(s)) {
    return std::nullopt;
  }
  // A 4-bit operand of any target is unpacked along K as well.
  const bool packed4 = num::is_packed4(*s.a) || num::is_packed4(*s.b);
  const bool k_major = instruction_of(s)->k_major || (packed4 && s.target == Target::kSm90a);
  if (!k_major || *s.layouts == spec::Layouts{}) {
    return std::nullopt;
  }
  return Broken{"rcr, as the instruction takes K-contiguous operands only",
                std::string(layout_word(*s.layouts))};
}

std::optional<Broken> gpu_output(const KernelSpec& s) {
  if (is_mma(s)) {
    return std::nullopt;
  }
  const bool integer = instruction_of(s)->sums == DType::kInt32;
  const bool fits = s.d == DType::kInt32 ? integer
                                         : s.d == DType::kF32 || s.d == DType::kF16 || s.d == DType::kBf16 ||
                                               ((s.d == DType::kE4m3 || s.d == DType::kE5m2) &&
                                                limits(s.target).fp8 == Fp8Flavour::kOcp);
  return fits ? std::nullopt
              : std::optional(
                    Broken{integer ? "f32, f16, bf16 or int32" : "f32, f16, bf16 (e4m3, e5m2 on OCP targets)",
                           type_text(s.d)});
}

std::optional<Broken> gpu_tile(const KernelSpec& s) {
  const Dims unit = {s.warps.m * s.instruction.m, s.warps.n * s.instruction.n, s.warps.k * s.instruction.k};
  // swap_ab puts tokens on the instruction's n, so tile and instruction are already those of the swap.
  const bool fits = s.tile.m % unit.m == 0 && s.tile.n % unit.n == 0 && s.tile.k % unit.k == 0;
  return fits ? std::nullopt
              : std::optional(Broken{fmt::format("multiples of warps x instruction = {}", to_string(unit)),
                                     to_string(s.tile)});
}

// One scale must hold for all products of one instruction, and the tile must hold whole blocks of columns.
std::optional<Broken> scale_along_k(const KernelSpec& s, const ScaleSpec& scale) {
  const Instruction& row = *instruction_of(s);
  if (row.k_per_scale != 0 && scale.type == DType::kE8m0 && scale.block_k == row.k_per_scale) {
    return std::nullopt;
  }
  if (scale.block_k != spec::kAll && scale.block_k % row.shape.k != 0) {
    return Broken{fmt::format("a block_k that is a multiple of the instruction's {}{}", row.shape.k,
                              row.k_per_scale != 0 ? fmt::format(", or e8m0 per {}", row.k_per_scale) : ""),
                  fmt::format("{} per {}", num::name(scale.type), scale.block_k)};
  }
  return std::nullopt;
}

std::optional<Broken> gpu_scales(const KernelSpec& s) {
  for (const std::optional<ScaleSpec>* scale : {&s.a_scale, &s.b_scale}) {
    if (*scale) {
      if (auto broken = scale_along_k(s, **scale)) {
        return broken;
      }
    }
  }
  return std::nullopt;
}

std::optional<Broken> gpu_zero_points(const KernelSpec& s) {
  return s.a_scale && s.a_scale->zero_type
             ? std::optional(Broken{"none on A", std::string(num::name(*s.a_scale->zero_type))})
             : std::nullopt;
}

std::optional<Broken> gpu_threads(const KernelSpec& s) {
  const int most = limits(s.target).max_threads;
  return block_threads(s) <= most ? std::nullopt
                                  : std::optional(Broken{fmt::format("at most {} threads", most),
                                                         std::to_string(block_threads(s))});
}

std::optional<Broken> gpu_registers(const KernelSpec& s) {
  // What is left of a thread's registers holds addresses, fragments and scales.
  const int64_t most = limits(s.target).max_registers * 4 / 5;
  const int64_t need = accumulator_registers(s);
  return need <= most ? std::nullopt
                      : std::optional(Broken{fmt::format("at most {} accumulator registers a thread", most),
                                             std::to_string(need)});
}

std::optional<Broken> gpu_shared(const KernelSpec& s) {
  const int64_t most = limits(s.target).shared_bytes;
  const int64_t need = stage_bytes(s);
  return need <= most ? std::nullopt
                      : std::optional(Broken{fmt::format("at most {} bytes of shared memory", most),
                                             fmt::format("{} for the stages of A and B", need)});
}

std::optional<Broken> gpu_cluster(const KernelSpec& s) {
  const int most = limits(s.target).max_cluster;
  const int blocks = s.cluster_m * s.cluster_n;
  if (blocks <= most && (s.split_k != SplitK::kCluster || most > 1)) {
    return std::nullopt;
  }
  return Broken{fmt::format("at most {} blocks a cluster", most),
                fmt::format("{}x{}{}", s.cluster_m, s.cluster_n,
                            s.split_k == SplitK::kCluster ? ", split over a cluster" : "")};
}

// What a family's template takes (src/arch/cuda_family.h).
std::optional<Broken> cuda_template(const KernelSpec& s) {
  std::optional<Need> need;
  if (is_mma(s)) {
    need = mma_need(s);
  } else if (s.target == Target::kSm90a) {
    need = tma_need(s);
  }
  return need ? std::optional(Broken{std::move(need->needed), std::move(need->got)}) : std::nullopt;
}

std::optional<Broken> gpu_packed(const KernelSpec& s) {
  return s.packed == spec::Packing::kRaw
             ? std::nullopt
             : std::optional(Broken{"raw", std::string(spec::to_string(s.packed))});
}

constexpr Rule kGpuRules[] = {
    {"fixed fields", gpu_fixed},        {"pipeline", gpu_pipeline}, {"fp8 flavour", gpu_flavour},
    {"instruction", gpu_instruction},   {"widened type", gpu_via},  {"layouts", gpu_layouts},
    {"type of D", gpu_output},          {"tile", gpu_tile},         {"scale blocks along K", gpu_scales},
    {"zero points", gpu_zero_points},   {"threads", gpu_threads},   {"registers", gpu_registers},
    {"shared memory", gpu_shared},      {"cluster", gpu_cluster},   {"packed layout of B", gpu_packed},
    {"kernel template", cuda_template},
};

}  // namespace

const Instruction* instruction_of(const KernelSpec& s) {
  return s.a && s.b ? find_instruction(s.target, {*s.a, *s.b, s.via}, s.instruction) : nullptr;
}

int64_t stage_bytes(const KernelSpec& s) {
  const auto matrix = [&](DType type, int rows) { return num::bytes_of(type, int64_t{rows} * s.tile.k); };
  const int64_t stage =
      matrix(s.a.value_or(DType::kF32), s.tile.m) + matrix(s.b.value_or(DType::kF32), s.tile.n);
  const bool twice = s.pipeline == Pipeline::kCompV4 || s.pipeline == Pipeline::kCompAsync;
  return stage * (s.stages != 0 ? s.stages : (twice ? 2 : 1));
}

int64_t accumulator_registers(const KernelSpec& s) {
  const int64_t sums = int64_t{s.tile.m} * s.tile.n / std::max(1, consumer_threads(s));
  if (s.target != Target::kSm90a || is_mma(s) || promote_k(s) == 0) {
    return sums;
  }
  // A chain of one 64-row block is summed apart; two of them where one is carried.
  return sums + s.tile.n / 2 * (s.pipeline == Pipeline::kTmaCarried ? 2 : 1);
}

std::optional<Decline> illegal(const KernelSpec& spec) {
  if (Status status = check(spec); !status.ok()) {
    return Decline{"", "well-formed spec", "what docs/kernel-names.md says", status.message()};
  }
  const std::span<const Rule> rules =
      spec::is_cpu(spec.target) ? std::span<const Rule>(kCpuRules) : std::span<const Rule>(kGpuRules);
  for (const Rule& rule : rules) {
    if (std::optional<Broken> broken = rule.check(spec)) {
      return Decline{spec::name(spec), rule.name, std::move(broken->needed), std::move(broken->got)};
    }
  }
  return std::nullopt;
}

Status legal(const KernelSpec& spec) {
  const std::optional<Decline> broken = illegal(spec);
  return broken ? unsupported("{}", to_string(*broken)) : ok_status();
}

}  // namespace scalegemm::arch
