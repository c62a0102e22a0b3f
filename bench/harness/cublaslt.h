// cuBLASLt as a peer: D[m, n] = A[m, k] B[n, k]^T with the scale mode of a scheme, the best of its heuristic
// candidates. Opened at run time; building needs no CUDA headers (constants from the public documentation of
// cuBLASLt 12.9 and 13).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/instance.h"

namespace scalegemm::harness {

// What cuBLASLt has for a scheme: "cublaslt-row", "cublaslt-tensor", "cublaslt-block", "cublaslt-bf16",
// "cublaslt-int8" (which writes unscaled int32). The first is the same scale mode; others are what a user may
// take instead.
std::vector<std::string> cublaslt_modes(const scalegemm_problem& problem);

class Cublaslt {
 public:
  // Why it cannot run the problem in that mode, or empty.
  std::string prepare(const std::string& mode, const scalegemm_problem& problem,
                      const scalegemm_run_args& args, const Gpu& gpu);
  Cublaslt();
  ~Cublaslt();
  Cublaslt(Cublaslt&&) noexcept;
  Cublaslt& operator=(Cublaslt&&) noexcept;

  int candidates() const;
  // Enqueues a candidate on the default stream, on the operands of an instance, into memory of its own; false
  // when the library refuses.
  bool run(int candidate, const scalegemm_run_args& args);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace scalegemm::harness
