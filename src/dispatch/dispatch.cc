#include "dispatch/dispatch.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "arch/cpu_family.h"
#include "arch/cuda_family.h"
#include "arch/legal.h"
#include "dispatch/gpu_cost.h"
#include "num/name_list.h"
#include "spec/scheme.h"

namespace scalegemm::dispatch {
namespace {

using spec::CpuDesc;
using spec::Decline;
using spec::GpuDesc;
using spec::KernelSpec;
using spec::Packing;
using spec::Problem;
using spec::TargetRates;

// "i8dot on avx512": what declines when a family has no kernel for the problem's B.
std::string family_name(const arch::CpuFamily& family) {
  return fmt::format("{} on {}", spec::to_string(family.pipeline), spec::target_name(family.target));
}

// The kernel of a family for the problem's B joins the candidates or the declines.
void judge(const arch::CpuFamily& family, const TargetRates& rates, const CpuDesc& cpu, Explanation& out) {
  const Problem& p = out.problem;
  if (std::find(family.b_types.begin(), family.b_types.end(), p.b.type) == family.b_types.end()) {
    out.declines.push_back({family_name(family),
                            fmt::format("{}: type of B", spec::to_string(family.pipeline)),
                            num::name_list(family.b_types), std::string(num::name(p.b.type))});
    return;
  }
  const KernelSpec spec = arch::make_spec(family, p.b.type);
  if (std::optional<Decline> decline = arch::cpu_declines(spec, p)) {
    decline->kernel = spec::name(spec);
    out.declines.push_back(std::move(*decline));
    return;
  }
  Problem ranked = p;
  ranked.m = p.batch_invariant ? kRankRows : p.m;
  out.candidates.push_back(
      {spec, spec::name(spec), predict(spec, ranked, rates.rates, cpu.cores), std::nullopt});
}

void sort_by_cost(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& x, const Candidate& y) {
    return x.cost->total_us < y.cost->total_us;
  });
}

// Wider targets come first among equals: they are last in the description.
void enumerate(const CpuDesc& cpu, Explanation& out) {
  for (auto rates = cpu.targets.rbegin(); rates != cpu.targets.rend(); ++rates) {
    for (const arch::CpuFamily& family : arch::kCpuFamilies) {
      if (family.target == rates->target) {
        judge(family, *rates, cpu, out);
      }
    }
  }
  sort_by_cost(out.candidates);
}

// Candidates that cannot be had become one decline.
void keep_available(const Options& options, Explanation& out) {
  if (!options.available) {
    return;
  }
  const auto missing = std::stable_partition(out.candidates.begin(), out.candidates.end(),
                                             [&](const Candidate& c) { return options.available(c.spec); });
  if (missing == out.candidates.end()) {
    return;
  }
  const auto others = out.candidates.end() - missing - 1;
  out.declines.push_back(
      {out.device, "built in", "a kernel that this library holds",
       others == 0 ? missing->name : fmt::format("{} and {} more", missing->name, others)});
  out.candidates.erase(missing, out.candidates.end());
}

// What a device says of a kernel: why it does not take the problem, and what it would cost.
struct Judge {
  std::string device;
  spec::Target best;  // the target that keys the tuned table
  std::function<bool(spec::Target)> runs;
  std::function<std::optional<Decline>(const KernelSpec&)> declines;
  std::function<Cost(const KernelSpec&)> predict;
};

// The candidate that a tuned row names, or why it is none.
Status use_tuned(const TunedRow& row, const Options& options, const Judge& judge, Explanation& out) {
  SCALEGEMM_ASSIGN_OR_RETURN(KernelSpec spec, spec::parse(row.kernel));
  if (spec.target == spec::Target::kSm90a && spec.pipeline != spec::Pipeline::kMma) {
    // The row's tile for this problem: rows say nothing of the epilogue, and may be those of its kin.
    const Problem& p = out.problem;
    spec.fused = p.epilogue != spec::EpilogueSpec{};
    spec.a = p.a.type;
    spec.b = p.b.type;
    spec.d = p.d;
    spec.a_scale = p.a.scale;
    spec.b_scale = p.b.scale;
  }
  const std::string name = spec::name(spec);
  const auto named = std::find_if(out.candidates.begin(), out.candidates.end(),
                                  [&name](const Candidate& c) { return c.name == name; });
  if (named != out.candidates.end()) {
    named->tuned_us = row.us;
    std::rotate(out.candidates.begin(), named, named + 1);
    return ok_status();
  }
  SCALEGEMM_RETURN_IF_ERROR(arch::legal(spec));
  if (!judge.runs(spec.target)) {
    return unsupported("needed a target of this device; given {}", spec::target_name(spec.target));
  }
  if (options.available && !options.available(spec)) {
    return unsupported("needed a kernel that this library holds; given {}", name);
  }
  if (const std::optional<Decline> decline = judge.declines(spec)) {
    return unsupported("{}", to_string(*decline));
  }
  // A legal variant that is not in the tables of the library's own kernels: another K block, for example.
  Candidate tuned{spec, name, judge.predict(spec), row.us};
  out.candidates.insert(out.candidates.begin(), std::move(tuned));
  return ok_status();
}

// The problem of the same cost on a GPU that the library's table was measured with: operands as they are
// copied, e4m3 for fp8 and bf16 for 16 bits, a scale a row where scales span K.
Problem kin_of(const Problem& problem) {
  Problem kin = problem;
  kin.a.layout = spec::Layout::kRow;
  kin.b.layout = spec::Layout::kCol;
  for (spec::OperandSpec* o : {&kin.a, &kin.b}) {
    o->type = o->type == num::DType::kE5m2 ? num::DType::kE4m3 : o->type;
    o->type = o->type == num::DType::kF16 ? num::DType::kBf16 : o->type;
    const bool spans_k = !o->scale || o->scale->block_k == spec::kAll;
    if (spans_k && num::info(o->type).bits == 8) {
      o->scale = spec::ScaleSpec{};
    }
  }
  kin.d = num::info(kin.d).bits == 16 ? num::DType::kBf16 : kin.d;
  // Kernels whose sums need no promotion, or always promote, are the same in every accuracy.
  const auto has_blocks = [](const spec::OperandSpec& o) {
    return o.scale && o.scale->block_k != spec::kAll;
  };
  if (has_blocks(kin.a) || has_blocks(kin.b) || kin.a.type != num::DType::kE4m3) {
    kin.accuracy = spec::Accuracy::kPromoted;
  }
  return kin;
}

Status overlay(const Options& options, const Judge& judge, Explanation& out) {
  const bool gpu = !spec::is_cpu(judge.best);
  if (gpu && out.problem.batch != 1) {
    return ok_status();  // rows are times of one GEMM, and what a batch costs is another question
  }
  Problem keyed = out.problem;
  keyed.m = keyed.batch_invariant ? kRankRows : keyed.m;
  const auto find = [&judge](const TunedTable* table, const Problem& p) {
    return table != nullptr ? table->find(p, judge.best, judge.device) : nullptr;
  };
  if (const TunedRow* row = find(options.tuned, keyed)) {
    Status used =
        use_tuned(*row, options, judge, out).with_context(fmt::format("tuned kernel {}", row->kernel));
    if (!used.ok() && options.strictness == Strictness::kStrict) {
      return used;
    }
    if (!used.ok()) {
      out.notes.push_back(used.message() + "; ranked by the model instead");
    }
    return ok_status();
  }
  // A choice of the library's, or one for another problem, that does not fit is no fault of the user's.
  if (const TunedRow* row = find(options.shipped, keyed)) {
    (void)use_tuned(*row, options, judge, out);
    return ok_status();
  }
  const Problem kin = gpu ? kin_of(keyed) : keyed;
  for (const TunedTable* table : {options.tuned, options.shipped}) {
    const TunedRow* row = kin == keyed ? nullptr : find(table, kin);
    if (row != nullptr && use_tuned(*row, options, judge, out).ok()) {
      out.candidates.front().tuned_us.reset();  // the time is of the other problem
      out.notes.push_back(fmt::format("chosen as measured for {}", signature(kin)));
      break;
    }
  }
  return ok_status();
}

Judge judge_of(const CpuDesc& cpu, const Problem& problem) {
  return {.device = cpu.name,
          .best = cpu.targets.back().target,
          .runs =
              [&cpu](spec::Target target) {
                return std::any_of(cpu.targets.begin(), cpu.targets.end(),
                                   [target](const TargetRates& t) { return t.target == target; });
              },
          .declines = [&problem](const KernelSpec& spec) { return arch::cpu_declines(spec, problem); },
          .predict =
              [&cpu, &problem](const KernelSpec& spec) {
                const auto rates =
                    std::find_if(cpu.targets.begin(), cpu.targets.end(),
                                 [&spec](const TargetRates& t) { return t.target == spec.target; });
                return predict(spec, problem, rates->rates, cpu.cores);
              }};
}

Judge judge_of(const GpuDesc& gpu, const Problem& problem) {
  return {.device = gpu.name,
          .best = gpu.target,
          .runs = [&gpu](spec::Target target) { return target == gpu.target; },
          .declines = [&problem](const KernelSpec& spec) { return arch::gpu_declines(spec, problem); },
          .predict = [&gpu, &problem](const KernelSpec& spec) { return predict(spec, problem, gpu); }};
}

// A GPU kernel's relative time: padded multiply-adds over the instruction's rate, and what its tiles read.
double relative_work(const KernelSpec& s, const Problem& p) {
  const auto tiles = [](int64_t extent, int tile) { return std::ceil(static_cast<double>(extent) / tile); };
  const int rows = s.swap_ab ? s.tile.n : s.tile.m;
  const int columns = s.swap_ab ? s.tile.m : s.tile.n;
  const double area = tiles(p.m, rows) * rows * tiles(p.n, columns) * columns;
  const arch::Instruction& instruction = *arch::instruction_of(s);
  const double per_k = 1.0 / instruction.shape.k;  // where no rate is known: instructions a tile
  const double compute = instruction.rate > 0 ? 1.0 / instruction.rate : per_k / 64;
  const double traffic = (1.0 / rows + 1.0 / columns) / 128;
  return area * (compute + traffic);
}

Explanation empty_explanation(const Problem& problem, std::string device) {
  Explanation out;
  out.problem = problem;
  out.device = std::move(device);
  return out;
}

void enumerate_gpu(spec::Target target, Explanation& out) {
  for (const KernelSpec& spec : arch::gpu_candidates(target, out.problem)) {
    std::optional<Decline> decline = arch::illegal(spec);
    if (!decline) {
      decline = arch::gpu_declines(spec, out.problem);
    }
    if (decline) {
      decline->kernel = spec::name(spec);
      // Tiles of one family are refused for one reason: say it once.
      const bool said = std::any_of(out.declines.begin(), out.declines.end(), [&](const Decline& d) {
        return d.rule == decline->rule && d.needed == decline->needed && d.got == decline->got;
      });
      if (!said) {
        out.declines.push_back(std::move(*decline));
      }
    } else {
      out.candidates.push_back({spec, spec::name(spec), std::nullopt, std::nullopt});
    }
  }
  if (out.candidates.empty() && out.declines.empty()) {
    out.declines.push_back(
        {std::string(spec::target_name(target)), "instruction",
         "operand types that one of its matrix instructions multiplies",
         fmt::format("{} x {}", num::name(out.problem.a.type), num::name(out.problem.b.type))});
  }
  const Problem& p = out.problem;
  std::stable_sort(out.candidates.begin(), out.candidates.end(),
                   [&p](const Candidate& x, const Candidate& y) {
                     return relative_work(x.spec, p) < relative_work(y.spec, p);
                   });
}

}  // namespace

Result<spec::Packing> choose_packing(const Problem& problem, const CpuDesc& cpu, const Options& options) {
  Problem raw = problem;
  raw.b_packing = Packing::kRaw;
  raw.m = kRankRows;
  SCALEGEMM_ASSIGN_OR_RETURN(const Candidate best, choose(raw, cpu, {.available = options.available}));
  return best.spec.packed;
}

Result<Explanation> explain(const Problem& problem, const CpuDesc& cpu, const Options& options) {
  SCALEGEMM_RETURN_IF_ERROR(validate(problem));
  if (cpu.targets.empty()) {
    return make_error(Code::kNoDevice, "device {}: needed a processor that runs {}; given none of them",
                      cpu.name, spec::target_name(spec::Target::kX86V3));
  }
  Explanation out = empty_explanation(problem, cpu.name);
  if (problem.b_packing == Packing::kChosen) {
    SCALEGEMM_ASSIGN_OR_RETURN(out.problem.b_packing, choose_packing(problem, cpu, options));
  }
  out.signature = signature(out.problem);
  enumerate(cpu, out);
  keep_available(options, out);
  const Problem judged = out.problem;
  SCALEGEMM_RETURN_IF_ERROR(overlay(options, judge_of(cpu, judged), out));
  return out;
}

Result<Explanation> explain(const Problem& problem, const GpuDesc& gpu, const Options& options) {
  SCALEGEMM_RETURN_IF_ERROR(validate(problem));
  Explanation out = empty_explanation(problem, gpu.name);
  if (problem.b_packing == Packing::kChosen) {
    out.problem.b_packing = Packing::kRaw;
  }
  out.signature = signature(out.problem);
  enumerate_gpu(gpu.target, out);
  keep_available(options, out);
  Problem ranked = out.problem;
  ranked.m = ranked.batch_invariant ? kRankRows : ranked.m;
  for (Candidate& candidate : out.candidates) {
    candidate.cost = predict(candidate.spec, ranked, gpu);
  }
  sort_by_cost(out.candidates);
  const Problem judged = out.problem;
  SCALEGEMM_RETURN_IF_ERROR(overlay(options, judge_of(gpu, judged), out));
  if (!out.candidates.empty()) {
    const KernelSpec& chosen = out.candidates.front().spec;
    const arch::Relayout relayout = arch::relayout_for(chosen, problem);
    if (relayout.operands()) {
      out.notes.push_back(
          fmt::format("{} copied into the workspace before each run ({:.1f} us predicted), unless K is "
                      "contiguous there and rows "
                      "lie a multiple of 16 bytes apart",
                      relayout.a && relayout.b ? "A and B are"
                      : relayout.a             ? "A is"
                                               : "B is",
                      predict(chosen, ranked, gpu).relayout_us));
    }
    if (relayout.scale_a || relayout.scale_b) {
      out.notes.emplace_back(
          "block scales are copied into the workspace before a run unless TMA can address them (1 x k: "
          "contiguous along "
          "rows, 128 x k: along K, lines a multiple of 16 bytes apart)");
    }
    const std::vector<KernelSpec> kernels = with_fallbacks(chosen, out, true);
    for (size_t i = 1; i < kernels.size(); ++i) {
      out.notes.push_back(
          fmt::format("runs that TMA cannot address as they are take {}", spec::name(kernels[i])));
    }
  }
  return out;
}

Result<Candidate> choose(const Problem& problem, const CpuDesc& cpu, const Options& options) {
  SCALEGEMM_ASSIGN_OR_RETURN(Explanation explanation, explain(problem, cpu, options));
  if (!explanation.candidates.empty()) {
    return std::move(explanation.candidates.front());
  }
  std::string reasons;
  for (const Decline& decline : explanation.declines) {
    reasons += "\n  " + to_string(decline);
  }
  return unsupported("no kernel of {} takes {}:{}", explanation.device, explanation.signature, reasons);
}

std::vector<KernelSpec> with_fallbacks(const KernelSpec& chosen, const Explanation& e, bool allowed) {
  std::vector<KernelSpec> kernels = {chosen};
  if (!allowed || chosen.pipeline == spec::Pipeline::kMma) {
    return kernels;
  }
  const auto add_first = [&](auto&& wanted) {
    const auto found = std::find_if(e.candidates.begin(), e.candidates.end(),
                                    [&](const Candidate& c) { return wanted(c.spec); });
    if (found != e.candidates.end()) {
      kernels.push_back(found->spec);
    }
  };
  if (!chosen.strided_scales) {
    add_first([](const KernelSpec& s) { return s.strided_scales; });
  }
  add_first([](const KernelSpec& s) { return s.pipeline == spec::Pipeline::kMma; });
  return kernels;
}

Result<Explanation> explain_target(const Problem& problem, spec::Target target, Backend backend) {
  if (spec::is_cpu(target)) {
    CpuDesc cpu;
    cpu.name = spec::target_name(target);
    // Its own kernels, and those of the levels below that it also runs.
    for (const spec::TargetName& row : spec::kTargets) {
      if (row.is_cpu && row.target <= target) {
        cpu.targets.push_back({row.target, {}});
      }
    }
    SCALEGEMM_ASSIGN_OR_RETURN(Explanation out, explain(problem, cpu));
    out.notes.emplace_back("times are predicted from nominal rates: no device was given");
    return out;
  }
  if (spec::is_cuda(target)) {
    GpuDesc gpu;
    gpu.name = spec::target_name(target);
    gpu.target = target;
    SCALEGEMM_ASSIGN_OR_RETURN(Explanation out, explain(problem, gpu));
    out.notes.emplace_back("times are predicted for an H200: no device was given");
    return out;
  }
  SCALEGEMM_RETURN_IF_ERROR(validate(problem));
  Explanation out = empty_explanation(problem, std::string(spec::target_name(target)));
  if (problem.b_packing == Packing::kChosen) {
    out.problem.b_packing = Packing::kRaw;
  }
  out.signature = signature(out.problem);
  enumerate_gpu(target, out);
  out.notes.emplace_back(
      "ordered by padded work and operand traffic; no device was given, so no times are predicted");
  if (backend == Backend::kNotBuilt) {
    out.notes.push_back(
        fmt::format("the back end of {} is not built: these kernels are legal, but this library "
                    "cannot compile or run them",
                    spec::target_name(target)));
  }
  return out;
}

}  // namespace scalegemm::dispatch
