// What a consumer warpgroup does with a stage: multiply its rows of X by the Y tile, and promote.
//
//   fast      acc += X Y over all of K in the tensor core: 4 wgmmas a step for each 64-row block; the step
//             before is complete when the next one is issued, and only then is its stage released.
//   promoted  a chain (promote_k elements of K, one 64-row block, all columns) starts from zero in a
//             temporary t and ends in acc += t * (scale_x * scale_y). Only the other consumers' chains run
//             meanwhile: three consumers of 64 rows or two of 128.
//   carried   promoted with two temporaries: the next step's chain multiplies while this one is promoted.
//
// Cycles a step of one warpgroup (m64n8k32 = 4 cycles of the SM's tensor cores): 2 * row_blocks * tile_y.
// Promotion: one FFMA for each accumulator, row_blocks * tile_y / 2 issue slots a scheduler. Measured, the
// FFMAs cost next to nothing beside the other consumers' wgmmas, but scales read from shared memory at the
// moment of need cost 7% (wgmma keeps shared memory busy): hence one step ahead.
// Registers a thread: accumulators row_blocks * tile_y / 2, and tile_y / 2 for each temporary. Notes C7510
// and C7514 of ptxas mean that the chains were serialised: a build must fail on them.
#pragma once
#include "cuda/pipeline.cuh"
#include "cuda/wgmma.cuh"

namespace scalegemm::cuda {

// A scale as a stage holds it: f32, or byte `place` of a word of e8m0 codes. 0 is the subnormal 2^-127, 255 a
// NaN: both have the bit below the exponent field.
template <bool kE8m0>
SG_DEVICE float as_scale(float word, u32 place) {
  if constexpr (!kE8m0)
    return word;
  const u32 code = __float_as_uint(word) >> (8 * place) & 0xff;
  return __uint_as_float(code << 23 | (((code + 1) & 0xfe) == 0 ? 0x400000u : 0));
}

template <GemmConfig c>
struct Consumer {
  using Layout = StageLayout<c>;
  using Mma = Wgmma<c.tile_y, c.x(), c.y()>;
  using Acc = typename MmaText<c.x(), c.y()>::Acc;
  static constexpr u32 kBlocks = c.row_blocks();
  static constexpr u32 kRegisters = c.tile_y / 2;       // accumulators of one row block
  static constexpr u32 kMmas = kStepBytes / kMmaBytes;  // wgmmas along K in a step
  static constexpr u32 kMmasPerPart = kMmas / c.parts();
  static constexpr u32 kBlockBytes = kMmaRows * kStepBytes;

  u32 group;             // which consumer
  u32 index;             // which rows of the tile: the same, but 0 with pingpong
  u32 thread;            // 0..127 in the warpgroup
  u32 warp;              // 0..3 in the warpgroup
  u32 first_step = 0;    // step of K that this CTA's sums begin with (split K)
  u32 scale_blocks = 0;  // scale blocks along K
  u32 y_phase = 0;       // rows of Y between the last multiple of 128 and the tile
  Acc acc[kBlocks][kRegisters];

  SG_DEVICE Consumer(u32 consumer, u32 thread_in_group)
      : group(consumer),
        index(c.pingpong ? 0 : consumer),
        thread(thread_in_group),
        warp(warp_uniform(thread_in_group / kWarp)) {}

  SG_DEVICE u32 lane() const { return thread % kWarp; }
  // Row in the tile of this thread's first accumulator of row block b; the second is 8 further.
  SG_DEVICE u32 row(u32 b) const { return (index * kBlocks + b) * kMmaRows + warp * 16 + lane() / 4; }
  SG_DEVICE u32 column() const { return (lane() % 4) * 2; }
  SG_DEVICE u64 x_descriptor(const Ring<c>& ring) const {
    return operand_descriptor(ring.x() + index * kBlocks * kBlockBytes);
  }

  // Sums one tile, `steps` stages, into acc, and releases each stage.
  SG_DEVICE void run(Ring<c>& ring, u32 steps) {
    if (c.promoted() || steps == 0)
      clear();
    if (steps == 0)
      return;  // a rank of a split K that is shorter than the split
    if constexpr (c.carried)
      run_carried(ring, steps);
    else if constexpr (c.promoted())
      run_promoted(ring, steps);
    else
      run_fast(ring, steps);
  }
  SG_DEVICE void clear() {
#pragma unroll
    for (u32 b = 0; b < kBlocks; ++b)
#pragma unroll
      for (u32 i = 0; i < kRegisters; ++i)
        acc[b][i] = 0;
  }

  // ---- fast ----
  SG_DEVICE void run_fast(Ring<c>& ring, u32 steps) {
    u32 previous = 0;
    for (u32 step = 0; step < steps; ++step) {
      ring.wait_full();
      const u64 x = x_descriptor(ring), y = operand_descriptor(ring.y());
      wgmma_fence();
#pragma unroll
      for (u32 b = 0; b < kBlocks; ++b)
#pragma unroll
        for (u32 q = 0; q < kMmas; ++q)
          Mma::ss(acc[b], x + b * (kBlockBytes / 16) + q * kDescriptorPerMma, y + q * kDescriptorPerMma,
                  (step | q) != 0);
      wgmma_commit();
      wgmma_wait<1>();
      if (step != 0)
        ring.release(previous, thread);
      previous = ring.stage;
      ring.advance();
    }
    if (c.pingpong && hand_over)
      barrier_arrive(kOrderBarrier + (group ^ 1), 2 * kWarpgroup);
    wgmma_wait<0>();
    ring.release(previous, thread);
#pragma unroll
    for (u32 b = 0; b < kBlocks; ++b)
      pin_registers(acc[b]);
  }

  // Pingpong: main loops are in tile order. Consumer i waits at kOrderBarrier + i for the other's last wgmma
  // of the tile before, so that the tensor cores are never without work, and so that a wait on a stage never
  // sees the parity of an older phase.
  static constexpr u32 kOrderBarrier = 10;
  bool hand_over = false;  // there is a next tile
  SG_DEVICE void take_over(bool first, bool more) {
    hand_over = more;
    if (c.pingpong && !first)
      barrier_sync(kOrderBarrier + group, 2 * kWarpgroup);
  }

  // ---- promoted ----
  // A step is a list of chains, ordered by part of K, then row block.
  static constexpr u32 kChains = c.parts() * kBlocks;
  SG_CONSTEXPR static u32 chain_part(u32 i) {
    return i / kBlocks;
  }
  SG_CONSTEXPR static u32 chain_block(u32 i) {
    return i % kBlocks;
  }

  // Where the operands of a stage are: the low words of their descriptors.
  struct Operands {
    u32 x, y;
  };
  SG_DEVICE Operands operands(const Ring<c>& ring) const {
    return {static_cast<u32>(x_descriptor(ring)), static_cast<u32>(operand_descriptor(ring.y()))};
  }
  SG_DEVICE void issue(float (&t)[kRegisters], const Operands& at, u32 i) {
    const u64 x = whole_descriptor(at.x) + chain_block(i) * (kBlockBytes / 16), y = whole_descriptor(at.y);
    wgmma_fence();
#pragma unroll
    for (u32 m = 0; m < kMmasPerPart; ++m) {
      const u32 q = chain_part(i) * kMmasPerPart + m;
      Mma::ss(t, x + q * kDescriptorPerMma, y + q * kDescriptorPerMma, m != 0);
    }
    wgmma_commit();
  }

  // The factors of one chain. `column` has one scale of Y for each kGroup groups of eight columns; scales of
  // single rows of Y are too many to hold and are read while promoting.
  static constexpr bool kLinedUp = groups_line_up(c.tile_y);
  static constexpr u32 kGroup = kLinedUp ? 16 : 1;
  static constexpr u32 kColumns = ceil_div(c.tile_y / 8, kGroup);
  static constexpr bool kScalesDuringPromotion = c.scale_y() == Scale::kBlock1;
  struct Factors {
    u32 place;    // of the chain's K block among four
    Float2 rows;  // as the stage holds them
    float column[kColumns];
  };
  struct StepFactors {
    Factors chain[kChains];
  };

  SG_DEVICE StepFactors step_factors(const Ring<c>& ring, u32 step) const {
    StepFactors f;
#pragma unroll
    for (u32 i = 0; i < kChains; ++i) {
      f.chain[i] = factors(ring, step, i);
      if (c.e8m0_x() && i >= kBlocks)
        f.chain[i].rows = f.chain[i % kBlocks].rows;  // one word serves all parts
    }
    return f;
  }
  SG_DEVICE Factors factors(const Ring<c>& ring, u32 step, u32 i) const {
    Factors f;
    const u32 b = chain_block(i), part = chain_part(i);
    f.place = scale_block<c>(first_step + step, part, scale_blocks) % 4;
    // Of four K blocks side by side: a word each, or (e8m0) a byte of one word.
    const u32 sx = ring.scales_x(part) + (c.e8m0_x() || c.scale_x() != Scale::kBlock128 ? 0 : 4 * f.place);
    const u32 sy = ring.scales_y(part) + (c.e8m0_y() ? 0 : 4 * f.place);
    f.rows = {1.0f, 1.0f};
    if (c.e8m0_x() && i >= kBlocks)
      ;  // those of the first part
    else if constexpr (c.scale_x() == Scale::kBlock1)
      f.rows = {load_shared(sx + 4 * row(b)), load_shared(sx + 4 * (row(b) + 8))};
    else if constexpr (c.scale_x() == Scale::kBlock128)
      f.rows.x = f.rows.y = load_shared(sx + 16 * ((index * kBlocks + b) * kMmaRows / 128));
    if constexpr (c.scale_y() != Scale::kBlock128) {
#pragma unroll
      for (u32 g = 0; g < kColumns; ++g)
        f.column[g] = 1.0f;
    } else if constexpr (kLinedUp) {
#pragma unroll
      for (u32 g = 0; g < kColumns; ++g)
        f.column[g] = as_scale<c.e8m0_y()>(load_shared(sy + 16 * g), f.place);
    } else {
      spread_groups(f, sy);
    }
    return f;
  }
  // The tile starts y_phase rows into a group of 128: each eight columns take the scale of the group they are
  // in.
  SG_DEVICE void spread_groups(Factors& f, u32 scales) const {
    constexpr u32 kGroups = groups_of(c.tile_y);
    float group[kGroups];
#pragma unroll
    for (u32 g = 0; g < kGroups; ++g)
      group[g] = as_scale<c.e8m0_y()>(load_shared(scales + 16 * g), f.place);
#pragma unroll
    for (u32 j = 0; j < kColumns; ++j) {
      f.column[j] = group[0];
#pragma unroll
      for (u32 g = 1; g < kGroups; ++g)
        f.column[j] = y_phase + 8 * j >= 128 * g ? group[g] : f.column[j];
    }
  }

  SG_DEVICE void promote(const float (&t)[kRegisters], const Ring<c>& ring, const Factors& f, u32 i) {
    float* d = acc[chain_block(i)];
    const Float2 rows = {as_scale<c.e8m0_x()>(f.rows.x, f.place), as_scale<c.e8m0_x()>(f.rows.y, f.place)};
    const u32 scales = ring.scales_y(chain_part(i)) + 4 * column();
#pragma unroll
    for (u32 j = 0; j < c.tile_y / 8; ++j, d += 4) {
      const float* v = t + 4 * j;
      if constexpr (c.scale_y() == Scale::kBlock1) {
        const Float2 word = load_shared_2(scales + 4 * 8 * j);
        const Float2 s = {as_scale<c.e8m0_y()>(word.x, f.place), as_scale<c.e8m0_y()>(word.y, f.place)};
        // One after the other: the product of two scales may leave f32 where the result does not.
        d[0] += v[0] * rows.x * s.x, d[1] += v[1] * rows.x * s.y;
        d[2] += v[2] * rows.y * s.x, d[3] += v[3] * rows.y * s.y;
      } else if constexpr (c.block_scaled()) {
        const float low = rows.x * f.column[j / kGroup], high = rows.y * f.column[j / kGroup];
        d[0] += v[0] * low, d[1] += v[1] * low, d[2] += v[2] * high, d[3] += v[3] * high;
      } else {
        d[0] += v[0], d[1] += v[1], d[2] += v[2], d[3] += v[3];
      }
    }
  }

  // What a step needs of its stage, known before the step begins: between the end of one chain and the start
  // of the next there is only the promotion.
  struct Step {
    Operands at;
    StepFactors factors;
  };
  SG_DEVICE Step prepare(const Ring<c>& ring, u32 step) const {
    ring.wait_full();
    return {operands(ring), step_factors(ring, step)};
  }
  // The chain during which the next step is prepared: the first, if the ring is deep enough for its stage to
  // be there by then and there are registers for the factors of two steps.
  static constexpr bool kEarly = c.stages > 3 && kColumns <= 2;
  static constexpr u32 kPrepareDuring = kEarly ? 0 : kChains - 1;
  SG_DEVICE void run_promoted(Ring<c>& ring, u32 steps) {
    Step now = prepare(ring, 0);
    for (u32 step = 0; step < steps; ++step) {
      float t[kRegisters];
      Step following = now;
      const Operands at = kEarly ? now.at : operands(ring);
#pragma unroll
      for (u32 i = 0; i < kChains; ++i) {
        const bool last = i + 1 == kChains;
        issue(t, at, i);
        if (i == kPrepareDuring && step + 1 < steps) {
          Ring<c> next = ring;
          next.advance();
          following = prepare(next, step + 1);
        }
        wgmma_wait<0>();
        pin_registers(t);
        if (last && !kScalesDuringPromotion)
          ring.release(ring.stage, thread);
        promote(t, ring, now.factors.chain[i], i);
        if (last && kScalesDuringPromotion)
          ring.release(ring.stage, thread);
      }
      now = following;
      ring.advance();
    }
  }

  // ---- carried ----
  // Waits for the stage at `ahead`, reads its factors and issues its chain into t.
  SG_DEVICE Factors start_chain(float (&t)[kRegisters], Ring<c>& ahead, u32 step) {
    ahead.wait_full();
    const Factors f = factors(ahead, step, 0);
    issue(t, operands(ahead), 0);
    ahead.advance();
    return f;
  }
  // Promotes the oldest chain, which is in t, with kPending younger ones in flight.
  template <u32 kPending>
  SG_DEVICE void finish_chain(float (&t)[kRegisters], Ring<c>& ring, const Factors& f) {
    wgmma_wait<kPending>();
    pin_registers(t);
    ring.release(ring.stage, thread);
    promote(t, ring, f, 0);
    ring.advance();
  }
  // Two steps a turn of the loop, so that each temporary keeps its registers while its chain is in flight.
  // Each chain is issued right before the wait for the one before it: the one order in which ptxas 13.0 keeps
  // them asynchronous across the loop edge.
  SG_DEVICE void run_carried(Ring<c>& ring, u32 steps) {
    float even[kRegisters], odd[kRegisters];
    Ring<c> ahead = ring;
    u32 step = 0;
    Factors f_even = start_chain(even, ahead, 0);
    for (; step + 2 < steps; step += 2) {
      const Factors f_odd = start_chain(odd, ahead, step + 1);
      finish_chain<1>(even, ring, f_even);
      f_even = start_chain(even, ahead, step + 2);
      finish_chain<1>(odd, ring, f_odd);
    }
    if (step + 2 == steps) {
      const Factors f_odd = start_chain(odd, ahead, step + 1);
      finish_chain<1>(even, ring, f_even);
      finish_chain<0>(odd, ring, f_odd);
    } else {
      finish_chain<0>(even, ring, f_even);
    }
  }
};

}  // namespace scalegemm::cuda
