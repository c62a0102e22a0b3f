// Plan.run, and the matmul that makes the plan from its arguments.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "quantized.h"
#include "runtime.h"

namespace scalegemm::python {
namespace {

// One operand of a run.
struct SideTensors {
  scalegemm_tensor codes{}, scale{}, zero{};
  const float* global = nullptr;
};

// What comes with codes that are no Quantized.
struct Loose {
  nb::handle scale, zero, global;
  const char *scale_name, *zero_name, *global_name;

  bool any() const { return !scale.is_none() || !zero.is_none() || !global.is_none(); }
};

SideTensors side_of(nb::handle array, const char* name, const Loose& loose, Device device,
                    const scalegemm_operand_desc& wanted) {
  if (const auto* quantized = instance<Quantized>(array)) {
    const Quantized& q = *quantized;
    if (!same_quantisation(q.operand.desc, wanted)) {  // grids of other blocks may have the same shape
      refuse(std::string(name) + ": must be quantised as the problem says, in type, scales and their blocks");
    }
    if (loose.any()) {
      refuse(std::string(name) + ": a Quantized brings its own scales, so none may be given beside it");
    }
    if (q.device != device) {
      refuse(std::string(name) + ": must be on " + device.name() + ", is on " + q.device.name());
    }
    return {q.code_tensor, q.scale_tensor, q.zero_tensor, q.global};
  }
  return {argument(array, name, Role::kCodes, device),
          argument(loose.scale, loose.scale_name, Role::kCodes, device),
          argument(loose.zero, loose.zero_name, Role::kZeros, device),
          global_argument(loose.global, loose.global_name, device)};
}

// Workspaces of the CPU: a run is done when it returns, so a thread needs one.
class Scratch {
 public:
  void* at_least(uint64_t bytes) {
    if (bytes > size_) {
      const uint64_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
      void* grown = std::aligned_alloc(kAlign, rounded);
      if (grown == nullptr) {
        throw Error(SCALEGEMM_OUT_OF_MEMORY,
                    "workspace: the host has no " + std::to_string(rounded) + " bytes");
      }
      data_.reset(grown);
      size_ = rounded;
    }
    return data_.get();
  }

 private:
  static constexpr uint64_t kAlign = 64;  // scalegemm_run_args.workspace
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::unique_ptr<void, Free> data_;
  uint64_t size_ = 0;
};

// The array whose library makes new arrays: codes of a Quantized, the array of a Tensor.
nb::handle like_of(nb::handle a) {
  const auto* q = instance<Quantized>(a);
  return q != nullptr ? nb::handle(q->codes) : a;
}

// The C ABI's names of arguments that have another one here.
struct Renamed {
  std::string_view theirs, ours;
};
constexpr Renamed kRenamed[] = {{"d: ", "out: "}, {"packed_b: ", "b: "}};

void check_run(scalegemm_status status) {
  if (status == SCALEGEMM_OK) {
    return;
  }
  std::string text = scalegemm_last_error();
  for (const Renamed& name : kRenamed) {
    if (text.starts_with(name.theirs)) {
      text.replace(0, name.theirs.size(), name.ours);
    }
  }
  throw Error(status, text);
}

struct RunArguments {
  nb::handle a, b, out;
  Loose loose_a, loose_b;
  nb::handle bias, c, workspace, stream;
  float alpha, beta;
};

// Stream and workspace of a GPU run: of the library of A, on its current stream.
void complete_cuda(const PlanObject& plan, const RunArguments& r, scalegemm_run_args* args,
                   nb::object* held) {
  const nb::handle like = like_of(r.a);
  if (!r.stream.is_none()) {
    args->stream = reinterpret_cast<void*>(nb::cast<uintptr_t>(r.stream));
    if (args->workspace == nullptr && plan.workspace_bytes > 0) {
      refuse("workspace: with a stream of your own give " + std::to_string(plan.workspace_bytes) + " bytes");
    }
    return;
  }
  args->stream = current_stream(like, describe(like, "a"));
  if (args->workspace == nullptr && plan.workspace_bytes > 0) {
    *held = arrays_function("empty_bytes")(like, plan.workspace_bytes);
    args->workspace = describe(*held, "workspace").tensor.data;
    args->workspace_bytes = plan.workspace_bytes;
  }
}

void complete_cpu(const PlanObject& plan, const RunArguments& r, scalegemm_run_args* args) {
  if (!r.stream.is_none()) {
    refuse("stream: must be None for a plan of the CPU");
  }
  if (args->workspace == nullptr && plan.workspace_bytes > 0) {
    thread_local Scratch scratch;
    args->workspace = scratch.at_least(plan.workspace_bytes);
    args->workspace_bytes = plan.workspace_bytes;
  }
}

void set_b(nb::handle b, const RunArguments& r, const PlanObject& plan, scalegemm_run_args* args) {
  if (const auto* packed = instance<PackedObject>(b)) {
    if (r.loose_b.any()) {
      refuse("b: a Packed brings its own scales, so none may be given beside it");
    }
    args->packed_b = packed->packed.get();
    return;
  }
  const SideTensors side = side_of(b, "b", r.loose_b, plan.device, plan.problem.c.b);
  args->b = side.codes;
  args->scale_b = side.scale;
  args->zero_b = side.zero;
  args->global_b = side.global;
}

nb::object new_out(const PlanObject& plan, const RunArguments& r) {
  if (!r.stream.is_none()) {
    refuse("out: must be given with a stream of your own");
  }
  const scalegemm_problem& p = plan.problem.c;
  const nb::handle like = like_of(r.a);
  const auto* q = instance<Quantized>(r.a);
  const bool batched = p.batch != 1 || (q != nullptr ? q->ndim : describe(r.a, "a").ndim) == 3;
  const nb::tuple shape = batched ? nb::make_tuple(p.batch, p.m, p.n) : nb::make_tuple(p.m, p.n);
  return arrays_function("empty_out")(like, shape, dtype_text(p.d_dtype));
}

nb::object run(const PlanObject& plan, const RunArguments& r) {
  auto args = make<scalegemm_run_args>();
  const Device device = plan.device;
  const SideTensors a = side_of(r.a, "a", r.loose_a, device, plan.problem.c.a);
  args.a = a.codes;
  args.scale_a = a.scale;
  args.zero_a = a.zero;
  args.global_a = a.global;
  set_b(r.b, r, plan, &args);
  args.c = argument(r.c, "c", Role::kCodes, device);
  args.bias = argument(r.bias, "bias", Role::kCodes, device);
  args.alpha = r.alpha;
  args.beta = r.beta;
  if (!r.workspace.is_none()) {
    const View workspace = describe(r.workspace, "workspace");
    require_device(workspace, "workspace", device);
    const scalegemm_tensor& w = workspace.tensor;
    if (workspace.read_only ||
        w.shape[0] * w.shape[1] * w.shape[2] * workspace.item_bytes != static_cast<int64_t>(w.bytes)) {
      refuse("workspace: must be writable and without gaps");
    }
    args.workspace = workspace.tensor.data;
    args.workspace_bytes = workspace.tensor.bytes;
  }
  nb::object held;
  nb::object out = r.out.is_none() ? new_out(plan, r) : nb::borrow(r.out);
  args.d = argument(out, "out", Role::kOutput, device);
  if (device.cuda) {
    complete_cuda(plan, r, &args, &held);
  } else {
    complete_cpu(plan, r, &args);
  }
  scalegemm_status status;
  {
    const nb::gil_scoped_release unlocked;
    status = plan.plan.run_status(args);
  }
  check_run(status);
  return r.out.is_none() ? arrays_function("finish_out")(like_of(r.a), out) : out;
}

// An operand as matmul sees it: tensor, description, device.
struct MatmulOperand {
  scalegemm_tensor codes{};
  scalegemm_operand_desc desc{};
  Device device;
};

MatmulOperand operand_of(nb::handle array, const char* name, Side side) {
  if (const auto* quantized = instance<Quantized>(array)) {
    const Quantized& q = *quantized;
    MatmulOperand out{q.code_tensor, q.operand.desc, q.device};
    out.desc.layout = layout_of(q.code_tensor, side);
    return out;
  }
  const View view = describe(array, name);
  MatmulOperand out{argument(view, name, Role::kCodes, SCALEGEMM_DTYPE_NONE), {}, view.device};
  out.desc.dtype = out.codes.dtype;
  out.desc.layout = layout_of(out.codes, side);
  return out;
}

// B's part of the problem.
void set_problem_b(nb::handle b, scalegemm_problem* p) {
  if (const auto* packed = instance<PackedObject>(b)) {
    const scalegemm_packed_info& info = packed->info;
    p->n = info.n;
    p->b = info.operand;
    p->b_packing = info.layout;
    if (info.k != p->k) {
      refuse("b: must have the K of a, " + std::to_string(p->k) + ", has " + std::to_string(info.k));
    }
    p->batch = std::max(p->batch, info.batch);
    return;
  }
  const MatmulOperand operand = operand_of(b, "b", Side::kB);
  const int64_t* s = operand.codes.shape;
  if (s[2] != p->k) {
    refuse("b: must be N x K with the K of a, " + std::to_string(p->k) + ", has " + std::to_string(s[2]));
  }
  p->n = s[1];
  p->b = operand.desc;
  p->batch = std::max(p->batch, s[0]);
}

struct MatmulOptions {
  Epilogue epilogue;
  std::optional<std::string> out_dtype;
};

nb::object matmul(RuntimeObject& runtime, const RunArguments& r, const MatmulOptions& options) {
  Problem problem;
  scalegemm_problem& p = problem.c;
  p.struct_size = sizeof p;
  const MatmulOperand a = operand_of(r.a, "a", Side::kA);
  p.batch = a.codes.shape[0];
  p.m = a.codes.shape[1];
  p.k = a.codes.shape[2];
  p.a = a.desc;
  set_problem_b(r.b, &p);
  const auto dtype_of = [](nb::handle array, const char* name) {
    return array.is_none() ? static_cast<int32_t>(SCALEGEMM_DTYPE_NONE) : describe(array, name).tensor.dtype;
  };
  p.bias_dtype = dtype_of(r.bias, "bias");
  p.c_dtype = dtype_of(r.c, "c");
  if (!r.out.is_none()) {
    p.d_dtype = dtype_of(r.out, "out");
    if (options.out_dtype && dtype_argument(*options.out_dtype, "out_dtype") != p.d_dtype) {
      refuse("out: dtype must be " + *options.out_dtype + ", is " + dtype_text(p.d_dtype));
    }
  } else {
    p.d_dtype = options.out_dtype ? dtype_argument(*options.out_dtype, "out_dtype") : SCALEGEMM_F32;
  }
  apply(options.epilogue, &p);
  return run(*runtime.plan(problem, {.device = a.device.name()}), r);
}

constexpr const char* kRunDoc =
    R"(D = clamp(act(alpha * A @ B.T + beta * C + bias)), without the GIL.

a, b: Quantized (b also Packed); or arrays of codes, with scales, zero points and global factor beside them.
A is M x K, B is N x K, out and c are M x N, bias is N; with a batch dimension before where the problem has one.
out: None: a new array of the library of a. workspace: at least workspace_bytes, 64-byte aligned; None: found.
stream: of a GPU, as a number; None: the current one of the library of a, on which the work is enqueued.
With a stream, out and workspace must be given.

Returns out. Raises InvalidArgument when a shape, type, stride or device does not fit; nothing was written.)";

Loose loose_a(nb::handle scale, nb::handle zero, nb::handle global) {
  return {scale, zero, global, "scale_a", "zero_a", "global_a"};
}
Loose loose_b(nb::handle scale, nb::handle zero, nb::handle global) {
  return {scale, zero, global, "scale_b", "zero_b", "global_b"};
}

}  // namespace

void bind_plan(nb::module_& m) {
  nb::class_<PlanObject>(m, "Plan", "A chosen kernel: immutable, for any number of threads at a time.")
      .def_prop_ro("kernel", [](const PlanObject& p) { return p.plan.kernel(); })
      .def_ro("workspace_bytes", &PlanObject::workspace_bytes)
      .def_ro("problem", &PlanObject::problem)
      .def_prop_ro("device", [](const PlanObject& p) { return p.device.name(); })
      .def("__repr__",
           [](const PlanObject& p) {
             return "scalegemm.Plan(" + p.plan.kernel() + ", " + p.device.name() + ")";
           })
      .def(
          "run",
          [](const PlanObject& plan, nb::handle a, nb::handle b, nb::handle out, nb::handle scale_a,
             nb::handle zero_a, nb::handle global_a, nb::handle scale_b, nb::handle zero_b,
             nb::handle global_b, nb::handle bias, nb::handle c, float alpha, float beta,
             nb::handle workspace, nb::handle stream) {
            return run(plan, {.a = a,
                              .b = b,
                              .out = out,
                              .loose_a = loose_a(scale_a, zero_a, global_a),
                              .loose_b = loose_b(scale_b, zero_b, global_b),
                              .bias = bias,
                              .c = c,
                              .workspace = workspace,
                              .stream = stream,
                              .alpha = alpha,
                              .beta = beta});
          },
          nb::arg("a"), nb::arg("b"), nb::arg("out") = nb::none(), nb::kw_only(),
          nb::arg("scale_a") = nb::none(), nb::arg("zero_a") = nb::none(), nb::arg("global_a") = nb::none(),
          nb::arg("scale_b") = nb::none(), nb::arg("zero_b") = nb::none(), nb::arg("global_b") = nb::none(),
          nb::arg("bias") = nb::none(), nb::arg("c") = nb::none(), nb::arg("alpha") = 1.0f,
          nb::arg("beta") = 0.0f, nb::arg("workspace") = nb::none(), nb::arg("stream") = nb::none(), kRunDoc);
  m.def(
      "matmul",
      [](RuntimeObject& runtime, nb::handle a, nb::handle b, nb::handle out, nb::handle bias, nb::handle c,
         float alpha, float beta, const std::string& activation,
         const std::optional<std::pair<float, float>>& clamp, const std::string& accuracy,
         bool batch_invariant, const std::optional<std::string>& out_dtype) {
        const nb::object none = nb::none();
        return matmul(runtime,
                      {.a = a,
                       .b = b,
                       .out = out,
                       .loose_a = loose_a(none, none, none),
                       .loose_b = loose_b(none, none, none),
                       .bias = bias,
                       .c = c,
                       .workspace = none,
                       .stream = none,
                       .alpha = alpha,
                       .beta = beta},
                      {.epilogue = {activation, accuracy, clamp, batch_invariant}, .out_dtype = out_dtype});
      },
      nb::arg("runtime"), nb::arg("a"), nb::arg("b"), nb::arg("out").none(), nb::arg("bias").none(),
      nb::arg("c").none(), nb::arg("alpha"), nb::arg("beta"), nb::arg("activation"), nb::arg("clamp").none(),
      nb::arg("accuracy"), nb::arg("batch_invariant"), nb::arg("out_dtype").none());
}

}  // namespace scalegemm::python
