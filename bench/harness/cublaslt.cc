// Row-major D[m, n] is cuBLASLt's column-major D^T[n, m]: its A is our B (transposed), its B is our A.
#include "harness/cublaslt.h"

#include <array>
#include <utility>

#include "base/dynlib.h"

namespace scalegemm::harness {
namespace {

using Handle = void*;
using DescHandle = void*;
using LayoutHandle = void*;
using Preference = void*;

struct Heuristic {  // cublasLtMatmulHeuristicResult_t
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

// cudaDataType_t, cublasComputeType_t and attributes.
constexpr int kF32 = 0, kF16 = 2, kInt8 = 3, kInt32 = 10, kBf16 = 14, kE4m3 = 28, kE5m2 = 29;
constexpr int kCompute32F = 68, kCompute32I = 72;
constexpr int kTransA = 3, kScalePointerA = 17, kScalePointerB = 18, kFastAccumulation = 25, kScaleModeA = 31,
              kScaleModeB = 32;
constexpr int kOuterVector = 3, kVector128 = 4, kBlock128 = 5;
constexpr int kMostWorkspace = 1;
constexpr int kTranspose = 1;
constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kWanted = 8;

struct Api {
  int (*create)(Handle*);
  int (*matmul)(Handle, DescHandle, const void* alpha, const void* a, LayoutHandle, const void* b,
                LayoutHandle, const void* beta, const void* c, LayoutHandle, void* d, LayoutHandle,
                const void* algorithm, void* workspace, size_t workspace_bytes, void* stream);
  int (*desc_create)(DescHandle*, int compute, int scale);
  int (*desc_destroy)(DescHandle);
  int (*desc_set)(DescHandle, int attribute, const void*, size_t);
  int (*layout_create)(LayoutHandle*, int type, uint64_t rows, uint64_t cols, int64_t ld);
  int (*layout_destroy)(LayoutHandle);
  int (*preference_create)(Preference*);
  int (*preference_destroy)(Preference);
  int (*preference_set)(Preference, int attribute, const void*, size_t);
  int (*heuristic)(Handle, DescHandle, LayoutHandle, LayoutHandle, LayoutHandle, LayoutHandle, Preference,
                   int wanted, Heuristic*, int* found);
};

struct Library {
  base::DynLib library;
  Api api{};
  Handle handle = nullptr;
  std::string problem;  // why it cannot be used
};

Library open_library() {
  Library lt;
  for (const char* name :
       {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"}) {
    if (auto opened = base::DynLib::open(name); opened.ok()) {
      lt.library = *std::move(opened);
      Api& a = lt.api;
      const auto find = [&](const char* symbol, auto** out) { return lt.library.function(symbol, out).ok(); };
      const bool whole = find("cublasLtCreate", &a.create) && find("cublasLtMatmul", &a.matmul) &&
                         find("cublasLtMatmulDescCreate", &a.desc_create) &&
                         find("cublasLtMatmulDescDestroy", &a.desc_destroy) &&
                         find("cublasLtMatmulDescSetAttribute", &a.desc_set) &&
                         find("cublasLtMatrixLayoutCreate", &a.layout_create) &&
                         find("cublasLtMatrixLayoutDestroy", &a.layout_destroy) &&
                         find("cublasLtMatmulPreferenceCreate", &a.preference_create) &&
                         find("cublasLtMatmulPreferenceDestroy", &a.preference_destroy) &&
                         find("cublasLtMatmulPreferenceSetAttribute", &a.preference_set) &&
                         find("cublasLtMatmulAlgoGetHeuristic", &a.heuristic);
      if (!whole || a.create(&lt.handle) != 0) {
        lt.problem = "cuBLASLt could not be started";
      }
      return lt;
    }
  }
  lt.problem = "cuBLASLt is not installed (libcublasLt.so.13 or .12)";
  return lt;
}

Library& library() {
  static Library* const lt = new Library(open_library());  // never closed: its handle belongs to the process
  return *lt;
}

int cuda_type(int32_t dtype) {
  switch (dtype) {
    case SCALEGEMM_E4M3:
      return kE4m3;
    case SCALEGEMM_E5M2:
      return kE5m2;
    case SCALEGEMM_INT8:
      return kInt8;
    case SCALEGEMM_F16:
      return kF16;
    case SCALEGEMM_BF16:
      return kBf16;
    default:
      return kF32;
  }
}

size_t bytes_of(int type) {
  return type == kF32 || type == kInt32 ? 4 : type == kBf16 || type == kF16 ? 2 : 1;
}

}  // namespace

std::vector<std::string> cublaslt_modes(const scalegemm_problem& p) {
  const auto fp8 = [](int32_t type) { return type == SCALEGEMM_E4M3 || type == SCALEGEMM_E5M2; };
  const scalegemm_scale_desc& a = p.a.scale;
  const scalegemm_scale_desc& b = p.b.scale;
  const auto f32 = [](const scalegemm_scale_desc& s) { return s.dtype == SCALEGEMM_F32; };
  if (fp8(p.a.dtype) && fp8(p.b.dtype) && f32(a) && f32(b)) {
    if (a.block_rows == 0 && a.block_k == 0 && b.block_rows == 0 && b.block_k == 0) {
      return {"cublaslt-tensor"};
    }
    if (a.block_rows == 1 && a.block_k == 0 && b.block_rows == 1 && b.block_k == 0) {
      return {"cublaslt-row", "cublaslt-tensor"};
    }
    if (a.block_rows == 1 && a.block_k == 128 && b.block_rows == 128 && b.block_k == 128) {
      return {"cublaslt-block"};
    }
  }
  if (p.a.dtype == SCALEGEMM_INT8 && p.b.dtype == SCALEGEMM_INT8) {
    return {"cublaslt-int8"};
  }
  const bool plain =
      a.dtype == SCALEGEMM_DTYPE_NONE && b.dtype == SCALEGEMM_DTYPE_NONE && p.a.dtype == p.b.dtype;
  if (plain && p.a.dtype == SCALEGEMM_BF16) {
    return {"cublaslt-bf16"};
  }
  if (plain && p.a.dtype == SCALEGEMM_F16) {
    return {"cublaslt-f16"};
  }
  return {};
}

struct Cublaslt::State {
  Gpu gpu;
  DescHandle desc = nullptr;
  LayoutHandle a = nullptr, b = nullptr, d = nullptr;
  bool integer = false;
  bool scaled = false;
  std::vector<Heuristic> found;
  device::cuda::Address workspace = 0;
  device::cuda::Address output = 0;

  ~State() {
    const Api& api = library().api;
    if (desc != nullptr) {
      api.desc_destroy(desc);
    }
    for (LayoutHandle layout : {a, b, d}) {
      if (layout != nullptr) {
        api.layout_destroy(layout);
      }
    }
    for (const device::cuda::Address memory : {workspace, output}) {
      if (memory != 0) {
        (void)gpu->release(memory);
      }
    }
  }

  void point(const scalegemm_run_args& args) const {
    if (scaled) {
      const Api& api = library().api;
      api.desc_set(desc, kScalePointerA, &args.scale_b.data, sizeof(void*));
      api.desc_set(desc, kScalePointerB, &args.scale_a.data, sizeof(void*));
    }
  }
};

Cublaslt::Cublaslt() = default;
Cublaslt::~Cublaslt() = default;
Cublaslt::Cublaslt(Cublaslt&&) noexcept = default;
Cublaslt& Cublaslt::operator=(Cublaslt&&) noexcept = default;

std::string Cublaslt::prepare(const std::string& mode, const scalegemm_problem& p,
                              const scalegemm_run_args& args, const Gpu& gpu) {
  const Library& lt = library();
  if (!lt.problem.empty()) {
    return lt.problem;
  }
  const device::cuda::Current current(*gpu);
  auto state = std::make_unique<State>();
  const Api& api = lt.api;
  state->gpu = gpu;
  state->integer = mode == "cublaslt-int8";
  state->scaled = mode == "cublaslt-row" || mode == "cublaslt-tensor" || mode == "cublaslt-block";
  const int in_a = cuda_type(p.a.dtype);
  const int in_b = cuda_type(p.b.dtype);
  const int out = state->integer ? kInt32 : cuda_type(p.d_dtype);
  if (api.desc_create(&state->desc, state->integer ? kCompute32I : kCompute32F,
                      state->integer ? kInt32 : kF32) != 0) {
    return "it has no such operation";
  }
  api.desc_set(state->desc, kTransA, &kTranspose, sizeof kTranspose);
  if (state->scaled && mode != "cublaslt-block") {
    const int8_t fast = p.accuracy == SCALEGEMM_FAST ? 1 : 0;
    api.desc_set(state->desc, kFastAccumulation, &fast, sizeof fast);
  }
  if (mode == "cublaslt-row" || mode == "cublaslt-block") {
    const bool row = mode == "cublaslt-row";
    const int mode_a = row ? kOuterVector : kBlock128;
    const int mode_b = row ? kOuterVector : kVector128;
    if (api.desc_set(state->desc, kScaleModeA, &mode_a, sizeof mode_a) != 0 ||
        api.desc_set(state->desc, kScaleModeB, &mode_b, sizeof mode_b) != 0) {
      return "this version has no such scale mode";
    }
  }
  const auto m = static_cast<uint64_t>(p.m);
  const auto n = static_cast<uint64_t>(p.n);
  const auto k = static_cast<uint64_t>(p.k);
  api.layout_create(&state->a, in_b, k, n, args.b.stride[1]);
  api.layout_create(&state->b, in_a, k, m, args.a.stride[1]);
  api.layout_create(&state->d, out, n, m, p.n);
  const auto workspace = gpu->allocate(kWorkspaceBytes);
  const auto output = gpu->allocate(m * n * bytes_of(out));
  if (!workspace.ok() || !output.ok()) {
    return "the device's memory does not hold its workspace and output";
  }
  state->workspace = *workspace;
  state->output = *output;
  state->point(args);  // scale modes look at their pointers
  Preference preference = nullptr;
  api.preference_create(&preference);
  api.preference_set(preference, kMostWorkspace, &kWorkspaceBytes, sizeof kWorkspaceBytes);
  state->found.resize(kWanted);
  int found = 0;
  const int status = api.heuristic(lt.handle, state->desc, state->a, state->b, state->d, state->d, preference,
                                   kWanted, state->found.data(), &found);
  api.preference_destroy(preference);
  state->found.resize(status == 0 ? static_cast<size_t>(found) : 0);
  if (state->found.empty()) {
    return "it takes no problem of these sizes in this mode";
  }
  state_ = std::move(state);
  return "";
}

int Cublaslt::candidates() const {
  return state_ ? static_cast<int>(state_->found.size()) : 0;
}

bool Cublaslt::run(int candidate, const scalegemm_run_args& args) {
  const Library& lt = library();
  const State& s = *state_;
  const device::cuda::Current current(*s.gpu);
  s.point(args);
  constexpr float kOne = 1, kZero = 0;
  constexpr int kIntOne = 1, kIntZero = 0;
  const void* one = s.integer ? static_cast<const void*>(&kIntOne) : &kOne;
  const void* zero = s.integer ? static_cast<const void*>(&kIntZero) : &kZero;
  auto* const output = reinterpret_cast<void*>(s.output);
  return lt.api.matmul(lt.handle, s.desc, one, args.b.data, s.a, args.a.data, s.b, zero, output, s.d, output,
                       s.d, s.found[static_cast<size_t>(candidate)].algorithm,
                       reinterpret_cast<void*>(s.workspace), kWorkspaceBytes, nullptr) == 0;
}

}  // namespace scalegemm::harness
