// cuBLASLt as a peer, through dlopen: D[m, n] = A[m, k] B[n, k]^T with the same scale mode, best of its
// heuristic candidates.
#pragma once

namespace ladder {

enum class PeerMode { kTensor, kRow, kBlock, kBf16, kInt8 };

struct PeerBuffers {
  const void *a, *b;
  void* d;
  const float *scale_a, *scale_b;
};

class Peer {
 public:
  Peer();
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  // Number of candidates, at most `wanted`; 0 when the library is missing or refuses the problem.
  int prepare(PeerMode mode, unsigned m, unsigned n, unsigned k, const PeerBuffers& buffers, int wanted);
  // Enqueues candidate on the default stream; false when the library refuses.
  bool run(int candidate, const PeerBuffers& buffers);

 private:
  struct State;
  State* state_;
};

}  // namespace ladder
