#include "harness/quantize_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "harness/data.h"
#include "harness/quantize_case.h"
#include "num/bulk.h"

namespace scalegemm::harness {
namespace {

constexpr int64_t kUniqueRows = 512;  // drawn, the others repeat them
constexpr size_t kMostCopies = 64;
constexpr int64_t kRowAlign = 16;  // bytes

void require(const Status& status) {
  if (!status.ok()) {
    throw Error(static_cast<scalegemm_status>(status.code()), status.message());
  }
}

class DeviceMemory {
 public:
  DeviceMemory(Gpu gpu, uint64_t bytes) : gpu_(std::move(gpu)), bytes_(bytes) {
    auto address = gpu_->allocate(bytes);
    require(address.status());
    address_ = *address;
    require(gpu_->fill(data(), 0, bytes));
  }
  ~DeviceMemory() {
    if (address_ != 0) {
      (void)gpu_->release(address_);
    }
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : gpu_(std::move(other.gpu_)), address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  uint8_t* data() const { return reinterpret_cast<uint8_t*>(address_); }
  device::cuda::Address address() const { return address_; }
  void upload(const std::vector<uint8_t>& from) const { require(gpu_->copy(data(), from.data(), bytes_)); }
  std::vector<uint8_t> download() const {
    std::vector<uint8_t> to(bytes_);
    require(gpu_->copy(to.data(), data(), bytes_));
    return to;
  }

 private:
  Gpu gpu_;
  device::cuda::Address address_ = 0;
  uint64_t bytes_;
};

// A matrix with rows at multiples of 16 bytes; no memory yet.
scalegemm_tensor aligned_rows(int32_t dtype, int64_t rows, int64_t k) {
  scalegemm_tensor t = scalegemm_matrix(nullptr, dtype, rows, k);
  const int64_t element = std::max(1, scalegemm_dtype_bits(dtype) / 8);
  const int64_t line = kRowAlign / element;
  t.stride[1] = (t.stride[1] + line - 1) / line * line;
  t.bytes = static_cast<uint64_t>(rows * t.stride[1] * element);
  return t;
}

// As TMA kernels like scales: lines of a multiple of 4.
scalegemm_tensor scale_lines(const OperandData& unique, int64_t rows) {
  const int32_t dtype = unique.desc.scale.dtype;
  scalegemm_tensor t = scalegemm_matrix(nullptr, dtype, rows, unique.grid_k);
  const auto padded = [](int64_t extent) { return (extent + 3) / 4 * 4; };
  const bool along_rows = dtype != SCALEGEMM_E8M0;
  t.stride[1] = along_rows ? 1 : padded(unique.grid_k);
  t.stride[2] = along_rows ? padded(rows) : 1;
  const int64_t extent = along_rows ? padded(rows) * unique.grid_k : rows * padded(unique.grid_k);
  t.bytes = static_cast<uint64_t>(extent * (scalegemm_dtype_bits(dtype) / 8));
  return t;
}

uint64_t dense_bytes(const scalegemm_tensor& t) {
  return scalegemm_matrix(nullptr, t.dtype, t.shape[1], t.shape[2]).bytes;
}

// One set of the memory of a run, and of a copy that moves as many bytes.
struct Set {
  DeviceMemory source, codes, scales, copied_from, copied_to;
  scalegemm_quantizer_args args = make<scalegemm_quantizer_args>();
};

struct Expected {
  std::vector<uint8_t> source;  // all rows, padded
  OperandData unique;           // of the rows that were drawn
  int64_t unique_rows = 0;
};

Expected make_expected(const Case& c, const scalegemm_operand_desc& operand, const scalegemm_tensor& src) {
  Expected e;
  e.unique_rows = std::min(c.m, kUniqueRows);
  const num::DType type = dtype_of(src.dtype);
  std::vector<float> values = normal_values(Fill::kRandom, Side::kA, e.unique_rows, c.k, c.seed + 1);
  std::vector<uint8_t> rows(static_cast<size_t>(num::bytes_of(type, e.unique_rows * c.k)));
  auto* const codes = reinterpret_cast<std::byte*>(rows.data());
  num::encode_array(type, values, num::Overflow::kIeee, codes);
  num::decode_array(type, codes, values);
  e.unique = quantize(operand, values.data(), e.unique_rows, c.k);
  e.source.resize(src.bytes);
  const auto row_bytes = static_cast<size_t>(num::bytes_of(type, c.k));
  for (int64_t r = 0; r < c.m; ++r) {
    std::memcpy(e.source.data() + static_cast<size_t>(num::bytes_of(type, r * src.stride[1])),
                rows.data() + static_cast<size_t>(r % e.unique_rows) * row_bytes, row_bytes);
  }
  return e;
}

// The first wrong row; empty when there is none.
std::string wrong(const Set& set, const Expected& e) {
  const std::vector<uint8_t> codes = set.codes.download();
  const std::vector<uint8_t> scales = set.scales.download();
  const scalegemm_tensor& t = set.args.scales;
  const auto code_bytes = static_cast<int64_t>(e.unique.codes.size()) / e.unique_rows;
  const int64_t scale_bytes = scalegemm_dtype_bits(t.dtype) / 8;
  for (int64_t r = 0; r < t.shape[1]; ++r) {
    const int64_t from = r % e.unique_rows;
    if (std::memcmp(codes.data() + r * set.args.codes.stride[1], e.unique.codes.data() + from * code_bytes,
                    static_cast<size_t>(code_bytes)) != 0) {
      return fmt::format("the codes of row {} differ from scalegemm_quantize", r);
    }
    for (int64_t j = 0; j < t.shape[2]; ++j) {
      if (std::memcmp(scales.data() + (r * t.stride[1] + j * t.stride[2]) * scale_bytes,
                      e.unique.scales.data() + (from * t.shape[2] + j) * scale_bytes,
                      static_cast<size_t>(scale_bytes)) != 0) {
        return fmt::format("scale {} of row {} differs from scalegemm_quantize", j, r);
      }
    }
  }
  return "";
}

}  // namespace

QuantizeBenchResult bench_quantizer(const Runtime& runtime, const Case& c, int32_t source_dtype,
                                    const GpuBenchOptions& options) {
  QuantizeBenchResult result;
  result.c = c;
  result.source_dtype = source_dtype;
  try {
    const scalegemm_operand_desc operand = problem_of(c).a;
    const Quantizer quantizer =
        make_quantizer(runtime, operand, source_dtype, SCALEGEMM_SCALE_FLOOR, options.choice.device);
    const Gpu gpu = open_gpu(options.choice.device);
    auto args = make<scalegemm_quantizer_args>();
    args.src = aligned_rows(source_dtype, c.m, c.k);
    args.codes = aligned_rows(operand.dtype, c.m, c.k);
    const Expected expected = make_expected(c, operand, args.src);
    args.scales = scale_lines(expected.unique, c.m);
    const uint64_t moved = dense_bytes(args.src) + dense_bytes(args.codes) + dense_bytes(args.scales);
    const uint64_t half = (moved + 1) / 2;  // a copy reads and writes every byte
    const auto copies = static_cast<size_t>(2 * gpu->properties().l2_bytes / moved) + 2;
    std::vector<Set> sets;
    while (sets.size() < std::min(copies, kMostCopies)) {
      sets.push_back({{gpu, args.src.bytes},
                      {gpu, args.codes.bytes},
                      {gpu, args.scales.bytes},
                      {gpu, half},
                      {gpu, half},
                      args});
      Set& set = sets.back();
      set.source.upload(expected.source);
      set.args.src.data = set.source.data();
      set.args.codes.data = set.codes.data();
      set.args.scales.data = set.scales.data();
    }
    quantizer.run(sets.front().args);
    result.problem = wrong(sets.front(), expected);
    if (!result.problem.empty()) {
      return result;
    }
    size_t next_run = 0;
    size_t next_copy = 0;
    const std::vector<Candidate> calls = {
        [&] { quantizer.run(sets[next_run++ % sets.size()].args); },
        [&] {
          const Set& set = sets[next_copy++ % sets.size()];
          require(device::cuda::check(
              gpu->driver().copy_async(set.copied_to.address(), set.copied_from.address(), half, nullptr),
              "copying"));
        }};
    const std::vector<Timing> timings = time_on_gpu(gpu, calls, options.timing);
    result.timing = timings[0];
    result.copy = timings[1];
    result.bytes = static_cast<double>(moved);
    result.verified = true;
  } catch (const Error& error) {
    result.problem = error.what();
  }
  return result;
}

}  // namespace scalegemm::harness
