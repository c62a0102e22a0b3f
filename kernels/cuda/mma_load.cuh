// Tiles of operands and scales from global memory to shared memory, for any layout.
//
// A tile in shared memory is rows x depth elements of `via`, cut along K into slabs of 128 bytes:
//
//   slab s: rows x 128 bytes; the 16-byte unit u of row r lies at unit u ^ swizzle(r)
//
// swizzle(r) = (r ^ r / 16) % 8: ldmatrix (8 neighbouring rows at one unit), stores of whole rows and stores
// of 16-row columns all touch 8 different units of 16 bytes.
//
// A 16-bit operand whose rows are contiguous is kept as it is, for ldmatrix.trans (`transposed`):
//
//   slab s: for each 64 rows (or all) 64 lines, one a k, of 8 units (rows / 8); unit u of line k lies at
//           u ^ (k * units / 8) % units
//
// A thread brings vectors of 16 bytes of codes in one of two shapes:
//   along K     one row, 16 bytes of K
//   along rows  16 bytes of rows (4-bit: bytes of two k) at k and at k + 1; pairs are put together with prmt
// A vector that is whole and aligned is one load (along K with 4-byte alignment: four); else its elements are
// loaded one by one, lanes side by side along the same dimension. Nothing outside rows x K is read: what is
// missing is code 0, which decodes to +0.
//
//   direct      operands that need no decoding, along K or transposed: cp.async, `stages` - 1 tiles ahead
//   registers   all else: fetch() the codes of the next tile before the multiplications, store() after them.
//               Operands that need no decoding have the first way, and both at once here, for registers' sake
#pragma once
#include "cuda/mma_decode.cuh"

namespace scalegemm::cuda {

constexpr u32 kUnit = 16;      // bytes
constexpr u32 kSlabUnits = 8;  // units of a slab's row

SG_DEVICE u32 swizzle(u32 row) {
  return (row ^ row / 16) % 8;
}
// Offset of byte `byte` of K in row `row` of a tile of kRows rows.
template <u32 kRows>
SG_DEVICE u32 tile_offset(u32 row, u32 byte) {
  const u32 slab = byte / 128, unit = byte / kUnit % kSlabUnits;
  return (slab * kRows + row) * 128 + (unit ^ swizzle(row)) * kUnit + byte % kUnit;
}

// Offset of the unit with rows `row` .. + 7 at element k of K in a transposed tile.
template <u32 kRows>
SG_DEVICE u32 transposed_offset(u32 row, u32 k) {
  constexpr u32 kUnits = kRows < 64 ? kRows / 8 : 8, kLine = kUnits * kUnit;
  const u32 slab = k / 64, line = k % 64, unit = row / 8 % kUnits;
  return slab * kRows * 128 + row / 64 * (64 * kLine) + line * kLine +
         (unit ^ (line * kUnits / 8 % kUnits)) * kUnit;
}

SG_DEVICE void store_shared_word(u32 address, u32 v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
SG_DEVICE void store_shared_half(u32 address, u32 v) {
  asm volatile("{\n.reg .b16 h;\ncvt.u16.u32 h, %1;\nst.shared.u16 [%0], h;\n}" ::"r"(address), "r"(v)
               : "memory");
}
SG_DEVICE void store_shared_16(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
// 16 bytes, of which `bytes` are read and the others zero.
SG_DEVICE void cp_async_16(u32 dst, const void* src, u32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
SG_DEVICE void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <u32 kPending>
SG_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Elements [from, to) of K that one tile holds; at most the tile's depth.
struct KRange {
  u32 from, to;
};

enum class Shape : u8 { kAlongK, kAlongRows };

// Codes of one operand's tile.
template <SgDType kType, Via kVia, u32 kRows, u32 kDepth, u32 kThreads>
struct TileLoader {
  static constexpr u32 kBits = bits_of(kType), kBytes = kBits <= 8 ? 1 : kBits / 8;  // of a storage element
  static constexpr u32 kViaBytes = bytes_of(kVia);
  static constexpr bool kNative = is_native(kType, kVia);
  static constexpr bool kZeroPoints = kType == SG_INT8 || kType == SG_INT4 || kType == SG_UINT4;
  static constexpr u32 kOut = kWordsOut<kType, kVia>;
  // Along K.
  static constexpr u32 kElements = 128 / kBits;  // in a vector
  static constexpr u32 kAcross = kDepth / kElements, kVectors = kRows * kAcross;
  static constexpr u32 kEach = ceil_div(kVectors, kThreads);
  static constexpr u32 kPerWord = 32 / kBits;  // codes
  // Along rows.
  static constexpr u32 kGroup = 16 / kBytes;         // rows in a vector
  static constexpr u32 kLoads = kBits == 4 ? 1 : 2;  // vectors of a unit
  static constexpr u32 kGroups = kRows / kGroup, kUnits = kGroups * (kDepth / 2);
  static constexpr u32 kUnitsEach = ceil_div(kUnits, kThreads);
  static constexpr u32 kRaws = max_of(kEach, kUnitsEach* kLoads);
  static_assert(kRows % 16 == 0 && kDepth % kElements == 0, "whole vectors");

  // What a register need not hold is read from the kernel's parameters, which are constant memory.
  const SgOperand& o;
  const u8* base;   // of the tile's first row
  const u8* zeros;  // of the batch, or null
  u32 row0, rows;   // of the tile; that exist from there on
  u32 k;            // of the problem
  Shape shape;
  u32 width;    // bytes that one load may take where a vector is whole: 16, 4, or 0: element by element
  bool direct;  // by cp.async
  bool transposed;
  u32 raw[kRaws][4];
  i32 zero[kEach];

  SG_DEVICE TileLoader(const SgOperand& operand, u32 first_row, u32 all_rows, u32 all_k, u32 batch,
                       bool aligned_tiles)
      : o(operand), row0(first_row), rows(all_rows - first_row), k(all_k) {
    base = static_cast<const u8*>(o.data) +
           (static_cast<i64>(batch) * o.stride_batch + static_cast<i64>(row0) * o.stride_r) * kBytes;
    const bool regular = aligned_tiles || kBits != 4;  // a pair of 4-bit codes is never cut
    const bool along_rows = o.stride_r == 1 && o.stride_k != 1 && regular;
    shape = along_rows ? Shape::kAlongRows : Shape::kAlongK;
    const i64 lines = along_rows ? step_bytes() : all_rows > 1 ? row_bytes() : 0;
    const u64 bits = reinterpret_cast<u64>(base) | static_cast<u64>(lines);
    const bool contiguous = along_rows || (o.stride_k == 1 && aligned_tiles);
    zeros = static_cast<const u8*>(kZeroPoints ? o.zero.data : nullptr);
    if (zeros != nullptr)
      zeros += static_cast<i64>(batch) * o.zero.stride_batch;
    // Along rows every row of a vector has its own zero point: slow.
    width = !contiguous || (along_rows && zeros != nullptr) ? 0
            : bits % 16 == 0                                ? 16
            : bits % 4 == 0 && !along_rows                  ? 4
                                                            : 0;
    transposed = kNative && kBytes == 2 && along_rows && aligned_tiles && width == 16;
    direct = transposed || (kNative && !along_rows && width == 16 && zeros == nullptr);
  }
  // Strides in bytes: of a row, of a storage element along K.
  SG_DEVICE i64 row_bytes() const { return o.stride_r * kBytes; }
  SG_DEVICE i64 step_bytes() const { return o.stride_k * kBytes; }
  SG_DEVICE bool has_zeros() const { return kZeroPoints && zeros != nullptr; }
  SG_DEVICE i32 load_zero(u32 row, u32 at_k) const {
    const SgScale& z = o.zero;
    const u32 block_k = z.block_k < k ? static_cast<u32>(z.block_k) : k;
    const u8* p = zeros + static_cast<i64>((row0 + row) / static_cast<u32>(z.block_r)) * z.stride_r +
                  static_cast<i64>(at_k / block_k) * z.stride_k;
    const i32 code = *p, flip = z.dtype == SG_INT8 ? 128 : z.dtype == SG_INT4 ? 8 : 0;
    return ((z.dtype == SG_INT8 ? code : code & 15) ^ flip) - flip;
  }

  // Where vector or unit e of this thread lies: its row in the tile, its first k in the tile.
  SG_DEVICE u32 index(u32 e) const { return e * kThreads + threadIdx.x; }
  SG_DEVICE u32 vector_row(u32 e) const { return index(e) / kAcross; }
  SG_DEVICE u32 vector_k(u32 e) const { return index(e) % kAcross * kElements; }
  SG_DEVICE bool vector_exists(u32 e) const { return kVectors % kThreads == 0 || index(e) < kVectors; }
  SG_DEVICE u32 unit_row(u32 e) const { return index(e) % kGroups * kGroup; }
  SG_DEVICE u32 unit_k(u32 e) const { return index(e) / kGroups * 2; }
  SG_DEVICE bool unit_exists(u32 e) const { return kUnits % kThreads == 0 || index(e) < kUnits; }

  // ---- direct ----
  SG_DEVICE void copy(u32 stage, KRange at) const {
    if (kBytes == 2 && transposed) {
#pragma unroll
      for (u32 e = 0; e < kEach; ++e)
        copy_transposed(e, stage, at);
    } else {
#pragma unroll
      for (u32 e = 0; e < kEach; ++e)
        copy_along_k(e, stage, at);
    }
  }
  SG_DEVICE void copy_along_k(u32 e, u32 stage, KRange at) const {
    const u32 row = vector_row(e), first = at.from + vector_k(e);
    const u32 left = row < rows && first < at.to ? (at.to - first) * kBytes : 0;
    const u8* from = left != 0 ? base + row * row_bytes() + static_cast<i64>(first) * kBytes : base;
    if (vector_exists(e))
      cp_async_16(stage + tile_offset<kRows>(row, vector_k(e) * kViaBytes), from, min_of(left, 16));
  }
  SG_DEVICE void copy_transposed(u32 e, u32 stage, KRange at) const {
    const u32 row = index(e) % (kRows / 8) * 8, line = index(e) / (kRows / 8), at_k = at.from + line;
    const u32 left = row < rows && at_k < at.to ? (rows - row) * kBytes : 0;
    const u8* from = left != 0 ? base + static_cast<i64>(at_k) * step_bytes() + row * kBytes : base;
    if (vector_exists(e))
      cp_async_16(stage + transposed_offset<kRows>(row, line), from, min_of(left, 16));
  }

  // ---- registers ----
  // Vectors that are whole and aligned are fetched ahead; what lies outside the operand is zero. The others
  // are slow: their elements are loaded when they are stored, a vector at a time in a loop that is not
  // unrolled, so that edges and odd strides cost no registers.
  SG_DEVICE void fetch(KRange at) {
    if constexpr (!kNative)
      load(at);
  }
  SG_DEVICE void store(u32 stage, KRange at) {
    if constexpr (kNative)
      load(at);
    put(stage, at);
  }

 private:
  SG_DEVICE void load(KRange at) {
#pragma unroll
    for (u32 e = 0; e < kRaws; ++e)
#pragma unroll
      for (u32 i = 0; i < 4; ++i)
        raw[e][i] = 0;
    if (shape == Shape::kAlongK) {
#pragma unroll
      for (u32 e = 0; e < kEach; ++e)
        fetch_along_k(e, at);
    } else {
#pragma unroll
      for (u32 e = 0; e < kUnitsEach; ++e)
        fetch_along_rows(e, at);
    }
  }
  SG_DEVICE void put(u32 stage, KRange at) const {
    if (shape == Shape::kAlongK) {
#pragma unroll
      for (u32 e = 0; e < kEach; ++e)
        if (vector_exists(e) && !is_slow_vector(e, at))
          store_along_k(raw[e], zero[e], e, stage, at);
      if (width == 0 || at.to - at.from < kDepth) {
#pragma unroll 1
        for (u32 e = 0; e < kEach; ++e)
          if (vector_exists(e) && is_slow_vector(e, at))
            gather_along_k(e, stage, at);
      }
    } else {
#pragma unroll
      for (u32 e = 0; e < kUnitsEach; ++e)
        if (unit_exists(e) && !is_slow_unit(e, at))
          store_along_rows(reinterpret_cast<const u32(&)[kLoads][4]>(raw[e * kLoads]), e, stage, at);
      if (width == 0 || rows < kRows) {
#pragma unroll 1
        for (u32 e = 0; e < kUnitsEach; ++e)
          if (unit_exists(e) && is_slow_unit(e, at))
            gather_along_rows(e, stage, at);
      }
    }
  }

  SG_DEVICE bool vector_is_inside(u32 e, KRange at) const {
    return vector_row(e) < rows && at.from + vector_k(e) < at.to;
  }
  SG_DEVICE bool is_slow_vector(u32 e, KRange at) const {
    return vector_is_inside(e, at) && (width == 0 || at.from + vector_k(e) + kElements > at.to);
  }
  SG_DEVICE bool unit_is_inside(u32 e, KRange at) const {
    return unit_row(e) < rows && at.from + unit_k(e) < at.to;
  }
  SG_DEVICE bool is_slow_unit(u32 e, KRange at) const {
    return unit_is_inside(e, at) && (width == 0 || unit_row(e) + kGroup > rows);
  }
  SG_DEVICE static void load_16(u32 (&to)[4], const u8* p) {
    const U32x4 v = *reinterpret_cast<const U32x4*>(p);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  }

  // ---- along K ----
  SG_DEVICE void fetch_along_k(u32 e, KRange at) {
    zero[e] = 0;
    if (!vector_exists(e) || !vector_is_inside(e, at) || is_slow_vector(e, at))
      return;
    const u32 row = vector_row(e), first = at.from + vector_k(e);
    if (has_zeros())
      zero[e] = load_zero(row, first);
    const u8* p = base + row * row_bytes() + static_cast<i64>(first) * kBits / 8;
    if (width == 16) {
      load_16(raw[e], p);
    } else {
#pragma unroll
      for (u32 i = 0; i < 4; ++i)
        raw[e][i] = reinterpret_cast<const u32*>(p)[i];
    }
  }
  SG_DEVICE void gather_along_k(u32 e, u32 stage, KRange at) const {
    const u32 row = vector_row(e), first = at.from + vector_k(e);
    const u8* line = base + row * row_bytes();
    const i32 z = has_zeros() ? load_zero(row, first) : 0;
    // Word by word: all at once, the addresses of 32 nibbles would not fit the registers.
#pragma unroll(kBits == 4 ? 1 : kBits == 8 ? 2 : 4)
    for (u32 i = 0; i < 4; ++i) {
      u32 code = 0, words[kOut];
#pragma unroll
      for (u32 j = 0; j < kPerWord; ++j)
        if (first + i * kPerWord + j < at.to)
          code |= element(line, first + i * kPerWord + j) << (j * kBits % 32);
      decode_along_k(words, code, z, static_cast<i32>(at.to - first) - static_cast<i32>(i * kPerWord));
#pragma unroll
      for (u32 w = 0; w < kOut; ++w)
        store_shared_word(stage + tile_offset<kRows>(row, vector_k(e) * kViaBytes + (i * kOut + w) * 4),
                          words[w]);
    }
  }
  SG_DEVICE u32 element(const u8* line, u32 at_k) const {
    if constexpr (kBits == 4)
      return line[static_cast<i64>(at_k / 2) * step_bytes()] >> (at_k % 2 * 4) & 15;
    else
      return load_code(line + static_cast<i64>(at_k) * step_bytes(), kBytes);
  }
  // A word of codes, minus the zero point, and zeros from the count-th element on.
  SG_DEVICE void decode_along_k(u32 (&words)[kOut], u32 code, i32 z, i32 count) const {
    decode_word<kType, kVia>(code, words);
    if (!has_zeros())
      return;
#pragma unroll
    for (u32 w = 0; w < kOut; ++w)
      words[w] = keep_elements<kVia>(subtract_zero<kVia>(words[w], z, z),
                                     count - static_cast<i32>(w * (4 / kViaBytes)));
  }
  SG_DEVICE void store_along_k(const u32 (&codes)[4], i32 z, u32 e, u32 stage, KRange at) const {
    const i32 count = static_cast<i32>(at.to) - static_cast<i32>(at.from + vector_k(e));
    u32 out[4 * kOut];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      u32 words[kOut];
      decode_along_k(words, codes[i], z, count - static_cast<i32>(i * kPerWord));
#pragma unroll
      for (u32 w = 0; w < kOut; ++w)
        out[i * kOut + w] = words[w];
    }
#pragma unroll
    for (u32 u = 0; u < kOut; ++u)
      store_shared_16(stage + tile_offset<kRows>(vector_row(e), vector_k(e) * kViaBytes + u * kUnit),
                      out[4 * u], out[4 * u + 1], out[4 * u + 2], out[4 * u + 3]);
  }

  // ---- along rows ----
  SG_DEVICE const u8* unit_address(u32 e, u32 load, KRange at) const {
    const u32 at_k = at.from + unit_k(e) + load;
    return base + unit_row(e) * kBytes + static_cast<i64>(kBits == 4 ? at_k / 2 : at_k) * step_bytes();
  }
  SG_DEVICE void fetch_along_rows(u32 e, KRange at) {
    if (!unit_exists(e) || !unit_is_inside(e, at) || is_slow_unit(e, at))
      return;
#pragma unroll
    for (u32 l = 0; l < kLoads; ++l)
      if (at.from + unit_k(e) + l < at.to)
        load_16(raw[e * kLoads + l], unit_address(e, l, at));
  }
  // Word by word, as along K.
  SG_DEVICE void gather_along_rows(u32 e, u32 stage, KRange at) const {
    constexpr u32 kWordRows = 4 / kBytes;
#pragma unroll 1
    for (u32 i = 0; i < 4; ++i) {
      u32 codes[2] = {0, 0};
#pragma unroll
      for (u32 l = 0; l < kLoads; ++l)
#pragma unroll
        for (u32 j = 0; j < kWordRows; ++j) {
          const u32 row = i * kWordRows + j;
          if (unit_row(e) + row < rows && at.from + unit_k(e) + l < at.to)
            codes[l] |= load_code(unit_address(e, l, at) + row * kBytes, kBytes) << (j * kBytes * 8 % 32);
        }
      store_word<true>(codes[0], codes[1], i, e, stage, at);
    }
  }
  SG_DEVICE void store_along_rows(const u32 (&codes)[kLoads][4], u32 e, u32 stage, KRange at) const {
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      store_word<false>(codes[0][i], codes[kLoads - 1][i], i, e, stage, at);
  }
  // Word i of the codes of k and of k + 1 of neighbouring rows: put side by side, one word of them is decoded
  // at a time.
  template <bool kZeros>
  SG_DEVICE void store_word(u32 even, u32 odd, u32 i, u32 e, u32 stage, KRange at) const {
    const u32 row = unit_row(e);
    if constexpr (kBits == 4) {
      store_pairs<kZeros>(even, e, row + 4 * i, stage, at);
    } else if constexpr (kBits == 32) {
      const u32 at_byte = unit_k(e) * kViaBytes;
      store_shared_word(stage + tile_offset<kRows>(row + i, at_byte), even);
      store_shared_word(stage + tile_offset<kRows>(row + i, at_byte + 4), odd);
    } else {
      constexpr u32 kRowsWord = kBits == 8 ? 2 : 1;
      const u32 low = permute(even, odd, kBits == 8 ? 0x5140 : 0x5410);
      const u32 high = permute(even, odd, kBits == 8 ? 0x7362 : 0x7632);
      store_pairs<kZeros>(low, e, row + i * 2 * kRowsWord, stage, at);
      store_pairs<kZeros>(high, e, row + i * 2 * kRowsWord + kRowsWord, stage, at);
    }
  }
  // A word with the pairs of some rows from `row` on.
  template <bool kZeros>
  SG_DEVICE void store_pairs(u32 word, u32 e, u32 row, u32 stage, KRange at) const {
    const u32 at_k = at.from + unit_k(e), at_byte = unit_k(e) * kViaBytes;
    u32 out[kOut];
    decode_word<kType, kVia>(word, out);
    constexpr u32 kPerPair = 2 * kViaBytes;  // bytes
#pragma unroll
    for (u32 w = 0; w < kOut; ++w) {
      const u32 r = row + w * 4 / kPerPair;  // of this word's first pair
      if (kZeros && has_zeros() && at_k < at.to && r < rows) {
        const i32 z = load_zero(r, at_k);
        const i32 z2 = kVia == Via::kInt8 && r + 1 < rows ? load_zero(r + 1, at_k) : z;
        out[w] = subtract_zero<kVia>(out[w], z, z2);
        if (at_k + 1 == at.to)  // the pair's second element does not exist
          out[w] = kVia == Via::kInt8  ? out[w] & 0x00ff00ffu
                   : kVia == Via::kF32 ? (w % 2 == 0 ? out[w] : 0)
                                       : out[w] & 0xffffu;
      }
      if constexpr (kVia == Via::kInt8) {
        store_shared_half(stage + tile_offset<kRows>(r, at_byte), out[w] & 0xffff);
        store_shared_half(stage + tile_offset<kRows>(r + 1, at_byte), out[w] >> 16);
      } else {
        store_shared_word(stage + tile_offset<kRows>(r, at_byte + w * 4 % kPerPair), out[w]);
      }
    }
  }
};

// Block scales of one operand's tile: for each row the scales of the K blocks that the tile touches, as f32
// at [block - first block][row]. Operands whose scales span K have none here.
template <u32 kRows, u32 kSlots, u32 kThreads>
struct ScaleLoader {
  static constexpr u32 kPerPass = kThreads / kRows, kPasses = ceil_div(kSlots, kPerPass);
  static_assert(kThreads % kRows == 0, "a thread serves one row");

  const SgScale& s;
  const u8* line;  // the scales of this thread's row
  u32 block_k;
  bool blocked, exists;
  u32 raw[kPasses];

  SG_DEVICE ScaleLoader(const SgScale& scale, u32 row0, u32 rows, u32 k, u32 batch) : s(scale) {
    blocked = s.data != nullptr && s.block_k < k;
    block_k = blocked ? static_cast<u32>(s.block_k) : k;
    const u32 row = row0 + threadIdx.x % kRows;
    exists = row < rows, line = static_cast<const u8*>(s.data);
    if (blocked)
      line += (static_cast<i64>(batch) * s.stride_batch +
               static_cast<i64>(row / static_cast<u32>(s.block_r)) * s.stride_r) *
              storage_bytes(s.dtype);
  }
  SG_DEVICE u32 slot(u32 pass) const { return pass * kPerPass + threadIdx.x / kRows; }
  SG_DEVICE void fetch(KRange at) {
    if (!blocked)
      return;
    const u32 first = at.from / block_k, last = (at.to - 1) / block_k, bytes = storage_bytes(s.dtype);
#pragma unroll
    for (u32 p = 0; p < kPasses; ++p) {
      raw[p] = 0;
      if (exists && first + slot(p) <= last)
        raw[p] = load_code(line + (first + slot(p)) * s.stride_k * static_cast<i64>(bytes), bytes);
    }
  }
  SG_DEVICE void store(u32 to) const {
    if (!blocked)
      return;
#pragma unroll
    for (u32 p = 0; p < kPasses; ++p)
      if (slot(p) < kSlots)
        store_shared(to + 4 * (slot(p) * kRows + threadIdx.x % kRows), decode_number(raw[p], s.dtype));
  }
};

}  // namespace scalegemm::cuda
