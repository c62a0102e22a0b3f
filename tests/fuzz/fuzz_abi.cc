// fuzz_abi: the C ABI as a caller with garbage in every field would use it. No call may crash, and a refusal
// says why. Under the address sanitizer, no run may touch a byte outside the tensors it was given.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "fuzz/mutate.h"
#include "fuzz/target.h"
#include "scalegemm/scalegemm.h"

namespace scalegemm::fuzz {
namespace {

constexpr int64_t kMaxExtent = 64;             // of problems that are run
constexpr uint64_t kMaxTensorBytes = 1 << 16;  // of memory behind one tensor

struct RuntimeDeleter {
  void operator()(scalegemm_runtime* runtime) const { scalegemm_runtime_destroy(runtime); }
};
struct PlanDeleter {
  void operator()(scalegemm_plan* plan) const { scalegemm_plan_destroy(plan); }
};
using RuntimePtr = std::shared_ptr<scalegemm_runtime>;
using PlanPtr = std::unique_ptr<scalegemm_plan, PlanDeleter>;

RuntimePtr make_runtime() {
  scalegemm_runtime_options options{};
  options.struct_size = sizeof options;
  options.threads = 1;
  options.jit = -1;  // built-in kernels only: compiling would take the whole time
  scalegemm_runtime* runtime = nullptr;
  require(scalegemm_runtime_create(&options, &runtime) == SCALEGEMM_OK, "a runtime is made");
  return {runtime, RuntimeDeleter()};
}

// The message of a failed call; empty for SCALEGEMM_OK.
Verdict verdict_of(scalegemm_status status) {
  if (status == SCALEGEMM_OK) {
    return {};
  }
  require(status != SCALEGEMM_INTERNAL, "no input is an internal error");
  require(std::strlen(scalegemm_last_error()) > 0, "a refusal has a message");
  return scalegemm_last_error();
}

// As many bytes of a structure as the input has; the rest is 0.
template <class T>
T overlay(std::string_view input) {
  T value{};
  if (!input.empty()) {  // whose data may be null
    std::memcpy(static_cast<void*>(&value), input.data(), std::min(input.size(), sizeof value));
  }
  return value;
}

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::vector<scalegemm_problem> seed_problems() {
  std::vector<scalegemm_problem> problems;
  for (int32_t i = 0; i < scalegemm_scheme_count(); ++i) {
    scalegemm_scheme_info info;
    require(scalegemm_scheme(i, &info) == SCALEGEMM_OK, "a scheme is described");
    for (const char* layout : {"rcr", "crr"}) {
      scalegemm_problem problem{};
      problem.struct_size = sizeof problem;
      require(scalegemm_problem_init(&problem, info.name, layout, 3, 17, 34) == SCALEGEMM_OK,
              "a scheme is a problem");
      problems.push_back(problem);
    }
  }
  return problems;
}

Verdict run_problem(scalegemm_runtime* runtime, std::string_view input) {
  auto problem = overlay<scalegemm_problem>(input);
  problem.struct_size = std::min<uint64_t>(problem.struct_size, sizeof problem);
  scalegemm_support support{};
  support.struct_size = sizeof support;
  const Verdict verdict = verdict_of(scalegemm_query(runtime, &problem, nullptr, &support));
  if (!verdict.empty()) {
    return verdict;
  }
  require(support.supported == 0 || support.supported == 1, "supported is a truth value");
  require(std::memchr(support.kernel, 0, sizeof support.kernel) != nullptr, "the kernel name ends");
  require(std::memchr(support.reason, 0, sizeof support.reason) != nullptr, "the reason ends");
  require(support.supported == 1 || support.reason[0] != 0, "an unsupported problem has a reason");
  return support.supported == 1 ? Verdict() : Verdict(support.reason);
}

// Tensors whose memory is exactly as long as they say.
class Memory {
 public:
  void back(scalegemm_tensor& tensor) {
    tensor.bytes = tensor.bytes % (kMaxTensorBytes + 1);
    tensor.data = tensor.data == nullptr ? nullptr : take(tensor.bytes);
  }
  void* take(uint64_t bytes) {
    blocks_.push_back(std::make_unique<char[]>(bytes));
    return blocks_.back().get();
  }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
};

constexpr auto kTensors = std::to_array<scalegemm_tensor scalegemm_run_args::*>(
    {&scalegemm_run_args::a, &scalegemm_run_args::b, &scalegemm_run_args::scale_a,
     &scalegemm_run_args::zero_a, &scalegemm_run_args::scale_b, &scalegemm_run_args::zero_b,
     &scalegemm_run_args::c, &scalegemm_run_args::bias, &scalegemm_run_args::d});

// Input: a problem, then the arguments of a run.
Verdict run_plan(scalegemm_runtime* runtime, std::string_view input) {
  auto problem = overlay<scalegemm_problem>(input);
  problem.struct_size = sizeof problem;
  problem.b_packing = SCALEGEMM_RAW;
  for (int64_t* extent : {&problem.m, &problem.n, &problem.k}) {
    *extent = *extent > kMaxExtent ? kMaxExtent : *extent;
  }
  problem.batch = problem.batch > 3 ? 3 : problem.batch;
  scalegemm_plan* raw = nullptr;
  const Verdict planned = verdict_of(scalegemm_plan_create(runtime, &problem, nullptr, &raw));
  if (!planned.empty()) {
    return planned;
  }
  const PlanPtr plan(raw);
  auto args = overlay<scalegemm_run_args>(input.substr(std::min(input.size(), sizeof problem)));
  args.struct_size = sizeof args;
  Memory memory;
  for (const auto member : kTensors) {
    memory.back(args.*member);
  }
  const std::array<float, 1> one = {1.0F};
  args.global_a = args.global_a == nullptr ? nullptr : one.data();
  args.global_b = args.global_b == nullptr ? nullptr : one.data();
  args.packed_b = nullptr;
  args.stream = nullptr;
  args.workspace_bytes = scalegemm_plan_workspace_bytes(plan.get());
  const std::unique_ptr<char, void (*)(void*)> workspace(
      static_cast<char*>(std::aligned_alloc(64, (args.workspace_bytes / 64 + 1) * 64)), std::free);
  args.workspace = workspace.get();
  return verdict_of(scalegemm_run(plan.get(), &args));
}

// Contiguous arguments that fit the problem.
scalegemm_run_args seed_args(const scalegemm_problem& p) {
  scalegemm_run_args args{};
  args.struct_size = sizeof args;
  scalegemm_run_args_init(&args);
  static char somewhere = 0;  // not NULL: run_plan gives the memory
  const auto grid = [](int64_t extent, int64_t block) {
    return block == 0 ? 1 : (extent + block - 1) / block;
  };
  const auto operand = [&](const scalegemm_operand_desc& o, int64_t rows, bool k_first) {
    const bool packed4 = scalegemm_dtype_bits(o.dtype) == 4;
    scalegemm_tensor t = scalegemm_matrix(&somewhere, o.dtype, rows, p.k);
    if (!k_first) {  // the rows are contiguous
      t.stride[1] = 1;
      t.stride[2] = rows;
      t.bytes = packed4 ? static_cast<uint64_t>(rows * p.k / 2) : t.bytes;
    }
    return t;
  };
  const auto scales = [&](const scalegemm_operand_desc& o, int64_t rows) {
    return scalegemm_matrix(&somewhere, o.scale.dtype, grid(rows, o.scale.block_rows),
                            grid(p.k, o.scale.block_k));
  };
  args.a = operand(p.a, p.m, p.a.layout == SCALEGEMM_ROW);
  args.b = operand(p.b, p.n, p.b.layout == SCALEGEMM_COL);
  if (p.a.scale.dtype != SCALEGEMM_DTYPE_NONE) {
    args.scale_a = scales(p.a, p.m);
  }
  if (p.b.scale.dtype != SCALEGEMM_DTYPE_NONE) {
    args.scale_b = scales(p.b, p.n);
  }
  if (p.b.scale.zero_dtype != SCALEGEMM_DTYPE_NONE) {
    args.zero_b = args.scale_b;
    args.zero_b.dtype = p.b.scale.zero_dtype;
  }
  const auto* some_float = reinterpret_cast<const float*>(&args);
  args.global_a = p.a.scale.has_global != 0 ? some_float : nullptr;
  args.global_b = p.b.scale.has_global != 0 ? some_float : nullptr;
  args.d = scalegemm_matrix(&somewhere, p.d_dtype, p.m, p.n);
  return args;
}

// Field values worth trying, as bytes.
constexpr std::string_view kZero("\0\0\0\0\0\0\0\0", 8);
constexpr std::string_view kOne("\1\0\0\0\0\0\0\0", 8);
constexpr std::string_view kMinus("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
constexpr std::string_view kLargest("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
constexpr std::string_view kFourGiB("\0\0\0\0\1\0\0\0", 8);

Target problem_target() {
  std::vector<std::string> seeds;
  for (const scalegemm_problem& problem : seed_problems()) {
    seeds.emplace_back(bytes_of(problem));
  }
  return {.name = "abi_problem",
          .seeds = std::move(seeds),
          .dictionary = {kZero, kOne, kMinus, kLargest, kFourGiB},
          .run = [runtime = make_runtime()](std::string_view input) {
            return run_problem(runtime.get(), input);
          }};
}

Target run_target() {
  std::vector<std::string> seeds;
  for (const scalegemm_problem& problem : seed_problems()) {
    const scalegemm_run_args args = seed_args(problem);
    seeds.push_back(std::string(bytes_of(problem)).append(bytes_of(args)));
  }
  return {
      .name = "abi_run",
      .seeds = std::move(seeds),
      .dictionary = {kZero, kOne, kMinus, kLargest, kFourGiB},
      .run = [runtime = make_runtime()](std::string_view input) { return run_plan(runtime.get(), input); }};
}

// Input: a description of a quantizer, then the arguments of a run.
Verdict run_quantizer(scalegemm_runtime* runtime, std::string_view input) {
  auto desc = overlay<scalegemm_quantizer_desc>(input);
  desc.struct_size = sizeof desc;
  scalegemm_quantizer* raw = nullptr;
  const Verdict made = verdict_of(scalegemm_quantizer_create(runtime, &desc, nullptr, &raw));
  if (!made.empty()) {
    return made;
  }
  const std::unique_ptr<scalegemm_quantizer, void (*)(scalegemm_quantizer*)> quantizer(
      raw, scalegemm_quantizer_destroy);
  auto args = overlay<scalegemm_quantizer_args>(input.substr(std::min(input.size(), sizeof desc)));
  args.struct_size = sizeof args;
  Memory memory;
  for (scalegemm_tensor* tensor : {&args.src, &args.codes, &args.scales}) {
    memory.back(*tensor);
  }
  args.stream = nullptr;
  return verdict_of(scalegemm_quantizer_run(quantizer.get(), &args));
}

Target quantizer_target() {
  static char somewhere = 0;  // not NULL: run_quantizer gives the memory
  std::vector<std::string> seeds;
  for (const int32_t source : {SCALEGEMM_F32, SCALEGEMM_BF16}) {
    for (const int32_t codes : {SCALEGEMM_E4M3, SCALEGEMM_E2M1, SCALEGEMM_INT8}) {
      for (const int64_t block : {0, 16}) {
        scalegemm_quantizer_desc desc{};
        desc.operand.dtype = codes;
        desc.operand.scale.dtype = codes == SCALEGEMM_E2M1 ? SCALEGEMM_E8M0 : SCALEGEMM_F32;
        desc.operand.scale.block_rows = 1;
        desc.operand.scale.block_k = block;
        desc.source_dtype = source;
        scalegemm_quantizer_args args{};
        args.src = scalegemm_matrix(&somewhere, source, 3, 34);
        args.codes = scalegemm_matrix(&somewhere, codes, 3, 34);
        args.scales = scalegemm_matrix(&somewhere, desc.operand.scale.dtype, 3, block == 0 ? 1 : 3);
        seeds.push_back(std::string(bytes_of(desc)).append(bytes_of(args)));
      }
    }
  }
  return {.name = "abi_quantizer",
          .seeds = std::move(seeds),
          .dictionary = {kZero, kOne, kMinus, kLargest, kFourGiB},
          .run = [runtime = make_runtime()](std::string_view input) {
            return run_quantizer(runtime.get(), input);
          }};
}

constexpr auto kTargets = std::to_array<MakeTarget>({problem_target, run_target, quantizer_target});

}  // namespace

std::span<const MakeTarget> targets() {
  return kTargets;
}

}  // namespace scalegemm::fuzz
