// From f32 sums to D: alpha, beta*C, bias, activation, clamp, one rounding, any strides. Shared by the kernel
// families.
//
//   D[m,n] = convert(clamp(act(alpha * sum[m,n] + beta * C[m,n] + bias[n])))
//
// in f32, in this order: t = alpha*sum; t = fma(beta, C, t) unless beta is 0 (then C is not read); t = t +
// bias. Works row by row on up to 32 columns; only elements inside the block are read from C and bias or
// written to D. Full vectors at unit stride go straight to D, edges and other strides through a buffer of one
// row.
#ifndef SCALEGEMM_KERNELS_CPU_EPILOGUE_H_
#define SCALEGEMM_KERNELS_CPU_EPILOGUE_H_

#include "cpu/activation.h"
#include "cpu/encode.h"

namespace scalegemm_kernel {
inline namespace SG_CPU_ISA {

// A block of D: rows m .. m+rows, columns n .. n+columns with columns <= kGroup.
struct OutputBlock {
  int64_t batch, m, n;
  int rows, columns;
};

// out[j] = data[base + j*stride] as f32 for j < columns, the value of code 0 up to kGroup. 4-bit types: one
// code a byte, in the low nibble.
inline void load_row(const void* data, int64_t base, int64_t stride, int columns, int type, float* out) {
  const int size = storage_bytes(type);
  const uint8_t* p = static_cast<const uint8_t*>(data) + base * size;
  const DecodeRun decode_codes = find_decode_run(type);
  if (stride == 1 && columns == kGroup && !is_4bit(type)) {
    decode_codes(p, 1, 1.0f, out);
    return;
  }
  alignas(64) uint8_t codes[group_bytes(SG_F32)] = {};
  for (int j = 0; j < columns; ++j) {
    const uint8_t* q = p + j * stride * size;
    if (size == 4) {
      __builtin_memcpy(codes + j * 4, q, 4);
    } else if (size == 2) {
      __builtin_memcpy(codes + j * 2, q, 2);
    } else {
      codes[j] = *q;
    }
  }
  alignas(64) float values[2 * kGroup];
  decode_codes(codes, 1, 1.0f, values);
  __builtin_memcpy(out, values, kGroup * sizeof(float));
}

template <int kType>
SG_INLINE void encode_row(const F* x, void* out) {
#pragma GCC unroll 4
  for (int i = 0; i < kVecs; ++i) {
    encode_vector<kType>(x[i], static_cast<uint8_t*>(out) + i * kLanes * storage_bytes(kType));
  }
}

// kGroup elements of type `type` at out.
SG_INLINE void encode_row(const F* x, void* out, int type) {
  switch (type) {
    case SG_F32:
      return encode_row<SG_F32>(x, out);
    case SG_F16:
      return encode_row<SG_F16>(x, out);
    case SG_BF16:
      return encode_row<SG_BF16>(x, out);
    case SG_E4M3:
      return encode_row<SG_E4M3>(x, out);
    case SG_E4M3_FNUZ:
      return encode_row<SG_E4M3_FNUZ>(x, out);
    case SG_E5M2:
      return encode_row<SG_E5M2>(x, out);
    case SG_E5M2_FNUZ:
      return encode_row<SG_E5M2_FNUZ>(x, out);
    default:
      return encode_row<SG_INT32>(x, out);
  }
}

// D elements [0, columns) of one row at d with an element stride.
inline void store_row(const F* x, void* d, int64_t stride, int columns, int type) {
  if (stride == 1 && columns == kGroup) {
    encode_row(x, d, type);
    return;
  }
  alignas(64) uint8_t row[group_bytes(SG_F32)];
  encode_row(x, row, type);
  const int size = storage_bytes(type);
  uint8_t* p = static_cast<uint8_t*>(d);
  for (int j = 0; j < columns; ++j) {
    uint8_t* q = p + j * stride * size;
    if (size == 4) {
      __builtin_memcpy(q, row + j * 4, 4);
    } else if (size == 2) {
      __builtin_memcpy(q, row + j * 2, 2);
    } else {
      *q = row[j];
    }
  }
}

// Writes a block of D from sums[i*stride + j]; kGroup floats of every row must be readable (what lies past
// `columns` is ignored).
inline void write_block(const SgGemm& g, const OutputBlock& at, const float* sums, int64_t stride) {
  alignas(64) float bias[kGroup], c[kGroup];
  if (g.bias) {
    load_row(g.bias, at.n, 1, at.columns, g.bias_dtype, bias);
  }
  const bool use_c = g.c != nullptr && g.beta != 0.0f;
  const F alpha = set1(g.alpha), beta = set1(g.beta);
  const F low = set1(g.clamp_min), high = set1(g.clamp_max);
  for (int i = 0; i < at.rows; ++i) {
    if (use_c) {
      const int64_t base = at.batch * g.c_stride_batch + (at.m + i) * g.c_stride_m + at.n * g.c_stride_n;
      load_row(g.c, base, g.c_stride_n, at.columns, g.c_dtype, c);
    }
    F x[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      F t = mul(alpha, load(sums + i * stride + v * kLanes));
      t = use_c ? fma(beta, load(c + v * kLanes), t) : t;
      t = g.bias ? add(t, load(bias + v * kLanes)) : t;
      t = activate(t, g.activation);
      x[v] = min(high, max(low, t));  // a NaN in the second operand stays
    }
    const int64_t offset = at.batch * g.d_stride_batch + (at.m + i) * g.d_stride_m + at.n * g.d_stride_n;
    store_row(x, static_cast<uint8_t*>(g.d) + offset * storage_bytes(g.d_dtype), g.d_stride_n, at.columns,
              g.d_dtype);
  }
}

}  // namespace SG_CPU_ISA
}  // namespace scalegemm_kernel

#endif  // SCALEGEMM_KERNELS_CPU_EPILOGUE_H_
