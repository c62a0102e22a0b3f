// The Hopper ladder: proves kernels, then times them against cuBLASLt.
//
//   ladder verify                     exact, random, poison and repeat proofs of every kernel, edge shapes
//   ladder tune SCHEME SUITE OUT.csv  for each shape of the suite (name,m,n,k): every eligible kernel
//                                     quickly, then the best few and cuBLASLt interleaved at length; one row
//                                     a shape and peer. SCHEME: rowcol, rowcol-promoted, abquant, bf16, int8
//   ladder once SCHEME M N K [NAME]   one launch of each kernel whose name contains NAME (for a profiler)
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

#include "cublaslt_peer.h"
#include "device_data.cuh"
#include "instances.h"

#define CHECK(call)                                                                                        \
  do {                                                                                                     \
    const auto status = (call);                                                                            \
    if (status)                                                                                            \
      std::printf("%s:%d: %s -> %d\n", __FILE__, __LINE__, #call, static_cast<int>(status)), std::exit(2); \
  } while (0)

namespace ladder {

constexpr size_t kGuard = 4096;          // bytes of poison around every buffer
constexpr unsigned char kPoison = 0xff;  // NaN in every float type here

struct Buffer {
  unsigned char* base = nullptr;
  size_t bytes = 0;
  void allocate(size_t n) {
    bytes = (n + 255) / 256 * 256;
    CHECK(cudaMalloc(&base, bytes + 2 * kGuard));
    CHECK(cudaMemset(base, kPoison, bytes + 2 * kGuard));
  }
  unsigned char* data() const { return base + kGuard; }
  void release() {
    if (base)
      cudaFree(base);
    base = nullptr;
  }
};

struct Problem {
  unsigned m, n, k;
  unsigned pad = 0;  // extra bytes (multiple of 16) in each operand row, and elements in each row of D
};

std::string type_name(Type t) {
  const char* names[] = {"e4m3", "e5m2", "int8", "bf16", "f16", "f32"};
  return names[static_cast<int>(t)];
}
std::string name_of(const GemmConfig& c) {
  std::ostringstream s;
  const char* scales[] = {"none", "tensor", "row", "b1", "b128"};
  s << type_name(c.a) << (c.a == c.b ? "" : "x" + type_name(c.b)) << "_"
    << scales[static_cast<int>(c.scale_a)] << "_" << scales[static_cast<int>(c.scale_b)];
  if (c.d != Type::kBf16)
    s << "_" << type_name(c.d);
  s << "_" << (c.swap_ab ? "swap" : "") << c.tile_x << "x" << c.tile_y << "_st" << c.stages << "_w"
    << c.consumers;
  if (c.promote_k)
    s << "_p" << c.promote_k;
  if (c.cluster() > 1)
    s << "_c" << c.cluster_x << c.cluster_y;
  if (c.carried)
    s << "_carried";
  if (c.strided_scales)
    s << "_strided";
  if (c.pingpong)
    s << "_pp";
  if (c.split_k > 1)
    s << "_s" << c.split_k;
  return s.str();
}

// ---- operands ----
struct Operand {
  Buffer codes, scales;
  OperandView view{};
  size_t scale_count = 0;
  void allocate(Type type, Scale scale, unsigned rows, unsigned k, unsigned group_k, unsigned pad) {
    view.type = type, view.rows = rows, view.k = k;
    view.pitch = (k * bytes_of(type) + 15) / 16 * 16 + pad;
    const bool none = scale == Scale::kNone;
    view.group_rows = none ? 0 : scale == Scale::kTensor ? rows : scale == Scale::kBlock128 ? 128 : 1;
    view.group_k = is_block(scale) ? group_k : k;
    const unsigned blocks = none ? 0 : (k + view.group_k - 1) / view.group_k,
                   groups = none ? 0 : (rows + view.group_rows - 1) / view.group_rows;
    if (scale == Scale::kBlock1)
      view.stride_row = 1, view.stride_k = (rows + 3) / 4 * 4;
    else
      view.stride_row = is_block(scale) ? (blocks + 3) / 4 * 4 : 1, view.stride_k = 1;
    scale_count = scale == Scale::kBlock1 ? static_cast<size_t>(blocks) * view.stride_k
                                          : static_cast<size_t>(groups) * std::max(view.stride_row, 1u);
    codes.allocate(static_cast<size_t>(rows) * view.pitch);
    scales.allocate(scale_count * 4 + 4096);
    view.codes = codes.data(), view.scales = reinterpret_cast<float*>(scales.data());
  }
  void fill_random(unsigned seed) {
    if (view.group_rows == view.rows && view.group_k == view.k && view.rows > 1) {
      quantise_tensor<<<view.rows, 256>>>(view, seed);
    } else {
      const unsigned gr = view.group_rows ? view.group_rows : 1, gk = view.group_rows ? view.group_k : view.k;
      const unsigned groups = ((view.rows + gr - 1) / gr) * ((view.k + gk - 1) / gk);
      const unsigned threads = gr * gk < 1024 ? 64 : 256;
      quantise_normal<<<groups, threads>>>(view, seed);
    }
    CHECK(cudaGetLastError());
  }
  void fill_exact_values(unsigned seed) { fill_exact<<<view.rows, 256>>>(view, seed); }
  void release() { codes.release(), scales.release(); }
  SgTmaScale scale_view() const { return {view.scales, view.stride_row, view.stride_k}; }
  unsigned scale_blocks() const { return view.group_rows ? (view.k + view.group_k - 1) / view.group_k : 1; }
};

struct OperandSet {
  Operand a, b;
  Buffer d;
  size_t ldd = 0;
  void allocate(const GemmConfig& c, const Problem& p) {
    const unsigned gk = c.promote_k ? c.promote_k : 128;
    a.allocate(c.a, c.scale_a, p.m, p.k, gk, p.pad), b.allocate(c.b, c.scale_b, p.n, p.k, gk, p.pad);
    ldd = p.n + p.pad;
    d.allocate(p.m * ldd * bytes_of(c.d));
  }
  void release() { a.release(), b.release(), d.release(); }
  size_t bytes() const {
    return a.codes.bytes + b.codes.bytes + a.scale_count * 4 + b.scale_count * 4 + d.bytes;
  }
};

// ---- launching ----
using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                 const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                                 CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill);
EncodeTiled encode_tiled = nullptr;

TensorMap encode(const OperandView& o, unsigned box_rows) {
  TensorMap map;
  const unsigned element = bytes_of(o.type);
  const cuuint64_t dims[2] = {o.k, o.rows}, strides[1] = {o.pitch};
  const cuuint32_t box[2] = {kStepBytes / element, box_rows}, ones[2] = {1, 1};
  CHECK(encode_tiled(reinterpret_cast<CUtensorMap*>(&map),
                     element == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8, 2,
                     o.codes, dims, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                     CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

// D as the epilogue stores it: boxes of 64 columns x 16 rows. Left blank where TMA cannot address it (the
// kernel is told).
TensorMap encode_output(void* d, const Problem& p, size_t ldd, unsigned element) {
  TensorMap map{};
  if (element != 2 || ldd * element % 16)
    return map;
  const cuuint64_t dims[2] = {p.n, p.m}, strides[1] = {ldd * element};
  const cuuint32_t box[2] = {64, 16}, ones[2] = {1, 1};
  CHECK(encode_tiled(reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, d, dims,
                     strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                     CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

struct Launch {
  const Instance* instance;
  TensorMap map_a, map_b, map_d;
  SgTmaGemm params{};
  cudaLaunchConfig_t config{};
  unsigned cluster = 1;

  Launch(const Instance& i, const OperandSet& set, const Problem& p, unsigned raster, unsigned sms)
      : instance(&i) {
    const GemmConfig& c = i.config;
    const bool narrow = c.swap_ab || c.split_k > 1;  // scaled_gemm_splitk_sm90
    const unsigned box_a = c.swap_ab ? c.tile_y : c.tile_x / c.cluster_y,
                   box_b = c.swap_ab ? c.tile_x : c.tile_y / c.cluster_x;
    map_a = encode(set.a.view, box_a), map_b = encode(set.b.view, box_b),
    map_d = encode_output(set.d.data(), p, set.ldd, bytes_of(c.d));
    params.m = p.m, params.n = p.n, params.k = p.k, params.raster = raster;
    params.scale_blocks = std::max(set.a.scale_blocks(), set.b.scale_blocks());
    params.scale_a = set.a.scale_view(), params.scale_b = set.b.scale_view();
    params.d = {set.d.data(), set.ldd, p.m, p.n, set.ldd * bytes_of(c.d) % 16 == 0};
    params.epilogue.alpha = 1;
    if (narrow) {
      cluster = c.split_k;
      config.gridDim = dim3(ceil_div(c.swap_ab ? p.n : p.m, c.tile_x) * c.split_k,
                            ceil_div(c.swap_ab ? p.m : p.n, c.tile_y));
    } else {
      cluster = c.cluster();
      const unsigned units =
          ceil_div(ceil_div(p.m, c.tile_x), c.cluster_x) * ceil_div(ceil_div(p.n, c.tile_y), c.cluster_y);
      config.gridDim = dim3(std::min(units, sms / cluster) * cluster);
    }
    config.blockDim = dim3(i.threads), config.dynamicSmemBytes = i.shared_bytes;
  }
  cudaError_t operator()(cudaStream_t stream) const {
    cudaLaunchConfig_t launch = config;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {cluster, 1, 1};
    launch.attrs = &attribute, launch.numAttrs = cluster > 1, launch.stream = stream;
    void* arguments[] = {const_cast<TensorMap*>(&map_a), const_cast<TensorMap*>(&map_b),
                         const_cast<TensorMap*>(&map_d), const_cast<SgTmaGemm*>(&params)};
    return cudaLaunchKernelExC(&launch, instance->function, arguments);
  }
};

struct Device {
  unsigned sms = 0;
  char header[512];
  unsigned long long* counter = nullptr;
  float* ratios = nullptr;
  static constexpr unsigned kSamples = 2048;

  void open() {
    cudaDeviceProp p;
    CHECK(cudaGetDeviceProperties(&p, 0));
    sms = p.multiProcessorCount;
    int driver = 0, runtime = 0, clock = 0;
    cudaDriverGetVersion(&driver), cudaRuntimeGetVersion(&runtime),
        cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0);
    std::snprintf(
        header, sizeof header,
        "# device: %s, %u SMs, maximum SM clock %d MHz (not locked); CUDA driver API %d, runtime %d\n",
        p.name, sms, clock / 1000, driver, runtime);
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", reinterpret_cast<void**>(&encode_tiled),
                                           12000, cudaEnableDefault, &found));
    CHECK(cudaMalloc(&counter, 8));
    CHECK(cudaMalloc(&ratios, kSamples * 4));
  }
  unsigned long long count() {
    unsigned long long c;
    CHECK(cudaMemcpy(&c, counter, 8, cudaMemcpyDeviceToHost));
    return c;
  }
};

std::vector<Instance> all(std::initializer_list<std::vector<Instance> (*)()> tables) {
  std::vector<Instance> list;
  for (auto* table : tables)
    for (Instance& i : table())
      i.name = name_of(i.config), list.push_back(i);
  for (const Instance& i : list) {
    CHECK(cudaFuncSetAttribute(i.function, cudaFuncAttributeMaxDynamicSharedMemorySize, i.shared_bytes));
  }
  return list;
}

// ---- proofs ----
// What failed, or empty. Largest error / bound of the random test in *worst.
std::string prove(Device& device, const Instance& i, const Problem& p, bool full, float* worst) {
  const GemmConfig& c = i.config;
  OperandSet set;
  set.allocate(c, p);
  std::string failed;
  const size_t d_bytes = set.d.bytes + 2 * kGuard;
  const Launch launch(i, set, p, 8, device.sms);
  auto run = [&] {
    CHECK(cudaMemset(set.d.base, kPoison, d_bytes));
    CHECK(launch(nullptr));
    const cudaError_t e = cudaDeviceSynchronize();
    if (e != cudaSuccess)
      std::printf("%s %u %u %u: %s\n", i.name.c_str(), p.m, p.n, p.k, cudaGetErrorString(e)), std::exit(3);
  };
  if (full) {
    set.a.fill_exact_values(1), set.b.fill_exact_values(2);
    run();
    CHECK(cudaMemset(device.counter, 0, 8));
    judge_exact<<<(static_cast<size_t>(p.m) * p.n + 255) / 256, 256>>>(set.a.view, set.b.view, set.d.data(),
                                                                       set.ldd, c.d, device.counter);
    if (const auto wrong = device.count())
      failed += " exact:" + std::to_string(wrong);
    const size_t row = set.ldd * bytes_of(c.d), used = static_cast<size_t>(p.n) * bytes_of(c.d),
                 tail = p.m * row;
    judge_fill<<<(kGuard + 255) / 256, 256>>>(set.d.base, kGuard, kPoison, device.counter);
    judge_fill<<<(set.d.bytes - tail + kGuard + 255) / 256, 256>>>(
        set.d.data() + tail, set.d.bytes - tail + kGuard, kPoison, device.counter);
    judge_padding<<<p.m, 128>>>(set.d.data(), row, used, kPoison, device.counter);
    if (const auto touched = device.count(); touched && failed.empty())
      failed += " guard:" + std::to_string(touched);
  }
  set.a.fill_random(3), set.b.fill_random(4);
  run();
  judge_random<<<Device::kSamples, 32>>>(set.a.view, set.b.view, set.d.data(), set.ldd, c.d, c.promote_k,
                                         device.ratios);
  std::vector<float> ratios(Device::kSamples);
  CHECK(cudaMemcpy(ratios.data(), device.ratios, Device::kSamples * 4, cudaMemcpyDeviceToHost));
  unsigned outside = 0;
  *worst = 0;
  for (float r : ratios) {
    if (!(r <= 1))
      ++outside;
    *worst = r > *worst ? r : *worst;
  }
  if (outside)
    failed += " random:" + std::to_string(outside);
  if (full) {
    Buffer first;
    first.allocate(set.d.bytes);
    CHECK(cudaMemcpy(first.data(), set.d.data(), set.d.bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemset(device.counter, 0, 8));
    for (int r = 0; r < 20; ++r) {
      run();
      judge_same<<<(set.d.bytes / 4 + 255) / 256, 256>>>(reinterpret_cast<unsigned*>(first.data()),
                                                         reinterpret_cast<unsigned*>(set.d.data()),
                                                         set.d.bytes / 4, device.counter);
    }
    if (const auto moved = device.count())
      failed += " repeat:" + std::to_string(moved);
    first.release();
  }
  set.release();
  return failed;
}

int verify(Device& device) {
  const auto list = all({fast_instances, promoted_instances, promoted_row_instances, split_row_instances,
                         split_block_instances, other_instances});
  const Problem large[] = {{1, 8, 16},       {127, 255, 144, 16}, {129, 257, 1024, 16}, {257, 1031, 4099, 16},
                           {300, 520, 2048}, {700, 2112, 640}};
  const Problem few[] = {{1, 64, 128},         {7, 65, 144, 16}, {16, 127, 1040},
                         {33, 1031, 4099, 16}, {128, 520, 2048}, {200, 192, 640}};
  int bad = 0;
  for (const Instance& i : list) {
    std::string failed;
    float worst = 0;
    for (const Problem& p : i.config.swap_ab || i.config.split_k > 1 ? few : large) {
      Problem q = p;
      if (bytes_of(i.config.a) == 2)
        q.k = (q.k + 1) / 2;
      float w;
      const std::string f = prove(device, i, q, true, &w);
      if (!f.empty())
        failed +=
            " [" + std::to_string(q.m) + "," + std::to_string(q.n) + "," + std::to_string(q.k) + f + "]";
      worst = std::max(worst, w);
    }
    bad += !failed.empty();
    std::printf("%-60s worst error/bound %.3f %s%s\n", i.name.c_str(), worst,
                failed.empty() ? "ok" : "FAILED", failed.c_str());
    std::fflush(stdout);
  }
  std::printf("verify: %zu kernels, %d failed\n", list.size(), bad);
  return bad != 0;
}

// ---- timing ----
struct Timing {
  double median = 1e30, mad = 0;
};
Timing summarise(std::vector<float> us) {
  std::sort(us.begin(), us.end());
  Timing t;
  t.median = us[us.size() / 2];
  for (float& v : us)
    v = std::fabs(v - t.median);
  std::sort(us.begin(), us.end());
  t.mad = us[us.size() / 2];
  return t;
}

// Times several callables in turn, so that drift of clocks and power meets all alike. Each call gets the
// number of the operand set.
template <class F>
std::vector<Timing> interleave(const std::vector<F>& calls, unsigned sets, unsigned warm, unsigned repeats) {
  std::vector<cudaEvent_t> events(2 * calls.size() * repeats);
  for (auto& e : events)
    CHECK(cudaEventCreate(&e));
  unsigned turn = 0;
  for (unsigned r = 0; r < warm; ++r)
    for (const F& call : calls)
      call(turn++ % sets);
  for (unsigned r = 0; r < repeats; ++r)
    for (size_t c = 0; c < calls.size(); ++c) {
      cudaEvent_t* pair = &events[2 * (r * calls.size() + c)];
      CHECK(cudaEventRecord(pair[0]));
      calls[c](turn++ % sets);
      CHECK(cudaEventRecord(pair[1]));
    }
  CHECK(cudaDeviceSynchronize());
  std::vector<Timing> out;
  for (size_t c = 0; c < calls.size(); ++c) {
    std::vector<float> us;
    for (unsigned r = 0; r < repeats; ++r) {
      float ms = 0;
      cudaEvent_t* pair = &events[2 * (r * calls.size() + c)];
      CHECK(cudaEventElapsedTime(&ms, pair[0], pair[1]));
      us.push_back(ms * 1000);
    }
    out.push_back(summarise(us));
  }
  for (auto& e : events)
    cudaEventDestroy(e);
  return out;
}

// The measured cold-read time of n bytes on this device (one launch, event-timed), by linear interpolation.
double cold_read_us(double bytes) {
  static const double mb[] = {0, 2, 4, 8, 16, 33.5, 58.7, 117, 234, 470, 2000},
                      us[] = {3.5, 4.8, 5.6, 6.8, 9.1, 14.9, 20.4, 35.1, 63, 120, 468};
  const double x = bytes / 1e6;
  for (int i = 1; i < 11; ++i)
    if (x <= mb[i] || i == 10)
      return us[i - 1] + (x - mb[i - 1]) * (us[i] - us[i - 1]) / (mb[i] - mb[i - 1]);
  return 0;
}

struct Shape {
  std::string name;
  unsigned m, n, k;
};
std::vector<Shape> read_suite(const char* path) {
  std::vector<Shape> shapes;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    Shape s;
    char name[128];
    if (std::sscanf(line.c_str(), "%127[^,],%u,%u,%u", name, &s.m, &s.n, &s.k) == 4)
      s.name = name, shapes.push_back(s);
  }
  return shapes;
}

struct Scheme {
  const char* name;
  std::vector<PeerMode> peers;
  std::vector<std::vector<Instance> (*)()> tables;
  Type type;
  Scale scale_a, scale_b;
  double tflops;  // measured matrix rate with operands resident, random data
};
const char* peer_name(PeerMode m) {
  const char* names[] = {"cublaslt-tensor", "cublaslt-row", "cublaslt-block", "cublaslt-bf16",
                         "cublaslt-int8"};
  return names[static_cast<int>(m)];
}
std::vector<Scheme> schemes() {
  return {{"rowcol",
           {PeerMode::kRow, PeerMode::kTensor},
           {fast_instances, split_row_instances},
           Type::kE4m3,
           Scale::kRow,
           Scale::kRow,
           1780},
          {"abquant",
           {PeerMode::kBlock},
           {promoted_instances, split_block_instances},
           Type::kE4m3,
           Scale::kBlock1,
           Scale::kBlock128,
           1780},
          {"rowcol-promoted",
           {PeerMode::kRow},
           {promoted_row_instances},
           Type::kE4m3,
           Scale::kRow,
           Scale::kRow,
           1780},
          {"bf16", {PeerMode::kBf16}, {other_instances}, Type::kBf16, Scale::kNone, Scale::kNone, 850},
          {"int8", {PeerMode::kInt8}, {other_instances}, Type::kInt8, Scale::kRow, Scale::kRow, 1780}};
}
bool eligible(const Instance& i, const Scheme& s, const Shape& p) {
  const GemmConfig& c = i.config;
  if (c.a != s.type || c.b != s.type || c.scale_a != s.scale_a || c.scale_b != s.scale_b ||
      c.d != Type::kBf16)
    return false;
  if (!c.swap_ab && c.split_k > 1)
    return p.n <= 64;
  if (!c.swap_ab)
    return p.m > 64;
  if (p.m > 256)
    return false;
  const unsigned fit = p.m <= 8 ? 8 : p.m <= 16 ? 16 : p.m <= 32 ? 32 : p.m <= 48 ? 48 : p.m <= 64 ? 64 : 128;
  return c.tile_y == fit || (fit == 48 && c.tile_y == 64) || (fit == 128 && c.tile_y == 64);
}

int tune(Device& device, const Scheme& scheme, const std::vector<Shape>& shapes, const char* path) {
  std::vector<Instance> list;
  for (auto* table : scheme.tables)
    for (Instance& i : all({table}))
      list.push_back(i);
  std::FILE* out = std::fopen(path, "w");
  std::FILE* log = std::fopen((std::string(path) + ".all").c_str(), "w");
  std::fprintf(
      out,
      "%s# data: normal values through amax quantisers; cold L2 (operand sets rotate over 2x the cache); "
      "events around each launch, launch included;\n"
      "# ours and the peer interleaved in one process; median and MAD; verified: sampled float64 reference "
      "with a derived bound, same run\n"
      "# share_of_ceiling: max(2MNK / %.0f TFLOP/s, measured cold read of the bytes) / median\n"
      "name,m,n,k,scheme,kernel,median_us,mad_us,tflops,gbps,share_of_ceiling,peer,peer_us,ratio,verified\n",
      device.header, scheme.tflops);
  for (const Shape& s : shapes) {
    const Problem p{s.m, s.n, s.k};
    std::vector<const Instance*> candidates;
    for (const Instance& i : list)
      if (eligible(i, scheme, s))
        candidates.push_back(&i);
    if (candidates.empty())
      continue;
    std::vector<OperandSet> sets(1);
    sets[0].allocate(candidates[0]->config, p);
    const size_t count = std::min<size_t>(40, std::max<size_t>(2, 1 + 128000000 / sets[0].bytes()));
    sets.resize(count);
    for (size_t i = 0; i < count; ++i) {
      if (i)
        sets[i].allocate(candidates[0]->config, p);
      sets[i].a.fill_random(3 + 2 * i), sets[i].b.fill_random(4 + 2 * i);
    }
    CHECK(cudaDeviceSynchronize());
    const double flops = 2.0 * s.m * s.n * s.k, floor_us = flops / 1.8e9;
    const unsigned quick = floor_us > 1500  ? 5
                           : floor_us > 200 ? 9
                                            : 15,
                   repeats = floor_us > 1500 ? 30 : 100;
    using Call = std::function<void(unsigned)>;
    auto call_of = [&](const Instance& i, unsigned raster) -> Call {
      auto launches = std::make_shared<std::vector<Launch>>();
      for (const OperandSet& set : sets)
        launches->emplace_back(i, set, p, raster, device.sms);
      return [launches](unsigned set) { CHECK((*launches)[set](nullptr)); };
    };
    // A tournament in rounds, every round interleaved: candidates one after another would meet different
    // clocks as the chip warms.
    struct Entry {
      const Instance* instance;
      unsigned raster;
      double us;
    };
    auto round = [&](std::vector<Entry> entries, unsigned turns) {
      std::vector<Call> calls;
      for (const Entry& e : entries)
        calls.push_back(call_of(*e.instance, e.raster));
      const std::vector<Timing> t = interleave(calls, count, 2, turns);
      for (size_t i = 0; i < entries.size(); ++i) {
        entries[i].us = t[i].median;
        std::fprintf(log, "%s,%u,%u,%u,%s,%u,%.2f,%.2f\n", s.name.c_str(), s.m, s.n, s.k,
                     entries[i].instance->name.c_str(), entries[i].raster, t[i].median, t[i].mad);
      }
      std::sort(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) { return x.us < y.us; });
      return entries;
    };
    std::vector<Entry> ranking;
    for (const Instance* i : candidates)
      ranking.push_back({i, 8, 0});
    ranking = round(ranking, quick);
    ranking.resize(std::min<size_t>(8, ranking.size()));
    std::vector<Entry> second;
    for (const Entry& e : ranking) {
      second.push_back(e);
      if (!e.instance->config.swap_ab && e.instance->config.split_k == 1)
        for (unsigned raster : {4, 16, 32})
          second.push_back({e.instance, raster, 0});
    }
    ranking = round(second, quick);
    std::fflush(log);

    std::vector<Call> calls;
    std::vector<std::string> verified;
    const size_t finalists = std::min<size_t>(3, ranking.size());
    for (size_t f = 0; f < finalists; ++f) {
      float worst;
      const std::string failed = prove(device, *ranking[f].instance, p, false, &worst);
      verified.push_back(failed.empty() ? "yes" : "NO:" + failed);
      calls.push_back(call_of(*ranking[f].instance, ranking[f].raster));
    }
    std::vector<Peer> peers(scheme.peers.size());
    std::vector<int> best(peers.size(), 0);
    std::vector<bool> usable(peers.size(), false);
    Buffer wide;
    if (scheme.type == Type::kInt8)
      wide.allocate(static_cast<size_t>(s.m) * s.n * 4);
    auto buffers = [&](unsigned i) -> PeerBuffers {
      return {sets[i].a.view.codes, sets[i].b.view.codes, wide.base ? wide.data() : sets[i].d.data(),
              sets[i].a.view.scales, sets[i].b.view.scales};
    };
    for (size_t q = 0; q < peers.size(); ++q) {
      Peer& peer = peers[q];
      const int found = peer.prepare(scheme.peers[q], s.m, s.n, s.k, buffers(0), 8);
      double best_us = 1e30;
      for (int c = 0; c < found; ++c) {
        if (!peer.run(c, buffers(0)) || cudaDeviceSynchronize() != cudaSuccess)
          continue;
        const Timing t =
            interleave<Call>({[&, c](unsigned i) { peer.run(c, buffers(i)); }}, count, 2, quick)[0];
        if (t.median < best_us)
          best_us = t.median, best[q] = c, usable[q] = true;
      }
      if (usable[q])
        calls.push_back([&, q](unsigned i) { peers[q].run(best[q], buffers(i)); });
    }
    const std::vector<Timing> t = interleave(calls, count, floor_us > 1500 ? 5 : 50, repeats);
    size_t winner = 0;
    for (size_t f = 1; f < finalists; ++f)
      if (t[f].median < t[winner].median)
        winner = f;
    const double us = t[winner].median, bytes = static_cast<double>(s.m) * s.k * bytes_of(scheme.type) +
                                                static_cast<double>(s.n) * s.k * bytes_of(scheme.type) +
                                                2.0 * s.m * s.n +
                                                4.0 * (sets[0].a.scale_count + sets[0].b.scale_count);
    const double ceiling = std::max(flops / scheme.tflops / 1e6, cold_read_us(bytes));
    size_t at = finalists;
    for (size_t q = 0; q < peers.size(); ++q) {
      const double peer_us = usable[q] ? t[at++].median : NAN;
      std::fprintf(out, "%s,%u,%u,%u,%s,%s_r%u,%.2f,%.2f,%.1f,%.0f,%.3f,%s,%.2f,%.3f,%s\n", s.name.c_str(),
                   s.m, s.n, s.k, scheme.name, ranking[winner].instance->name.c_str(), ranking[winner].raster,
                   us, t[winner].mad, flops / us / 1e6, bytes / us / 1e3, ceiling / us,
                   peer_name(scheme.peers[q]), peer_us, peer_us / us, verified[winner].c_str());
      std::printf(
          "%-22s %5u %5u %5u %-52s r%-2u %8.1f us %5.0f TF %5.0f GB/s share %.2f %s %8.1f ratio %.3f %s\n",
          s.name.c_str(), s.m, s.n, s.k, ranking[winner].instance->name.c_str(), ranking[winner].raster, us,
          flops / us / 1e6, bytes / us / 1e3, ceiling / us, peer_name(scheme.peers[q]), peer_us, peer_us / us,
          verified[winner].c_str());
    }
    std::fflush(out), std::fflush(stdout);
    wide.release();
    for (auto& set : sets)
      set.release();
  }
  std::fclose(out), std::fclose(log);
  return 0;
}

int once(Device& device, const Scheme& scheme, const Problem& p, const char* part) {
  for (auto* table : scheme.tables)
    for (const Instance& i : all({table})) {
      if (i.name.find(part) == std::string::npos || i.config.a != scheme.type)
        continue;
      OperandSet set;
      set.allocate(i.config, p);
      set.a.fill_random(3), set.b.fill_random(4);
      const Launch launch(i, set, p, 8, device.sms);
      CHECK(cudaDeviceSynchronize());
      CHECK(launch(nullptr));
      CHECK(cudaDeviceSynchronize());
      std::printf("%s\n", i.name.c_str());
      set.release();
    }
  if (!std::strcmp(part, "peer")) {
    const Instance i = all({scheme.tables[0]})[0];
    OperandSet set;
    set.allocate(i.config, p);
    set.a.fill_random(3), set.b.fill_random(4);
    for (PeerMode mode : scheme.peers) {
      Peer peer;
      const PeerBuffers buffers = {set.a.view.codes, set.b.view.codes, set.d.data(), set.a.view.scales,
                                   set.b.view.scales};
      if (peer.prepare(mode, p.m, p.n, p.k, buffers, 4))
        peer.run(0, buffers);
      CHECK(cudaDeviceSynchronize());
    }
  }
  return 0;
}

}  // namespace ladder

int main(int argc, char** argv) {
  using namespace ladder;
  const std::string verb = argc > 1 ? argv[1] : "";
  Device device;
  device.open();
  if (verb == "verify")
    return verify(device);
  if (argc > 3)
    for (const Scheme& s : schemes()) {
      if (std::strcmp(s.name, argv[2]))
        continue;
      if (verb == "tune" && argc > 4)
        return tune(device, s, read_suite(argv[3]), argv[4]);
      if (verb == "once" && argc > 5)
        return once(device, s,
                    {static_cast<unsigned>(std::atoi(argv[3])), static_cast<unsigned>(std::atoi(argv[4])),
                     static_cast<unsigned>(std::atoi(argv[5]))},
                    argc > 6 ? argv[6] : "");
    }
  std::printf("usage: ladder verify | tune SCHEME SUITE OUT.csv | once SCHEME M N K [NAME]\n");
  return 1;
}
