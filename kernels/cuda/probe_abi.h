// The contract between the library and the unit that measures what a GPU can do. Plain data, as abi.h.
//
// The unit named S holds entry points, each launched with one-dimensional grids:
//   S_empty()                                        what a launch costs
//   S_read(const void* data, u32 count, u32* sink)   units of 16 bytes; SG_PROBE_READ_THREADS a CTA
//   S_<name>(const void* operands, u32 rounds, float* sink)
//       sm_90a only, for each row of SG_PROBE_MATRIX: one CTA of SG_PROBE_THREADS a multiprocessor, with
//       SG_PROBE_OPERANDS bytes of dynamic shared memory, which it fills from `operands`; a float a thread
//       goes to the sink
#ifndef SCALEGEMM_KERNELS_CUDA_PROBE_ABI_H_
#define SCALEGEMM_KERNELS_CUDA_PROBE_ABI_H_

#define SG_PROBE_READ_THREADS 512

#define SG_PROBE_THREADS 256  // two warpgroups
#define SG_PROBE_STEPS 4      // of 128 bytes of K: the operands of a round
#define SG_PROBE_OPERANDS \
  (SG_PROBE_STEPS * 128 * (2 * 64 + 256))  // bytes: 64 rows of A a warpgroup, 256 of B

// X(symbol, name, type of both operands, N of the instruction, promoted). A round multiplies 64 rows of A a
// warpgroup by N of B over all steps; promoted: and adds to f32 sums after each step. The sums of N = 256
// leave no registers for the other 128.
#define SG_PROBE_MATRIX(X, symbol)                \
  X(symbol, e4m3_n64, kE4m3, 64, false)           \
  X(symbol, e4m3_n128, kE4m3, 128, false)         \
  X(symbol, e4m3_n256, kE4m3, 256, false)         \
  X(symbol, e4m3_promoted_n64, kE4m3, 64, true)   \
  X(symbol, e4m3_promoted_n128, kE4m3, 128, true) \
  X(symbol, bf16_n128, kBf16, 128, false)         \
  X(symbol, bf16_n256, kBf16, 256, false)         \
  X(symbol, int8_n128, kInt8, 128, false)         \
  X(symbol, int8_n256, kInt8, 256, false)

#endif  // SCALEGEMM_KERNELS_CUDA_PROBE_ABI_H_
