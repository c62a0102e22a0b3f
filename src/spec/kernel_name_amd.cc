// Names of AMD's dispatcher -> KernelSpec, so that its users find their kernels here.
//
//   [grouped_|mx_]gemm[_op]_{types}_{layout}_{pipeline}_{epilogue}_{scheduler}[_{True|False} x 3 or 4]
//       _{tile}_{waves}_{instruction}[_option ...]
//
// Such a name leaves out much of what changes the machine code; where it is silent the default of KernelSpec
// holds. What it can say and a KernelSpec cannot is refused with the reason, never dropped.
#include <array>

#include "spec/name_text.h"

namespace scalegemm::spec::text {
namespace {

constexpr bool is_fnuz(Target target) {
  return target == Target::kGfx942;
}

// Types of A, B and D. kE4m3 and kE5m2 stand for the flavour of the target.
struct AmdTypes {
  std::string_view word;
  DType a, b, d;
};
constexpr AmdTypes kAmdTypes[] = {
    {"fp16", DType::kF16, DType::kF16, DType::kF16},
    {"bf16", DType::kBf16, DType::kBf16, DType::kBf16},
    {"fp32", DType::kF32, DType::kF32, DType::kF32},
    {"fp8", DType::kE4m3, DType::kE4m3, DType::kF16},
    {"bf8", DType::kE5m2, DType::kE5m2, DType::kF16},
    {"int8", DType::kInt8, DType::kInt8, DType::kInt32},
    {"fp4", DType::kE2m1, DType::kE2m1, DType::kF16},
    {"bf16fp4", DType::kBf16, DType::kE2m1, DType::kBf16},
    {"bf16bf16", DType::kBf16, DType::kBf16, DType::kBf16},
    {"bf16bf8", DType::kBf16, DType::kE5m2, DType::kBf16},
};
constexpr std::string_view kInt4Words[] = {"fp8i4", "bf8i4"};

// Which operands have a scale, its type and its blocks; `group` marks blocks that come from qg options.
struct AmdOp {
  std::string_view word;  // what follows "gemm", longest first
  std::optional<ScaleSpec> a, b;
  bool group_a, group_b;
};
constexpr ScaleSpec kTensor{DType::kF32, kAll, kAll, std::nullopt, false};
constexpr ScaleSpec kRow{DType::kF32, 1, kAll, std::nullopt, false};
constexpr ScaleSpec kMx{DType::kE8m0, 1, 32, std::nullopt, false};
constexpr AmdOp kOps[] = {
    {"tensor_quant", kTensor, kTensor, false, false}, {"tensorquant", kTensor, kTensor, false, false},
    {"rowcolquant", kRow, kRow, false, false},        {"abquant", kRow, kRow, true, true},
    {"aquant", kRow, std::nullopt, true, false},      {"bquant_mx", std::nullopt, kMx, false, true},
    {"bquant", std::nullopt, kRow, false, true},
};
constexpr AmdOp kPlain{"", std::nullopt, std::nullopt, false, false};
constexpr AmdOp kMxGemm{"", kMx, kMx, false, false};

constexpr Word<Pipeline> kAmdPipelines[] = {
    {Pipeline::kMem, "mem"},
    {Pipeline::kCompV3, "compv3"},
    {Pipeline::kCompV4, "compv4"},
    {Pipeline::kCompV5, "compv5"},
    {Pipeline::kCompAsync, "comp_async"},
    {Pipeline::kMicroscale, "microscale"},
};
constexpr Word<EpilogueKind> kAmdEpilogues[] = {{EpilogueKind::kDefault, "default"},
                                                {EpilogueKind::kCShuffle, "cshuffle"}};
constexpr Word<Scheduler> kAmdSchedulers[] = {{Scheduler::kIntrawave, "intrawave"},
                                              {Scheduler::kInterwave, "interwave"},
                                              {Scheduler::kDefault, "default"}};

// Words that a reader of AMD's names knows and a KernelSpec has no room for.
struct Refusal {
  std::string_view prefix;
  std::string_view reason;
};
constexpr Refusal kRefusedPipelines[] = {
    {"preshuffle", "B in that order has no packed layout id, so raw and shuffled weights could be mixed up"},
    {"eightwaves", "not a pipeline of scalegemm; its group sizes and wave map are tied to one tile"},
    {"compv1", "superseded by compv3"},
    {"compv2", "superseded by compv3"},
    {"compv6", "not a pipeline of scalegemm"},
    {"wavelet", "not a pipeline of scalegemm"},
    {"comp_tdm", "it needs gfx1250, which is no target of scalegemm"},
};
constexpr Refusal kRefusedEpilogues[] = {
    {"permute", "its columns leave the kernel in a private order; kernels here write logical D"},
    {"tdm", "it needs gfx1250, which is no target of scalegemm"},
};
constexpr Refusal kRefusedOptions[] = {
    {"preshufflequant", "scales in that order have no layout id"},
    {"preshuffleaq", "scales in that order have no layout id"},
    {"preshufflebq", "scales in that order have no layout id"},
    {"preshuffle", "B in that order has no packed layout id, so raw and shuffled weights could be mixed up"},
    {"permuteN", "its columns leave the kernel in a private order; kernels here write logical D"},
    {"eightwaves", "not a pipeline of scalegemm; its group sizes and wave map are tied to one tile"},
    {"transposec", "accumulators held as D^T are swap_ab here, which that option is not"},
    {"grouped", "a list of problems is part of the Problem, not of a kernel"},
    {"multid", "further D tensors are the run-time epilogue (beta*C, bias, activation)"},
    {"multiabd", "element-wise combinations of several A or B tensors are not a GEMM operand here"},
};

Status refuse_if(const Reader& in, std::span<const Refusal> rows) {
  for (const Refusal& row : rows) {
    if (in.peek().starts_with(row.prefix)) {
      return in.refuse(row.reason);
    }
  }
  return ok_status();
}

// "gemm", with its prefixes. "grouped" means quantisation groups of a single problem.
bool skip_gemm(Reader& in, bool& mx) {
  mx = in.skip("mx");
  in.skip("grouped");
  return in.skip("gemm");
}

const AmdOp& take_op(Reader& in, bool mx) {
  for (const AmdOp& op : kOps) {
    if (in.skip(op.word)) {
      return op;
    }
  }
  return mx ? kMxGemm : kPlain;
}

std::optional<DType> flavoured(DType type, Target target) {
  if (is_fnuz(target) && type == DType::kE4m3) {
    return DType::kE4m3Fnuz;
  }
  if (is_fnuz(target) && type == DType::kE5m2) {
    return DType::kE5m2Fnuz;
  }
  return type;
}

Status take_types(Reader& in, KernelSpec& spec) {
  for (const AmdTypes& row : kAmdTypes) {
    if (in.skip(row.word)) {
      spec.a = flavoured(row.a, spec.target);
      spec.b = flavoured(row.b, spec.target);
      spec.d = row.d;
      return ok_status();
    }
  }
  for (std::string_view word : kInt4Words) {
    if (in.peek() == word) {
      return in.refuse(
          "its 4-bit codes are offset by 8 with even k in the high nibble, and which operand they are "
          "differs between users of the word; int4 here is two's complement, even k low");
    }
  }
  return in.error("operand types (fp16, bf16, fp32, fp8, bf8, int8, fp4, bf16fp4, bf16bf8, bf16bf16)");
}

Status take_layout(Reader& in, KernelSpec& spec) {
  spec.layouts = parse_layout_word(in.peek());
  if (spec.layouts) {
    in.take();
    return ok_status();
  }
  if (in.peek().size() == 4 && parse_layout_word(in.peek().substr(0, 3))) {
    return in.refuse("a fourth letter is a further D tensor, which is the run-time epilogue here");
  }
  return in.error("a layout (rcr, rrr, crr, ccr)");
}

// True/False for the pads of M, N, K and for persistence: none, 3 or 4 of them.
Status take_flags(Reader& in, KernelSpec& spec) {
  bool* const flags[] = {&spec.pads.m, &spec.pads.n, &spec.pads.k, &spec.persistent};
  size_t count = 0;
  for (; count < std::size(flags); ++count) {
    if (in.peek() != "True" && in.peek() != "False") {
      break;
    }
    *flags[count] = in.take() == "True";
  }
  return count == 0 || count >= 3 ? ok_status() : in.error("True or False for the pads of M, N and K");
}

// "1x1x128" behind qg, aqg or bqg: blocks of M, N, K. One of M and N must be 1: it is not the operand's.
Status take_group(Reader& in, std::string_view prefix, std::optional<ScaleSpec>& scale, bool of_a) {
  const bool plain = in.peek().starts_with("qg");
  const std::string_view used = plain ? std::string_view("qg") : prefix;
  const std::optional<Dims> dims =
      in.peek().starts_with(used) ? parse_dims(in.peek().substr(used.size())) : std::nullopt;
  if (!dims || (of_a ? dims->n : dims->m) != 1) {
    return in.error(fmt::format("the quantisation group as {}{}", prefix, of_a ? "{m}x1x{k}" : "1x{n}x{k}"));
  }
  scale->block_rows = of_a ? dims->m : dims->n;
  scale->block_k = dims->k;
  in.take();
  return ok_status();
}

Status take_groups(Reader& in, const AmdOp& op, KernelSpec& spec) {
  spec.scales = Scales::kFixed;
  spec.a_scale = op.a;
  spec.b_scale = op.b;
  if (op.group_a) {
    SCALEGEMM_RETURN_IF_ERROR(take_group(in, "aqg", spec.a_scale, true));
  }
  return op.group_b ? take_group(in, "bqg", spec.b_scale, false) : ok_status();
}

Status take_streamk(Reader& in, KernelSpec& spec) {
  if (in.peek() != "streamk") {
    return ok_status();
  }
  Reader ahead = in;
  ahead.take();
  if (ahead.skip("linear")) {
    spec.split_k = SplitK::kStreamKLinear;
  } else if (ahead.skip("tree")) {
    spec.split_k = SplitK::kStreamKTree;
  } else {
    return in.refuse(
        "atomic sums of rounded partials depend on timing; streamk_linear and streamk_tree do not");
  }
  in = ahead;
  return ok_status();
}

Status take_options(Reader& in, KernelSpec& spec) {
  SCALEGEMM_RETURN_IF_ERROR(take_streamk(in, spec));
  if (in.done()) {
    return ok_status();
  }
  SCALEGEMM_RETURN_IF_ERROR(refuse_if(in, kRefusedOptions));
  return in.error("the target or an option");
}

}  // namespace

bool looks_like_amd(std::string_view text) {
  Reader in(text);
  bool mx = false;
  if (!skip_gemm(in, mx)) {
    return false;
  }
  take_op(in, mx);
  for (const AmdTypes& row : kAmdTypes) {
    if (in.peek() == row.word) {
      return true;
    }
  }
  return in.peek() == kInt4Words[0] || in.peek() == kInt4Words[1];
}

Result<KernelSpec> parse_amd(std::string_view text, Target target) {
  Reader in(text);
  KernelSpec spec;
  spec.target = target;
  if (target != Target::kGfx942 && target != Target::kGfx950) {
    return unsupported("kernel name: a name of AMD's dispatcher needed target gfx942 or gfx950; given {}",
                       target_name(target));
  }
  bool mx = false;
  skip_gemm(in, mx);
  const AmdOp& op = take_op(in, mx);
  SCALEGEMM_RETURN_IF_ERROR(take_types(in, spec));
  SCALEGEMM_RETURN_IF_ERROR(take_layout(in, spec));
  SCALEGEMM_RETURN_IF_ERROR(refuse_if(in, kRefusedPipelines));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.pipeline, in.one_of<Pipeline>("a pipeline", kAmdPipelines));
  SCALEGEMM_RETURN_IF_ERROR(refuse_if(in, kRefusedEpilogues));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.epilogue, in.one_of<EpilogueKind>("an epilogue", kAmdEpilogues));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.scheduler, in.one_of<Scheduler>("a scheduler", kAmdSchedulers));
  SCALEGEMM_RETURN_IF_ERROR(take_flags(in, spec));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.tile, in.dims("a tile"));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.warps, in.dims("waves"));
  SCALEGEMM_ASSIGN_OR_RETURN(spec.instruction, in.dims("an instruction"));
  spec.packed = default_packed(spec.pipeline, spec.b);
  if (spec.pipeline == Pipeline::kMicroscale) {
    spec.via = DType::kBf16;  // that is what the pipeline expands B to
  }
  SCALEGEMM_RETURN_IF_ERROR(take_groups(in, op, spec));
  SCALEGEMM_RETURN_IF_ERROR(take_options(in, spec));
  return spec;
}

}  // namespace scalegemm::spec::text
