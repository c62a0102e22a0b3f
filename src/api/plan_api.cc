// Support queries, plans, packed weights, runs, explain.
#include <string>

#include "api/convert.h"
#include "api/error.h"
#include "api/handles.h"
#include "scalegemm/scalegemm.h"

using scalegemm::invalid_argument;
using scalegemm::ok_status;
using scalegemm::Result;
using scalegemm::Status;
using namespace scalegemm::api;  // NOLINT(google-build-using-namespace): this file is that room's surface
namespace runtime = scalegemm::runtime;
namespace spec = scalegemm::spec;

namespace {

// Problem and options of one request.
struct Request {
  spec::Problem problem;
  runtime::PlanOptions options;
};

Result<Request> read_request(const scalegemm_runtime* rt, const scalegemm_problem* problem,
                             const scalegemm_plan_options* options) {
  SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
  Request request;
  SCALEGEMM_ASSIGN_OR_RETURN(request.problem, to_problem(problem));
  SCALEGEMM_ASSIGN_OR_RETURN(request.options, to_plan_options(options));
  return request;
}

// B of scalegemm_pack_args or scalegemm_run_args.
template <class Args>
Result<runtime::WeightTensors> to_weights(const Args& args) {
  runtime::WeightTensors weights;
  SCALEGEMM_ASSIGN_OR_RETURN(weights.b, to_tensor(args.b, "b"));
  SCALEGEMM_ASSIGN_OR_RETURN(weights.scale, to_tensor(args.scale_b, "scale_b"));
  SCALEGEMM_ASSIGN_OR_RETURN(weights.zero, to_tensor(args.zero_b, "zero_b"));
  weights.global = args.global_b;
  return weights;
}

}  // namespace

scalegemm_status scalegemm_query(scalegemm_runtime* rt, const scalegemm_problem* problem,
                                 const scalegemm_plan_options* options, scalegemm_support* support) {
  return guarded([&]() -> Status {
    SCALEGEMM_ASSIGN_OR_RETURN(const Request request, read_request(rt, problem, options));
    SCALEGEMM_ASSIGN_OR_RETURN(const runtime::Support s, rt->impl->query(request.problem, request.options));
    scalegemm_support out{};
    out.supported = s.supported ? 1 : 0;
    out.needs_compiler = s.needs_compiler ? 1 : 0;
    out.workspace_bytes = s.workspace_bytes;
    copy_text(out.kernel, s.kernel);
    copy_text(out.reason, s.reason);
    return write_struct(out, "support", support);
  });
}

scalegemm_status scalegemm_plan_create(scalegemm_runtime* rt, const scalegemm_problem* problem,
                                       const scalegemm_plan_options* options, scalegemm_plan** plan) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(plan, "plan"));
    *plan = nullptr;
    SCALEGEMM_ASSIGN_OR_RETURN(const Request request, read_request(rt, problem, options));
    SCALEGEMM_ASSIGN_OR_RETURN(auto impl, rt->impl->plan(request.problem, request.options));
    *plan = new scalegemm_plan{std::move(impl)};
    return ok_status();
  });
}

void scalegemm_plan_destroy(scalegemm_plan* plan) {
  delete plan;
}

uint64_t scalegemm_plan_workspace_bytes(const scalegemm_plan* plan) {
  return plan != nullptr ? plan->impl->workspace_bytes() : 0;
}

const char* scalegemm_plan_kernel(const scalegemm_plan* plan) {
  return plan != nullptr ? plan->impl->kernel_name().c_str() : "";
}

scalegemm_status scalegemm_pack(scalegemm_runtime* rt, const scalegemm_problem* problem,
                                const scalegemm_plan_options* options, const scalegemm_pack_args* args,
                                scalegemm_packed** packed) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(packed, "packed"));
    *packed = nullptr;
    SCALEGEMM_ASSIGN_OR_RETURN(const Request request, read_request(rt, problem, options));
    scalegemm_pack_args c;
    SCALEGEMM_RETURN_IF_ERROR(read_struct(args, "args", &c));
    SCALEGEMM_ASSIGN_OR_RETURN(const runtime::WeightTensors weights, to_weights(c));
    SCALEGEMM_ASSIGN_OR_RETURN(auto impl, rt->impl->pack(request.problem, request.options, weights));
    *packed = new scalegemm_packed{std::move(impl)};
    return ok_status();
  });
}

void scalegemm_packed_destroy(scalegemm_packed* packed) {
  delete packed;
}

scalegemm_status scalegemm_packed_describe(const scalegemm_packed* packed, scalegemm_packed_info* info) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(packed, "packed"));
    const auto& header = packed->impl->header();
    scalegemm_packed_info out{};
    out.layout = static_cast<int32_t>(packed->impl->packing());
    out.n = header.n;
    out.k = header.k;
    out.batch = header.batch;
    out.operand = from_operand(packed->impl->operand());
    out.bytes = packed->impl->file().size();
    copy_text(out.digest, packed->impl->digest_hex());
    return write_struct(out, "info", info);
  });
}

scalegemm_status scalegemm_unpack(const scalegemm_packed* packed, const scalegemm_pack_args* out) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(packed, "packed"));
    scalegemm_pack_args c;
    SCALEGEMM_RETURN_IF_ERROR(read_struct(out, "out", &c));
    SCALEGEMM_ASSIGN_OR_RETURN(const runtime::WeightTensors weights, to_weights(c));
    SCALEGEMM_RETURN_IF_ERROR(packed->impl->unpack(weights));
    if (c.global_b != nullptr) {
      *c.global_b = packed->impl->header().global_scale;
    }
    return ok_status();
  });
}

scalegemm_status scalegemm_packed_save(const scalegemm_packed* packed, const char* path) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(packed, "packed"));
    SCALEGEMM_RETURN_IF_ERROR(require(path, "path"));
    return packed->impl->save(path);
  });
}

scalegemm_status scalegemm_packed_load(const char* path, scalegemm_packed** packed) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(path, "path"));
    SCALEGEMM_RETURN_IF_ERROR(require(packed, "packed"));
    *packed = nullptr;
    SCALEGEMM_ASSIGN_OR_RETURN(auto impl, runtime::PackedMatrix::load(path));
    *packed = new scalegemm_packed{std::move(impl)};
    return ok_status();
  });
}

scalegemm_status scalegemm_run(const scalegemm_plan* plan, const scalegemm_run_args* args) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(plan, "plan"));
    scalegemm_run_args c;
    SCALEGEMM_RETURN_IF_ERROR(read_struct(args, "args", &c));
    runtime::RunArgs run;
    SCALEGEMM_ASSIGN_OR_RETURN(run.a, to_tensor(c.a, "a"));
    SCALEGEMM_ASSIGN_OR_RETURN(run.scale_a, to_tensor(c.scale_a, "scale_a"));
    SCALEGEMM_ASSIGN_OR_RETURN(run.zero_a, to_tensor(c.zero_a, "zero_a"));
    run.global_a = c.global_a;
    SCALEGEMM_ASSIGN_OR_RETURN(run.weights, to_weights(c));
    run.packed_b = c.packed_b != nullptr ? c.packed_b->impl.get() : nullptr;
    SCALEGEMM_ASSIGN_OR_RETURN(run.c, to_tensor(c.c, "c"));
    SCALEGEMM_ASSIGN_OR_RETURN(run.bias, to_tensor(c.bias, "bias"));
    SCALEGEMM_ASSIGN_OR_RETURN(run.d, to_tensor(c.d, "d"));
    run.alpha = c.alpha;
    run.beta = c.beta;
    run.workspace = c.workspace;
    run.workspace_bytes = c.workspace_bytes;
    run.stream = c.stream;
    return plan->impl->run(run);
  });
}

scalegemm_status scalegemm_explain(scalegemm_runtime* rt, const scalegemm_problem* problem,
                                   const scalegemm_plan_options* options, int32_t json, char* text,
                                   uint64_t* size) {
  return guarded([&]() -> Status {
    SCALEGEMM_ASSIGN_OR_RETURN(const Request request, read_request(rt, problem, options));
    const auto format = json != 0 ? runtime::TextFormat::kJson : runtime::TextFormat::kText;
    SCALEGEMM_ASSIGN_OR_RETURN(const std::string out,
                               rt->impl->explain(request.problem, request.options, format));
    return write_text(out, text, size);
  });
}
