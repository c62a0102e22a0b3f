#include "runtime/plan.h"

#include <algorithm>

#include "common/panels.h"

namespace scalegemm::runtime {
namespace {

static_assert(static_cast<int>(DType::kF32) == SG_F32 && static_cast<int>(DType::kE2m1) == SG_E2M1 &&
              static_cast<int>(DType::kInt32) == SG_INT32);
static_assert(static_cast<int>(spec::Activation::kSilu) == SG_ACT_SILU);
static_assert(static_cast<int>(spec::Packing::kPanelK1x32) == SG_PANEL_K1X32 &&
              static_cast<int>(spec::Packing::kPanelK4x16) == SG_PANEL_K4X16);

constexpr uintptr_t kWorkspaceAlign = 64;

int32_t id(DType type) {
  return static_cast<int32_t>(type);
}

// Stands for "present" where a description has no memory yet: kernels only compare it with null.
const char kPresent = 0;

SgScale describe_grid(DType type, const spec::ScaleSpec& scale, int64_t rows, int64_t k) {
  SgScale out{};
  out.data = &kPresent;
  out.block_r = scale.block_rows == spec::kAll ? rows : std::min(scale.block_rows, rows);
  out.block_k = scale.block_k == spec::kAll ? k : std::min(scale.block_k, k);
  out.dtype = id(type);
  return out;
}

SgOperand describe_operand(const spec::OperandSpec& operand, int64_t rows, int64_t k) {
  SgOperand out{};
  out.data = &kPresent;
  out.dtype = id(operand.type);
  if (operand.scale) {
    out.scale = describe_grid(operand.scale->type, *operand.scale, rows, k);
    if (operand.scale->zero_type) {
      out.zero = describe_grid(*operand.scale->zero_type, *operand.scale, rows, k);
    }
  }
  return out;
}

// A batch of 1 serves every batch index.
int64_t batch_stride(const Tensor& tensor) {
  return tensor.shape[0] == 1 ? 0 : tensor.stride[0];
}

void bind_grid(const Tensor& tensor, SgScale* out) {
  if (tensor.present()) {
    out->data = tensor.data;
    out->stride_r = stride_of(tensor, 1);
    out->stride_k = stride_of(tensor, 2);
    out->stride_batch = batch_stride(tensor);
  }
}

void bind_operand(const Tensor& tensor, SgOperand* out) {
  out->data = tensor.data;
  out->stride_r = stride_of(tensor, 1);
  out->stride_k = stride_of(tensor, 2);
  out->stride_batch = batch_stride(tensor);
}

Status check_a_grid(const Tensor& tensor, std::string_view name, DType type, const spec::Problem& p) {
  const spec::Grid grid = spec::scale_grid(*p.a.scale, p.m, p.k);
  return check_tensor(tensor, {.name = name,
                               .type = type,
                               .batch = p.batch,
                               .rows = grid.rows,
                               .cols = grid.cols,
                               .one_code_a_byte = true});
}

Status check_a(const RunArgs& args, const spec::Problem& p) {
  SCALEGEMM_RETURN_IF_ERROR(check_tensor(args.a, {.name = "a",
                                                  .type = p.a.type,
                                                  .batch = p.batch,
                                                  .rows = p.m,
                                                  .cols = p.k,
                                                  .unit_dim = p.a.layout == spec::Layout::kRow ? 2 : 1}));
  const auto& scale = p.a.scale;
  SCALEGEMM_RETURN_IF_ERROR(scale ? check_a_grid(args.scale_a, "scale_a", scale->type, p)
                                  : check_absent(args.scale_a, "scale_a", "A of this problem has no scales"));
  SCALEGEMM_RETURN_IF_ERROR(
      scale && scale->zero_type
          ? check_a_grid(args.zero_a, "zero_a", *scale->zero_type, p)
          : check_absent(args.zero_a, "zero_a", "A of this problem has no zero points"));
  const bool needs_global = scale && scale->global;
  if (needs_global != (args.global_a != nullptr)) {
    return invalid_argument("global_a: must {}, because A of this problem has {} global factor",
                            needs_global ? "point at one f32" : "be null", needs_global ? "a" : "no");
  }
  return ok_status();
}

Status check_epilogue(const RunArgs& args, const spec::Problem& p) {
  if (p.d == DType::kInt32 && args.alpha != 1.0f) {
    return invalid_argument("alpha: must be 1 for an int32 D, which is the exact sum, got {}", args.alpha);
  }
  if (p.epilogue.c) {
    SCALEGEMM_RETURN_IF_ERROR(check_tensor(
        args.c, {.name = "c", .type = *p.epilogue.c, .batch = p.batch, .rows = p.m, .cols = p.n}));
  } else {
    SCALEGEMM_RETURN_IF_ERROR(check_absent(args.c, "c", "the problem has no C (c_dtype)"));
    if (args.beta != 0.0f) {
      return invalid_argument("beta: must be 0, because the problem has no C (c_dtype), got {}", args.beta);
    }
  }
  if (!p.epilogue.bias) {
    return check_absent(args.bias, "bias", "the problem has no bias (bias_dtype)");
  }
  return check_tensor(args.bias,
                      {.name = "bias", .type = *p.epilogue.bias, .rows = 1, .cols = p.n, .unit_dim = 2});
}

// D may share memory with nothing that is read, except C when both are the same view. Views of D with gaps
// (rows of a larger matrix) may lie between rows of an input, so only a D without gaps is checked.
Status check_overlap(const RunArgs& args, const spec::Problem& p) {
  const __int128 bytes = static_cast<__int128>(p.batch) * p.m * p.n * num::info(p.d).bits / 8;
  if (span_bytes(args.d, false) != bytes) {
    return ok_status();
  }
  const ByteRange d = range_of(args.d, false);
  struct Input {
    const char* name;
    const Tensor& tensor;
    bool one_code_a_byte;
  };
  const Input inputs[] = {{"a", args.a, false},
                          {"b", args.weights.b, false},
                          {"scale_a", args.scale_a, true},
                          {"scale_b", args.weights.scale, true},
                          {"zero_a", args.zero_a, true},
                          {"zero_b", args.weights.zero, true},
                          {"bias", args.bias, false},
                          {"c", args.c, false}};
  for (const Input& input : inputs) {
    const Tensor& t = input.tensor;
    if (!t.present()) {
      continue;
    }
    const ByteRange r = range_of(t, input.one_code_a_byte);
    const bool same_view = &t == &args.c && t.data == args.d.data && t.type == args.d.type &&
                           t.stride == args.d.stride && t.shape == args.d.shape;
    if (r.meets(d) && !same_view) {
      return invalid_argument("d: must not overlap {} in memory{}", input.name,
                              &t == &args.c ? " (unless C is D: same data, type, shape and strides)" : "");
    }
  }
  return ok_status();
}

}  // namespace

SgGemm describe(const spec::Problem& p) {
  SgGemm g{};
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.batch = p.batch;
  g.a = describe_operand(p.a, p.m, p.k);
  g.b = describe_operand(p.b, p.n, p.k);
  g.b.packed = static_cast<int32_t>(p.b_packing);
  if (p.b_packing != spec::Packing::kRaw) {
    g.b.scale.block_r = 1;
    g.b.zero.block_r = 1;
    g.b.zero.dtype = SG_INT8;
  }
  g.c_dtype = p.epilogue.c ? id(*p.epilogue.c) : SG_F32;
  g.bias_dtype = p.epilogue.bias ? id(*p.epilogue.bias) : SG_F32;
  g.d_dtype = id(p.d);
  g.activation = static_cast<int32_t>(p.epilogue.activation);
  g.batch_invariant = p.batch_invariant ? 1 : 0;
  g.alpha = 1.0f;
  g.clamp_min = p.epilogue.clamp_min;
  g.clamp_max = p.epilogue.clamp_max;
  return g;
}

Plan::Plan(spec::Problem problem, spec::KernelSpec kernel, std::unique_ptr<const Executable> executable)
    : problem_(problem),
      kernel_(kernel),
      kernel_name_(spec::name(kernel)),
      executable_(std::move(executable)),
      shape_(describe(problem)) {}

Status Plan::check_b(const RunArgs& args) const {
  if (problem_.b_packing == spec::Packing::kRaw) {
    if (args.packed_b != nullptr) {
      return invalid_argument("packed_b: must be null, because this plan was made for raw B (b_packing)");
    }
    return check_weights(problem_, args.weights);
  }
  if (args.packed_b == nullptr) {
    return invalid_argument(
        "packed_b: must not be null: this plan needs B packed in layout {} (scalegemm_pack)",
        spec::to_string(problem_.b_packing));
  }
  SCALEGEMM_RETURN_IF_ERROR(check_absent(args.weights.b, "b", "B is given as packed_b"));
  SCALEGEMM_RETURN_IF_ERROR(check_absent(args.weights.scale, "scale_b", "B is given as packed_b"));
  SCALEGEMM_RETURN_IF_ERROR(check_absent(args.weights.zero, "zero_b", "B is given as packed_b"));
  if (args.weights.global != nullptr) {
    return invalid_argument("global_b: must be null: packed_b holds its own global factor");
  }
  const PackedMatrix& packed = *args.packed_b;
  const layout::PackedHeader& h = packed.header();
  if (packed.packing() != problem_.b_packing) {
    return invalid_argument("packed_b: layout must be {}, got {}", spec::to_string(problem_.b_packing),
                            spec::to_string(packed.packing()));
  }
  if (h.n != problem_.n || h.k != problem_.k || (h.batch != problem_.batch && h.batch != 1)) {
    return invalid_argument(
        "packed_b: must hold {} x {} (N x K) weights of batch {}, got {} x {} of batch {}", problem_.n,
        problem_.k, problem_.batch, h.n, h.k, h.batch);
  }
  const spec::OperandSpec operand = packed.operand();
  if (operand.type != problem_.b.type || operand.scale != problem_.b.scale) {
    return invalid_argument(
        "packed_b: the weights were packed as {} with other scales or type than the problem's {}",
        num::name(operand.type), num::name(problem_.b.type));
  }
  return ok_status();
}

Status Plan::check(const RunArgs& args) const {
  SCALEGEMM_RETURN_IF_ERROR(check_a(args, problem_));
  SCALEGEMM_RETURN_IF_ERROR(check_b(args));
  SCALEGEMM_RETURN_IF_ERROR(check_epilogue(args, problem_));
  SCALEGEMM_RETURN_IF_ERROR(check_output(
      args.d,
      {.name = "d", .type = problem_.d, .batch = problem_.batch, .rows = problem_.m, .cols = problem_.n}));
  SCALEGEMM_RETURN_IF_ERROR(check_overlap(args, problem_));
  const uint64_t workspace = workspace_bytes();
  if (args.workspace_bytes < workspace || (args.workspace == nullptr && workspace > 0)) {
    return invalid_argument("workspace: must have {} bytes (scalegemm_plan_workspace_bytes), got {}",
                            workspace, args.workspace == nullptr ? 0 : args.workspace_bytes);
  }
  if (workspace > 0) {
    const auto begin = reinterpret_cast<uintptr_t>(args.workspace);
    const ByteRange d = range_of(args.d, false);
    if (begin < d.end && d.begin < begin + workspace) {
      return invalid_argument("workspace: must not overlap d in memory");
    }
  }
  if (reinterpret_cast<uintptr_t>(args.workspace) % kWorkspaceAlign != 0) {
    return invalid_argument("workspace: must be {}-byte aligned, got address ...{:04x}", kWorkspaceAlign,
                            reinterpret_cast<uintptr_t>(args.workspace) & 0xffff);
  }
  return ok_status();
}

void Plan::bind_b(const RunArgs& args, SgGemm* g) const {
  if (args.packed_b == nullptr) {
    bind_operand(args.weights.b, &g->b);
    bind_grid(args.weights.scale, &g->b.scale);
    bind_grid(args.weights.zero, &g->b.zero);
    g->b.global_scale = args.weights.global;
    return;
  }
  const layout::PackedHeader& h = args.packed_b->header();
  const std::byte* payload = args.packed_b->payload().data();
  const auto stride = [&](uint64_t section_bytes, int32_t dtype) -> int64_t {
    const int64_t element = std::max(1, num::info(static_cast<DType>(dtype)).bits / 8);
    return h.batch == 1 ? 0 : static_cast<int64_t>(section_bytes) / h.batch / element;
  };
  g->b.data = payload + h.codes_offset;
  g->b.stride_batch = stride(h.codes_bytes, h.dtype);
  if (problem_.b.scale) {
    g->b.scale.data = payload + h.scales_offset;
    g->b.scale.stride_batch = stride(h.scales_bytes, h.scale_dtype);
    if (problem_.b.scale->zero_type) {
      g->b.zero.data = payload + h.zeros_offset;
      g->b.zero.stride_batch = stride(h.zeros_bytes, SG_INT8);
    }
    g->b.global_scale = problem_.b.scale->global ? &h.global_scale : nullptr;
  }
}

Status Plan::run(const RunArgs& args) const {
  SCALEGEMM_RETURN_IF_ERROR(check(args));
  SgGemm g = shape_;
  bind_operand(args.a, &g.a);
  bind_grid(args.scale_a, &g.a.scale);
  g.scale_bytes_a = static_cast<int64_t>(args.scale_a.bytes);
  g.scale_bytes_b = static_cast<int64_t>(args.weights.scale.bytes);
  bind_grid(args.zero_a, &g.a.zero);
  g.a.global_scale = args.global_a;
  bind_b(args, &g);
  if (args.c.present()) {
    g.c = args.c.data;
    g.c_stride_m = stride_of(args.c, 1);
    g.c_stride_n = stride_of(args.c, 2);
    g.c_stride_batch = batch_stride(args.c);
  }
  g.bias = args.bias.data;
  g.d = args.d.data;
  g.d_stride_m = stride_of(args.d, 1);
  g.d_stride_n = stride_of(args.d, 2);
  g.d_stride_batch = batch_stride(args.d);
  g.alpha = args.alpha;
  g.beta = args.beta;
  g.workspace = args.workspace;
  return executable_->run(g, args.stream);
}

}  // namespace scalegemm::runtime
