#include "harness/instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "num/convert.h"
#include "spec/kernel_spec.h"

namespace scalegemm::harness {
namespace {

constexpr int64_t kRoom = 3;  // storage elements between rows of a padded matrix: no multiple of any tile
constexpr size_t kWorkspaceAlign = 64;

size_t element_bytes(int32_t dtype) {
  return std::max<size_t>(1, static_cast<size_t>(num::info(dtype_of(dtype)).bits) / 8);
}

int64_t stored(int32_t dtype, int64_t cols) {
  return num::is_packed4(dtype_of(dtype)) ? cols / 2 : cols;
}

// Calls visit(byte offset in a contiguous row-major copy, storage element offset in `t`) for each storage
// element of the tensor; zero points hold one code a byte whatever their type, so `cols` is given.
template <class Visit>
void for_each(const scalegemm_tensor& t, int64_t cols, const Visit& visit) {
  int64_t index = 0;
  for (int64_t b = 0; b < t.shape[0]; ++b) {
    for (int64_t r = 0; r < t.shape[1]; ++r) {
      for (int64_t c = 0; c < cols; ++c, ++index) {
        visit(index, b * t.stride[0] + r * t.stride[1] + c * t.stride[2]);
      }
    }
  }
}

uint64_t checksum(const Buffer& buffer) {
  uint64_t sum = 0xcbf29ce484222325u;  // FNV-1a over 8-byte words; only changes matter, not quality
  const uint8_t* data = buffer.data();
  for (size_t i = 0; i < buffer.bytes(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, data + i, std::min(sizeof(word), buffer.bytes() - i));
    sum = (sum ^ word) * 0x100000001b3u;
  }
  return sum;
}

// Small integers times `unit`, in a type that holds them exactly; or normal values.
std::vector<uint8_t> vector_values(const Case& c, int32_t dtype, int64_t count, double unit) {
  Random random(c.seed * 7 + static_cast<uint64_t>(count));
  const size_t element = element_bytes(dtype);
  std::vector<uint8_t> values(static_cast<size_t>(count) * element);
  for (int64_t i = 0; i < count; ++i) {
    const double value =
        c.fill == Fill::kExact ? static_cast<double>(random.below(17) - 8) * unit : random.normal();
    const uint32_t code = num::encode(dtype_of(dtype), value, num::Overflow::kSaturate);
    std::memcpy(values.data() + static_cast<size_t>(i) * element, &code, element);
  }
  return values;
}

scalegemm_plan_options plan_options(const PlanChoice& choice) {
  auto options = make<scalegemm_plan_options>();
  options.threads = choice.threads;
  options.kernel = choice.kernel.empty() ? nullptr : choice.kernel.c_str();
  options.device = choice.device.c_str();
  return options;
}

scalegemm_tensor contiguous(int32_t dtype, int64_t batch, int64_t rows, int64_t cols) {
  scalegemm_tensor t = scalegemm_matrix(nullptr, dtype, rows, cols);
  t.shape[0] = batch;
  return t;
}

// Storage elements between the rows of a matrix of `cols` of them.
int64_t row_stride(const Case& c, int32_t dtype, int64_t cols) {
  const auto line = static_cast<int64_t>(16 / element_bytes(dtype));
  switch (c.strides) {
    case Strides::kPadded:
      return cols + kRoom;
    case Strides::kLines:
      return (cols + line - 1) / line * line + line;
    case Strides::kAligned:
      return (cols + line - 1) / line * line;
    default:
      return cols;
  }
}

// The scale grid of an operand with the strides that the case asks for.
scalegemm_tensor scale_shape(const Case& c, OperandData& operand) {
  scalegemm_tensor t = operand.scales_tensor();
  if (operand.scales.empty() || c.scale_order == ScaleOrder::kDense) {
    return t;
  }
  const auto padded = [](int64_t extent) { return (extent + 3) / 4 * 4; };
  const bool along_rows = operand.desc.scale.block_rows == 1 && operand.desc.scale.dtype != SCALEGEMM_E8M0;
  t.stride[1] = along_rows ? 1 : padded(operand.grid_k);
  t.stride[2] = along_rows ? padded(operand.grid_rows) : 1;
  t.stride[0] = along_rows ? t.stride[2] * operand.grid_k : t.stride[1] * operand.grid_rows;
  return t;
}

}  // namespace

Plan make_plan(const Runtime& runtime, const scalegemm_problem& problem, const PlanChoice& choice) {
  const auto options = plan_options(choice);
  return {runtime, problem, &options};
}

CaseData make_case_data(const Case& c) {
  CaseData data;
  data.c = c;
  data.problem = problem_of(c);
  data.a = make_operand(c, data.problem, Side::kA);
  data.b = make_operand(c, data.problem, Side::kB);
  data.alpha = c.epilogue.alpha;
  data.beta = c.epilogue.beta;
  double unit = 1;
  if (c.fill == Fill::kExact) {
    const ExactUnits units = exact_units(c, data.problem);
    data.alpha = units.alpha;
    data.beta = c.epilogue.c_dtype == SCALEGEMM_DTYPE_NONE ? 0.0f : 2.0f;
    unit = units.sum * static_cast<double>(units.alpha);
  }
  if (c.epilogue.c_dtype != SCALEGEMM_DTYPE_NONE) {
    data.c_values = vector_values(c, c.epilogue.c_dtype, c.batch * c.m * c.n, unit);
  }
  if (c.epilogue.bias_dtype != SCALEGEMM_DTYPE_NONE) {
    data.bias = vector_values(c, c.epilogue.bias_dtype, c.n, unit);
  }
  return data;
}

Instance::Instance(const Runtime& runtime, std::shared_ptr<CaseData> data, const PlanChoice& choice,
                   uint8_t poison)
    : data_(std::move(data)),
      poison_(poison),
      plan_(make_plan(runtime, data_->problem, choice)),
      gpu_(open_gpu(choice.device)) {
  CaseData& in = *data_;
  const scalegemm_problem& p = in.problem;
  args_.a = place_operand("A", in.a);
  args_.scale_a = place("scale of A", in.a.scales, scale_shape(in.c, in.a), Padding::kReadable);
  args_.zero_a = place("zero of A", in.a.zeros, in.a.zeros_tensor());
  args_.global_a = place_global("global of A", in.a.global);
  const size_t before_b = inputs_.size();
  auto pack = make<scalegemm_pack_args>();
  pack.b = place_operand("B", in.b);
  pack.scale_b = place("scale of B", in.b.scales, scale_shape(in.c, in.b), Padding::kReadable);
  pack.zero_b = place("zero of B", in.b.zeros, in.b.zeros_tensor());
  if (p.b_packing == SCALEGEMM_RAW) {
    args_.b = pack.b;
    args_.scale_b = pack.scale_b;
    args_.zero_b = pack.zero_b;
    args_.global_b = place_global("global of B", in.b.global);
  } else {
    pack.global_b = in.b.global ? &*in.b.global : nullptr;
    const auto options = plan_options(choice);
    packed_ = Packed(runtime, p, pack, &options);
    args_.packed_b = packed_.get();
    drop_inputs(before_b);
  }
  if (!in.c_values.empty()) {
    args_.c = place("C", in.c_values, contiguous(p.c_dtype, p.batch, p.m, p.n));
  }
  if (!in.bias.empty()) {
    args_.bias = place("bias", in.bias, contiguous(p.bias_dtype, 1, 1, p.n));
  }
  args_.alpha = in.alpha;
  args_.beta = in.beta;
  args_.d = contiguous(p.d_dtype, p.batch, p.m, p.n);
  args_.d.stride[1] = row_stride(in.c, p.d_dtype, p.n);
  args_.d.stride[0] = args_.d.stride[1] * p.m + (in.c.strides == Strides::kPadded ? kRoom : 0);
  const int64_t extent = (p.batch - 1) * args_.d.stride[0] + (p.m - 1) * args_.d.stride[1] + p.n;
  const size_t element = element_bytes(p.d_dtype);
  d_ = Buffer("D", static_cast<size_t>(extent) * element, element, in.c.place, poison_);
  args_.d.data = device_view(d_, &d_mirror_);
  args_.d.bytes = d_.bytes();
  workspace_ =
      Buffer("workspace", (plan_.workspace_bytes() + kWorkspaceAlign - 1) / kWorkspaceAlign * kWorkspaceAlign,
             kWorkspaceAlign, Place::kAligned, poison_);
  args_.workspace = device_view(workspace_, &workspace_mirror_);
  args_.workspace_bytes = workspace_.bytes();
}

// Copies contiguous row-major elements into a guarded buffer with the shape and strides of `shape`.
scalegemm_tensor Instance::place(const std::string& name, const std::vector<uint8_t>& source,
                                 const scalegemm_tensor& shape, Padding padding) {
  if (source.empty()) {
    return {};
  }
  scalegemm_tensor t = shape;
  const size_t element = element_bytes(t.dtype);
  const int64_t cols = static_cast<int64_t>(source.size() / element) / (t.shape[0] * t.shape[1]);
  int64_t last = 0;
  for_each(t, cols, [&last](int64_t, int64_t offset) { last = std::max(last, offset); });
  if (padding == Padding::kReadable) {
    last = std::max(last, t.shape[0] * t.stride[0] - 1);
  }
  Buffer buffer(name, static_cast<size_t>(last + 1) * element, element, data_->c.place, poison_);
  for_each(t, cols, [&](int64_t index, int64_t offset) {
    std::memcpy(buffer.data() + static_cast<size_t>(offset) * element,
                source.data() + static_cast<size_t>(index) * element, element);
  });
  Mirror mirror;
  t.data = device_view(buffer, &mirror);
  t.bytes = buffer.bytes();
  input_mirrors_.push_back(std::move(mirror));
  input_sums_.push_back(checksum(buffer));
  inputs_.push_back(std::move(buffer));
  return t;
}

scalegemm_tensor Instance::place_operand(const std::string& name, OperandData& operand) {
  scalegemm_tensor t = operand.codes_tensor();
  const int64_t cols = stored(operand.desc.dtype, operand.k);
  // K is contiguous in a row-major A and in a column-major B.
  const bool k_contiguous = (name == "A") == (operand.desc.layout == SCALEGEMM_ROW);
  t.stride[1] = k_contiguous ? row_stride(data_->c, operand.desc.dtype, cols) : 1;
  t.stride[2] = k_contiguous ? 1 : row_stride(data_->c, operand.desc.dtype, operand.rows);
  t.stride[0] = k_contiguous ? t.stride[1] * operand.rows : t.stride[2] * cols;
  t.stride[0] += data_->c.strides == Strides::kPadded ? kRoom : 0;
  return place(name, operand.codes, t);
}

// A GPU reads the global factor from its own memory.
const float* Instance::place_global(const std::string& name, std::optional<float>& value) {
  if (!value || gpu_ == nullptr) {
    return value ? &*value : nullptr;
  }
  std::vector<uint8_t> bytes(sizeof(float));
  std::memcpy(bytes.data(), &*value, sizeof(float));
  return static_cast<const float*>(place(name, bytes, scalegemm_matrix(nullptr, SCALEGEMM_F32, 1, 1)).data);
}

uint8_t* Instance::device_view(const Buffer& buffer, Mirror* mirror) {
  if (gpu_ == nullptr) {
    return buffer.data();
  }
  *mirror = Mirror(gpu_, buffer);
  return mirror->data();
}

// Everything that a kernel may have touched, once after each run.
void Instance::download() {
  if (gpu_ == nullptr || downloaded_) {
    return;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    input_mirrors_[i].download(inputs_[i]);
  }
  d_mirror_.download(d_);
  workspace_mirror_.download(workspace_);
  downloaded_ = true;
}

Accumulation Instance::accumulation() const {
  // The tensor cores of sm_90 align the addends of an instruction to the largest; fp8 is cut to 13 fractional
  // bits there: 33 addends an instruction of 32 products (docs/numerics.md).
  const auto spec = spec::parse(plan_.kernel());
  if (!spec.ok() || !spec::is_cuda(spec->target)) {
    return {};
  }
  const bool wgmma = spec->pipeline != spec::Pipeline::kMma;
  const bool fp8 = spec->a && (*spec->a == num::DType::kE4m3 || *spec->a == num::DType::kE5m2);
  return {.unit_roundoff = wgmma && fp8 ? 33.0 / 32.0 * 0x1p-13 : 0x1p-24, .aligns_by_exponent = true};
}

// Packed weights hold a copy: the raw ones are checked and given back.
void Instance::drop_inputs(size_t first) {
  pack_problem_ = check_inputs(first);
  inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(first), inputs_.end());
  input_mirrors_.resize(first);
  input_sums_.resize(first);
}

void Instance::clear_output() {
  std::memset(d_.data(), poison_, d_.bytes());
  if (gpu_ != nullptr) {
    d_mirror_.upload(d_);
    downloaded_ = false;
  }
}

void Instance::run() {
  clear_output();
  run_again();
}

void Instance::run_again(void* stream) {
  args_.stream = stream;
  plan_.run(args_);
  downloaded_ = false;
}

std::vector<uint8_t> Instance::output() {
  download();
  const scalegemm_tensor& t = args_.d;
  const size_t element = element_bytes(t.dtype);
  std::vector<uint8_t> values(static_cast<size_t>(t.shape[0] * t.shape[1] * t.shape[2]) * element);
  for_each(t, t.shape[2], [&](int64_t index, int64_t offset) {
    std::memcpy(values.data() + static_cast<size_t>(index) * element,
                d_.data() + static_cast<size_t>(offset) * element, element);
  });
  return values;
}

std::string Instance::check_inputs(size_t first) const {
  for (size_t i = first; i < inputs_.size(); ++i) {
    if (std::string wrong = inputs_[i].check(); !wrong.empty()) {
      return wrong;
    }
    if (checksum(inputs_[i]) != input_sums_[i]) {
      return inputs_[i].name() + ": an input was written";
    }
  }
  return "";
}

std::string Instance::check_memory() {
  download();
  if (!pack_problem_.empty()) {
    return "pack: " + pack_problem_;
  }
  if (std::string wrong = check_inputs(0); !wrong.empty()) {
    return wrong;
  }
  for (const Buffer* buffer : {&d_, &workspace_}) {
    if (std::string wrong = buffer->check(); !wrong.empty()) {
      return wrong;
    }
  }
  const scalegemm_tensor& t = args_.d;
  const size_t element = element_bytes(t.dtype);
  std::vector<bool> written(d_.bytes(), false);
  for_each(t, t.shape[2], [&](int64_t, int64_t offset) {
    std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(offset) * element), element,
                true);
  });
  for (size_t i = 0; i < written.size(); ++i) {
    if (!written[i] && d_.data()[i] != poison_) {
      return fmt::format("D: byte {} between its rows was written", i);
    }
  }
  return "";
}

uint64_t Instance::traffic_bytes() const {
  const CaseData& in = *data_;
  const uint64_t b = packed_ ? packed_.info().bytes : in.b.bytes();
  const auto d = static_cast<uint64_t>(in.c.batch * in.c.m * in.c.n) * element_bytes(in.problem.d_dtype);
  return in.a.bytes() + b + in.c_values.size() + in.bias.size() + d;
}

}  // namespace scalegemm::harness
