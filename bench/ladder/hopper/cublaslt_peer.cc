// Row-major D[m, n] is cuBLASLt's column-major D^T[n, m]: its A is our B (transposed), its B is our A.
#include "cublaslt_peer.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <vector>

namespace ladder {

struct CublasLt {
  void* handle_of_library = nullptr;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  static constexpr size_t kWorkspace = 64 << 20;

  bool open() {
    for (const char* name :
         {"libcublasLt.so.13", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so.13"})
      if (!handle_of_library)
        handle_of_library = dlopen(name, RTLD_NOW);
    if (!handle_of_library)
      return false;
#define LOAD(field, symbol) field = reinterpret_cast<decltype(field)>(dlsym(handle_of_library, #symbol))
    LOAD(create, cublasLtCreate), LOAD(matmul, cublasLtMatmul), LOAD(desc_create, cublasLtMatmulDescCreate);
    LOAD(desc_set, cublasLtMatmulDescSetAttribute), LOAD(layout_create, cublasLtMatrixLayoutCreate);
    LOAD(preference_create, cublasLtMatmulPreferenceCreate),
        LOAD(preference_set, cublasLtMatmulPreferenceSetAttribute);
    LOAD(heuristic, cublasLtMatmulAlgoGetHeuristic);
#undef LOAD
    cudaMalloc(&workspace, kWorkspace);
    return create(&handle) == CUBLAS_STATUS_SUCCESS;
  }
};

// The library, opened once; handle is null when it is not installed.
CublasLt& library() {
  static CublasLt lt = [] {
    CublasLt fresh;
    if (!fresh.open())
      fresh.handle = nullptr;
    return fresh;
  }();
  return lt;
}

struct Peer::State {
  CublasLt* lt;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t la = nullptr, lb = nullptr, ld = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates;
  PeerMode mode;

  bool prepare(PeerMode peer_mode, unsigned m, unsigned n, unsigned k) {
    lt = &library(), mode = peer_mode;
    if (!lt->handle)
      return false;
    const bool integer = mode == PeerMode::kInt8, bf16 = mode == PeerMode::kBf16;
    const cudaDataType_t in = integer ? CUDA_R_8I
                              : bf16  ? CUDA_R_16BF
                                      : CUDA_R_8F_E4M3,
                         out = integer ? CUDA_R_32I : CUDA_R_16BF;
    if (lt->desc_create(&desc, integer ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                        integer ? CUDA_R_32I : CUDA_R_32F))
      return false;
    const cublasOperation_t transpose = CUBLAS_OP_T;
    lt->desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose);
    const int8_t fast = mode == PeerMode::kTensor || mode == PeerMode::kRow;
    if (fast)
      lt->desc_set(desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
    if (mode == PeerMode::kRow || mode == PeerMode::kBlock) {
      const int row = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,
                vec = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                block = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
      lt->desc_set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode == PeerMode::kRow ? &row : &block,
                   sizeof(int));
      lt->desc_set(desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode == PeerMode::kRow ? &row : &vec,
                   sizeof(int));
    }
    lt->layout_create(&la, in, k, n, k), lt->layout_create(&lb, in, k, m, k),
        lt->layout_create(&ld, out, n, m, n);
    return true;
  }
  void point(const PeerBuffers& buffers) {
    if (mode == PeerMode::kBf16 || mode == PeerMode::kInt8)
      return;
    lt->desc_set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &buffers.scale_b, sizeof(void*));
    lt->desc_set(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &buffers.scale_a, sizeof(void*));
  }
  bool find(const PeerBuffers& buffers, int wanted) {
    point(buffers);
    cublasLtMatmulPreference_t preference;
    lt->preference_create(&preference);
    const size_t bytes = CublasLt::kWorkspace;
    lt->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    candidates.resize(wanted);
    int found = 0;
    if (lt->heuristic(lt->handle, desc, la, lb, ld, ld, preference, wanted, candidates.data(), &found))
      found = 0;
    candidates.resize(found);
    return found > 0;
  }
  bool run(size_t candidate, const PeerBuffers& buffers, cudaStream_t stream) {
    point(buffers);
    const float one = 1, zero = 0;
    const int ione = 1, izero = 0;
    const bool integer = mode == PeerMode::kInt8;
    return lt->matmul(lt->handle, desc, integer ? static_cast<const void*>(&ione) : &one, buffers.b, la,
                      buffers.a, lb, integer ? static_cast<const void*>(&izero) : &zero, buffers.d, ld,
                      buffers.d, ld, &candidates[candidate].algo, lt->workspace, CublasLt::kWorkspace,
                      stream) == CUBLAS_STATUS_SUCCESS;
  }
};

Peer::Peer() : state_(new State) {}
Peer::~Peer() {
  delete state_;
}
int Peer::prepare(PeerMode mode, unsigned m, unsigned n, unsigned k, const PeerBuffers& buffers, int wanted) {
  return state_->prepare(mode, m, n, k) && state_->find(buffers, wanted)
             ? static_cast<int>(state_->candidates.size())
             : 0;
}
bool Peer::run(int candidate, const PeerBuffers& buffers) {
  return state_->run(candidate, buffers, nullptr);
}

}  // namespace ladder
