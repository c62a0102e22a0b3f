// KernelSpec: everything that changes the machine code of a kernel, and its name.
//
// M, N, K and pointers are never part of it. A field may be "any" (an empty optional) where one kernel
// decides at run time: a CPU kernel is compiled for a target, a pipeline, the type of B and a tile, and
// takes every type of A and D, every layout, every scale and every epilogue at run time; a GPU kernel fixes
// all of them. Epilogue arithmetic (alpha, beta*C, bias, activation, clamp) is a run-time argument of every
// family. Which specs exist is decided by src/arch (legal), never by the name.
//
// name() is for people and files; parse(name(s)) == s for every well-formed spec. It is not an identity:
// caches are keyed by a hash over spec, sources and compiler. Grammar: docs/kernel-names.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "num/dtype.h"
#include "spec/problem.h"
#include "spec/target.h"

namespace scalegemm::spec {

// How the main loop feeds its products.
enum class Pipeline : uint8_t {
  // CPU
  kF32Fma = 0,   // operands decoded to f32, f32 fused multiply-add; exact products, f32 sums
  kI8Dot = 1,    // int8-class codes (int8, int4, uint4, 2*e2m1), int32 sums inside a scale block, f32 between
  kBf16Dot = 2,  // operands decoded to bf16, pairwise dot products into f32
  // NVIDIA
  kTmaCoop = 3,      // TMA producer warp group, consumers share a tile (cooperative)
  kTmaPingPong = 4,  // TMA producer warp group, consumers alternate tiles
  kTmaCarried = 11,  // tmacoop, promoted, with the next step's products under way while one is promoted
  kMma = 12,         // warp-level mma.sync, operands widened on their way to shared memory: takes everything
  // AMD, in the words of its field
  kMem = 5,          // memory-bound: deep prefetch, small tile
  kCompV3 = 6,       // register prefetch, single LDS buffer
  kCompV4 = 7,       // double LDS buffer
  kCompV5 = 8,       // compv3 with wave groups
  kCompAsync = 9,    // direct-to-LDS loads, double buffer
  kMicroscale = 10,  // B expanded with its e8m0 scale before the matrix instruction
};

// How accumulators reach D.
enum class EpilogueKind : uint8_t {
  kDefault = 0,   // straight from registers
  kCShuffle = 1,  // through shared memory or LDS, stored in rows
  kTma = 2,       // through shared memory, stored by TMA
};

// The order of work inside or between units.
enum class Scheduler : uint8_t {
  kDefault = 0,
  kDynamic = 1,    // CPU: chunks of columns taken from a shared counter
  kIntrawave = 2,  // AMD: one wave interleaves loads and matrix instructions
  kInterwave = 3,  // AMD: waves alternate between loads and matrix instructions
};

// How K is split over units. Every mode adds f32 partial sums in a fixed order.
enum class SplitK : uint8_t {
  kNone = 0,
  kWorkspace = 1,      // slices write partials to a workspace, a second pass adds them
  kCluster = 2,        // slices are blocks of one cluster and add through distributed shared memory
  kStreamKLinear = 3,  // stream-K; partial tiles are added one after the other
  kStreamKTree = 4,    // stream-K; partial tiles are added pairwise
};

struct Dims {
  int m = 1;
  int n = 1;
  int k = 1;

  bool operator==(const Dims&) const = default;
};

struct Layouts {
  Layout a = Layout::kRow;
  Layout b = Layout::kCol;

  bool operator==(const Layouts&) const = default;
};

// Edges that the kernel masks. Without one, that extent must be a multiple of the tile.
struct Pads {
  bool m = true;
  bool n = true;
  bool k = true;

  bool operator==(const Pads&) const = default;
};

enum class Scales : uint8_t {
  kRunTime = 0,  // every scale, or none, at run time; a_scale and b_scale are empty
  kFixed = 1,    // exactly a_scale and b_scale (empty: that operand has no scale)
};

struct KernelSpec {
  Target target = Target::kX86V3;
  std::optional<DType> a;  // empty: any
  std::optional<DType> b;
  std::optional<DType> d;
  Scales scales = Scales::kRunTime;
  std::optional<ScaleSpec> a_scale;
  std::optional<ScaleSpec> b_scale;
  std::optional<Layouts> layouts;  // empty: any, strides at run time
  Pipeline pipeline = Pipeline::kF32Fma;
  EpilogueKind epilogue = EpilogueKind::kDefault;
  Scheduler scheduler = Scheduler::kDefault;
  Dims tile;         // CPU: register tile m x n and K block of a panel; GPU: tile of a block
  Dims warps;        // warps (waves, warp groups on sm_90a) of a block; 1x1x1 on CPUs
  Dims instruction;  // one matrix or vector instruction, a row of src/arch
  // GPU: the type that operands are widened to when the instruction does not take their own.
  std::optional<DType> via;
  // CPU: the packed layout that is taken beside raw B. GPU: the only order of B that is taken.
  Packing packed = Packing::kPanelK1x32;
  int stages = 0;     // shared-memory stages; 0: as the pipeline has it
  int cluster_m = 1;  // blocks of a cluster
  int cluster_n = 1;
  SplitK split_k = SplitK::kNone;
  int k_slices = 1;  // units that share one tile's K; more than 1 exactly where split_k is set and fixed
  Accuracy accuracy = Accuracy::kPromoted;  // what the kernel guarantees at least
  bool swap_ab = false;                     // computes D^T = B^T A^T: small M on the instruction's n
  bool persistent = false;                  // one block a multiprocessor loops over tiles
  bool fused = false;           // TMA pipelines: beta*C, bias, activation and clamp, not alpha alone
  bool strided_scales = false;  // TMA pipelines: block scales of any strides, at some cost
  Pads pads;

  bool operator==(const KernelSpec&) const = default;
};

// The packed layout that belongs to a pipeline and a type of B where nothing else is said.
Packing default_packed(Pipeline pipeline, std::optional<DType> b);

std::string_view to_string(Pipeline pipeline);
std::string_view to_string(EpilogueKind epilogue);
std::string_view to_string(Scheduler scheduler);
std::string_view to_string(SplitK split);
std::string_view to_string(Packing packed);
std::string_view to_string(Accuracy accuracy);
std::string to_string(const Dims& dims);  // "14x32x512"

// "rcr" for {row, column}; D is always row.
std::string_view layout_word(const Layouts& layouts);
std::optional<Layouts> parse_layout_word(std::string_view word);

// Is the spec well formed, so that name() says all of it: sizes positive, scales only where fixed, block
// sizes not negative. Says nothing about a target (src/arch does).
Status check(const KernelSpec& spec);

// "any", "none", "tensorquant", "rowcolquant", "aquant", "bquant", "abquant", "mxquant" or "nvfp4quant":
// what the scales of the spec are called.
std::string_view quant_word(const KernelSpec& spec);

// The name of a well-formed spec: [a-z0-9_-] only, at most kMaxKernelName characters.
inline constexpr size_t kMaxKernelName = 320;
std::string name(const KernelSpec& spec);

// The spec of a name. Also takes the names of AMD's dispatcher when the target is appended
// ("gemm_rowcolquant_fp8_rcr_..._16x16x128_gfx950"). kInvalidArgument with the column, what was expected and
// what was there; kUnsupported with the reason for a name that is understood but has no spec.
Result<KernelSpec> parse(std::string_view text);

// The name as a C identifier (each '-' becomes "__"); distinct for distinct names.
std::string symbol_name(const KernelSpec& spec);

}  // namespace scalegemm::spec
