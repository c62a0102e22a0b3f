#include "device/cuda/kernel.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/int_math.h"
#include "num/dtype.h"

namespace scalegemm::device::cuda {
namespace {

using num::DType;

// CUfunction_attribute.
constexpr int kDynamicSharedBytes = 8;

constexpr uint32_t kStepBytes = 128;                     // of K in a TMA box: one 128-byte swizzle atom
constexpr uint32_t kStoreColumns = 64, kStoreRows = 16;  // of a box of D
constexpr int64_t kTmaAlign = 16;

int64_t element_bytes(int32_t dtype) {
  return std::max(1, num::info(static_cast<DType>(dtype)).bits / 8);
}

unsigned ceil_div(int64_t a, int64_t b) {
  return static_cast<unsigned>(base::ceil_div(a, b));
}

bool aligned(const void* pointer, int64_t to) {
  return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(to) == 0;
}

enum class Swizzle : int { k128 = 3 };

// A matrix of `rows` rows, contiguous along columns, as TMA sees it, and the box that one load or store
// moves.
struct Matrix {
  void* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row_bytes = 0;  // between rows
  int64_t element = 0;    // bytes
  uint32_t box_columns = 0, box_rows = 0;
  int l2_promotion = 0;

  bool operator==(const Matrix&) const = default;
};

Status encode(const Driver& d, const Matrix& m, TensorMap* map) {
  const uint64_t dims[2] = {static_cast<uint64_t>(m.columns), static_cast<uint64_t>(m.rows)};
  const uint64_t strides[1] = {static_cast<uint64_t>(m.row_bytes)};
  const uint32_t boxes[2] = {m.box_columns, m.box_rows};
  const uint32_t ones[2] = {1, 1};
  const TensorType type = m.element == 2 ? TensorType::kUint16 : TensorType::kUint8;
  return check(d.tensor_map(map, static_cast<int>(type), 2, m.data, dims, strides, boxes, ones, 0,
                            static_cast<int>(Swizzle::k128), m.l2_promotion, 0),
               "describing a matrix to TMA", Code::kInternal);
}

// The latest maps of a thread. A map depends on nothing but the matrix, so none grows stale, and a model's
// weights are described once.
class MapCache {
 public:
  Status find(const Driver& d, const Matrix& m, TensorMap* map) {
    const uint64_t mixed = (reinterpret_cast<uintptr_t>(m.data) >> 4) * 0x9e3779b97f4a7c15 +
                           static_cast<uint64_t>(m.rows) * 31 + m.box_rows;
    Slot& slot = slots_[(mixed * 0x9e3779b97f4a7c15) >> (64 - kBits)];
    if (slot.matrix == m) {
      *map = slot.map;
      return ok_status();
    }
    SCALEGEMM_RETURN_IF_ERROR(encode(d, m, map));
    slot = {m, *map};
    return ok_status();
  }

 private:
  static constexpr int kBits = 7;
  struct Slot {
    Matrix matrix;
    TensorMap map;
  };
  std::array<Slot, size_t{1} << kBits> slots_;
};

thread_local MapCache map_cache;

// A single row may have any stride, TMA wants a legal one.
int64_t tma_row_bytes(int64_t rows, int64_t columns, int64_t stride, int64_t element) {
  return rows == 1 ? base::round_up(columns * element, kTmaAlign) : stride * element;
}

Status check_operand(const char* name, const SgOperand& o, int64_t rows, int64_t k) {
  const int64_t element = element_bytes(o.dtype);
  if (k > 1 && o.stride_k != 1) {
    return unsupported("{}: TMA needs contiguous K (stride 1), has stride {}", name, o.stride_k);
  }
  if (tma_row_bytes(rows, k, o.stride_r, element) % kTmaAlign != 0) {
    return unsupported("{}: TMA needs rows that lie a multiple of {} bytes apart, they lie {}", name,
                       kTmaAlign, o.stride_r * element);
  }
  if (rows > 1 && o.stride_r < k) {
    return unsupported("{}: TMA needs rows that do not overlap, they lie {} elements apart", name,
                       o.stride_r);
  }
  if (!aligned(o.data, kTmaAlign)) {
    return unsupported("{}: TMA needs data at a multiple of {} bytes", name, kTmaAlign);
  }
  return ok_status();
}

constexpr int64_t kMostScaleBytes = int64_t{1} << 32;

// Element i of a batch as a GEMM of its own.
SgGemm batch_element(const SgGemm& gemm, int64_t i) {
  SgGemm g = gemm;
  g.batch = 1;
  const auto advance = [i](const void* data, int64_t stride, int32_t dtype) -> const void* {
    return data == nullptr ? nullptr
                           : static_cast<const std::byte*>(data) + i * stride * element_bytes(dtype);
  };
  for (SgOperand* o : {&g.a, &g.b}) {
    o->data = advance(o->data, o->stride_batch, o->dtype);
    o->scale.data = advance(o->scale.data, o->scale.stride_batch, o->scale.dtype);
  }
  g.scale_bytes_a -= i * g.a.scale.stride_batch * element_bytes(g.a.scale.dtype);
  g.scale_bytes_b -= i * g.b.scale.stride_batch * element_bytes(g.b.scale.dtype);
  g.c = advance(g.c, g.c_stride_batch, g.c_dtype);
  g.d = const_cast<void*>(advance(g.d, g.d_stride_batch, g.d_dtype));
  return g;
}

// The scales of one operand as a TMA kernel was compiled for them.
struct Grid {
  uint32_t kind;  // SgTmaScaleKind
  bool strided;
  int64_t rows, blocks, bytes;
};

Grid grid_of(const SgCudaInfo& info, const SgGemm& g, bool is_a) {
  const int64_t chain = std::max<int64_t>(1, info.promote_k);
  return {.kind = is_a ? info.scale_a : info.scale_b,
          .strided = info.strided_scales != 0,
          .rows = is_a ? g.m : g.n,
          .blocks = base::ceil_div(g.k, chain),
          .bytes = is_a ? g.scale_bytes_a : g.scale_bytes_b};
}

// Block scales that travel by TMA: lines of 16 bytes; and e8m0 scales, which a warp copies by words of 4.
Status check_scale(const char* name, const SgScale& s, const Grid& grid) {
  // Kernels find a scale's offset in 32 bits.
  if (s.data != nullptr && grid.bytes > kMostScaleBytes) {
    return unsupported("{}: this kernel needs scales within {} bytes, has {}", name, kMostScaleBytes,
                       grid.bytes);
  }
  const bool single = grid.kind == SG_SCALE_BLOCK_1;
  if (!single && grid.kind != SG_SCALE_BLOCK_128) {
    return ok_status();
  }
  const bool e8m0 = s.dtype == SG_E8M0;
  if (!e8m0 && grid.strided) {
    return ok_status();
  }
  const bool along_rows = single && !e8m0;
  const int64_t groups = single ? grid.rows : base::ceil_div(grid.rows, 128);
  const int64_t extent = along_rows ? groups : grid.blocks;  // of a line
  const int64_t lines = along_rows ? grid.blocks : groups;
  const int64_t along = along_rows ? s.stride_r : s.stride_k;
  const int64_t unit = 4;  // scales in 16 bytes of f32, or in 4 bytes of e8m0
  const int64_t apart = lines == 1 ? base::round_up(extent, unit) : along_rows ? s.stride_k : s.stride_r;
  const int64_t element = e8m0 ? 1 : 4;
  if ((extent > 1 && along != 1) || apart % unit != 0 || apart < extent ||
      grid.bytes < lines * apart * element) {
    return unsupported(
        "{}: this kernel needs scales contiguous along {}, in lines that lie a multiple of {} bytes apart, "
        "the last "
        "one padded as well; strides are {} and {}, {} bytes",
        name, along_rows ? "rows" : "K", unit * element, s.stride_r, s.stride_k, grid.bytes);
  }
  if (!aligned(s.data, unit * element)) {
    return unsupported("{}: this kernel needs data at a multiple of {} bytes", name, unit * element);
  }
  return ok_status();
}

// With a single line the stride between lines may be anything: the loader wants one that holds the line.
SgTmaScale tma_scale(const SgScale& s, const Grid& grid) {
  SgTmaScale out = {static_cast<const float*>(s.data), static_cast<uint32_t>(s.stride_r),
                    static_cast<uint32_t>(s.stride_k)};
  if (grid.kind == SG_SCALE_BLOCK_1 && grid.blocks == 1 && !grid.strided) {
    out.stride_k = static_cast<uint32_t>((grid.rows + 3) / 4 * 4);
  }
  return out;
}

SgTmaEpilogue tma_epilogue(const SgGemm& g) {
  SgTmaEpilogue e{};
  e.c = g.beta != 0.0f ? g.c : nullptr;
  e.bias = g.bias;
  e.c_stride_m = static_cast<uint64_t>(g.c_stride_m);
  e.c_stride_n = static_cast<uint64_t>(g.c_stride_n);
  e.c_dtype = g.c_dtype;
  e.bias_dtype = g.bias_dtype;
  e.activation = g.activation;
  e.alpha = g.alpha;
  e.beta = g.beta;
  e.clamp_min = g.clamp_min;
  e.clamp_max = g.clamp_max;
  return e;
}

// Tiles of X that are walked before the next Y tile: about as many as keep the X and Y tiles of one wave in
// L2, close to a square.
uint32_t raster_of(const SgCudaInfo& info, const SgGemm& g, int multiprocessors) {
  const unsigned tiles_m = ceil_div(g.m, info.tile_m * info.cluster_m);
  uint32_t best = 1;
  double least = 0;
  for (uint32_t strip : {1u, 2u, 4u, 8u, 16u, 32u}) {
    const double wide = std::min(strip, tiles_m);
    const double tall = std::max(1.0, multiprocessors / wide);
    const double traffic = wide * info.tile_m + tall * info.tile_n;
    if (strip == 1 || traffic < least) {
      best = strip;
      least = traffic;
    }
  }
  return best;
}

}  // namespace

Result<std::shared_ptr<const Kernel>> Kernel::load(std::shared_ptr<const LoadedModule> module,
                                                   const std::string& symbol) {
  std::shared_ptr<Kernel> kernel(new Kernel(std::move(module)));
  SCALEGEMM_ASSIGN_OR_RETURN(kernel->function_, kernel->module_->function(symbol));
  SCALEGEMM_RETURN_IF_ERROR(kernel->module_->read(symbol + "_info", &kernel->info_, sizeof kernel->info_));
  if (kernel->info_.abi_version != SG_CUDA_ABI_VERSION) {
    return make_error(Code::kCorruptData, "kernel {}: must be of ABI version {}, is of {}", symbol,
                      SG_CUDA_ABI_VERSION, kernel->info_.abi_version);
  }
  const Current current(kernel->device());
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  SCALEGEMM_RETURN_IF_ERROR(
      check(kernel->device().driver().function_set(kernel->function_, kDynamicSharedBytes,
                                                   static_cast<int>(kernel->info_.shared_bytes)),
            "giving a kernel its shared memory"));
  return std::shared_ptr<const Kernel>(std::move(kernel));
}

Status Kernel::check_addressable(const SgGemm& g, Part part) const {
  if (info_.family == SG_CUDA_MMA) {
    return ok_status();
  }
  switch (part) {
    case Part::kA:
      return check_operand("a", g.a, g.m, g.k);
    case Part::kB:
      return check_operand("b", g.b, g.n, g.k);
    case Part::kScaleA:
      return check_scale("scale_a", g.a.scale, grid_of(info_, g, true));
    default:
      return check_scale("scale_b", g.b.scale, grid_of(info_, g, false));
  }
}

Status Kernel::check_addressable(const SgGemm& g) const {
  if (info_.family == SG_CUDA_MMA) {
    return ok_status();
  }
  for (const Part part : kParts) {
    SCALEGEMM_RETURN_IF_ERROR(check_addressable(g, part));
  }
  if (g.batch > 1) {
    // If the second and the last can be addressed, so can those between: their pointers are sums of the same
    // strides.
    SCALEGEMM_RETURN_IF_ERROR(check_addressable(batch_element(g, 1)));
    SCALEGEMM_RETURN_IF_ERROR(check_addressable(batch_element(g, g.batch - 1)));
  }
  if (g.n > 1 && g.d_stride_n != 1) {
    return unsupported("d: this kernel needs contiguous columns (stride 1), has stride {}", g.d_stride_n);
  }
  return ok_status();
}

Status Kernel::launch(const SgGemm& gemm, void* stream) const {
  const Current current(device());
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  auto* const s = static_cast<Stream>(stream);
  if (info_.family == SG_CUDA_MMA) {
    return launch_mma(gemm, s);
  }
  for (int64_t i = 0; i < gemm.batch; ++i) {
    SCALEGEMM_RETURN_IF_ERROR(launch_tma(batch_element(gemm, i), s));
  }
  return ok_status();
}

Status Kernel::launch_mma(const SgGemm& gemm, Stream stream) const {
  SgGemm argument = gemm;
  void* parameters[] = {&argument};
  LaunchConfig config;
  config.grid_x = ceil_div(gemm.n, info_.tile_n);
  config.grid_y = ceil_div(gemm.m, info_.tile_m);
  config.grid_z = static_cast<unsigned>(gemm.batch);
  config.block_x = info_.threads;
  config.shared_bytes = info_.shared_bytes;
  config.stream = stream;
  return check(device().driver().launch(&config, function_, parameters, nullptr), "launching a kernel");
}

Status Kernel::launch_tma(const SgGemm& g, Stream stream) const {
  const Driver& d = device().driver();
  const int64_t element = element_bytes(g.a.dtype);
  const int64_t out = element_bytes(g.d_dtype);
  const uint32_t box_k = static_cast<uint32_t>(kStepBytes / element);
  constexpr int kPromote256 = 3;  // L2 sectors of 256 bytes: operands are read whole
  TensorMap map_a, map_b, map_d{};
  const auto operand = [&](const SgOperand& o, int64_t rows, uint32_t box) {
    return Matrix{const_cast<void*>(o.data),
                  rows,
                  g.k,
                  tma_row_bytes(rows, g.k, o.stride_r, element),
                  element,
                  box_k,
                  box,
                  kPromote256};
  };
  SCALEGEMM_RETURN_IF_ERROR(map_cache.find(d, operand(g.a, g.m, info_.box_m), &map_a));
  SCALEGEMM_RETURN_IF_ERROR(map_cache.find(d, operand(g.b, g.n, info_.box_n), &map_b));

  const int64_t row_bytes = tma_row_bytes(g.m, g.n, g.d_stride_m, out);
  const bool vectors = row_bytes % kTmaAlign == 0 && aligned(g.d, kTmaAlign);
  if (vectors && out == 2) {
    SCALEGEMM_RETURN_IF_ERROR(
        map_cache.find(d, {g.d, g.m, g.n, row_bytes, out, kStoreColumns, kStoreRows, 0}, &map_d));
  }
  SgTmaGemm p{};
  p.m = static_cast<uint32_t>(g.m);
  p.n = static_cast<uint32_t>(g.n);
  p.k = static_cast<uint32_t>(g.k);
  p.raster = raster_of(info_, g, device().properties().multiprocessors);
  p.scale_blocks = info_.promote_k == 0 ? 1 : ceil_div(g.k, info_.promote_k);
  p.scale_a = tma_scale(g.a.scale, grid_of(info_, g, true));
  p.scale_b = tma_scale(g.b.scale, grid_of(info_, g, false));
  p.d = {g.d, static_cast<uint64_t>(g.d_stride_m), p.m, p.n, vectors ? 1u : 0u};
  p.global_a = g.a.global_scale;
  p.global_b = g.b.global_scale;
  p.epilogue = tma_epilogue(g);

  LaunchConfig config;
  LaunchAttribute attributes[2];
  attributes[0].id = kProgrammaticSerialization;  // the kernel waits for earlier ones by itself
  attributes[0].value.programmatic_serialization = 1;
  attributes[1].id = kClusterDimension;
  unsigned cluster = info_.cluster_m * info_.cluster_n;
  if (info_.family == SG_CUDA_TMA) {
    const unsigned units = ceil_div(ceil_div(g.m, info_.tile_m), info_.cluster_m) *
                           ceil_div(ceil_div(g.n, info_.tile_n), info_.cluster_n);
    const auto resident = static_cast<unsigned>(device().properties().multiprocessors) / cluster;
    config.grid_x = std::min(units, resident) * cluster;
  } else {
    cluster = info_.cluster_k;
    const bool swap = info_.swap_ab != 0;
    config.grid_x = cluster * (swap ? ceil_div(g.n, info_.tile_n) : ceil_div(g.m, info_.tile_m));
    config.grid_y = swap ? ceil_div(g.m, info_.tile_m) : ceil_div(g.n, info_.tile_n);
  }
  attributes[1].value.cluster = {cluster, 1, 1};
  config.block_x = info_.threads;
  config.shared_bytes = info_.shared_bytes;
  config.stream = stream;
  config.attributes = attributes;
  config.attribute_count = cluster > 1 ? 2 : 1;
  void* parameters[] = {&map_a, &map_b, &map_d, &p};
  return check(d.launch(&config, function_, parameters, nullptr), "launching a kernel");
}

}  // namespace scalegemm::device::cuda
