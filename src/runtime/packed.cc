#include "runtime/packed.h"

#include <array>
#include <cstring>

#include "base/files.h"
#include "base/hash.h"

namespace scalegemm::runtime {
namespace {

constexpr uint64_t kMaxPackedFile = uint64_t{1} << 40;

layout::GridView grid_view(const Tensor& tensor) {
  const int64_t batch = tensor.shape[0] == 1 ? 0 : tensor.stride[0];
  return {
      .data = tensor.data, .stride_r = tensor.stride[1], .stride_k = tensor.stride[2], .stride_batch = batch};
}

layout::PackedShape packed_shape(const spec::Problem& problem, const WeightTensors& weights) {
  layout::PackedShape shape;
  shape.layout = static_cast<SgPanelLayout>(problem.b_packing);
  shape.type = problem.b.type;
  shape.n = problem.n;
  shape.k = problem.k;
  shape.batch = problem.batch;
  shape.scale = problem.b.scale;
  shape.global_scale = weights.global != nullptr ? *weights.global : 1.0f;
  return shape;
}

Status check_grid(const Tensor& tensor, std::string_view name, DType type, const spec::Problem& problem) {
  const spec::Grid grid = spec::scale_grid(*problem.b.scale, problem.n, problem.k);
  return check_tensor(tensor, {.name = name,
                               .type = type,
                               .batch = problem.batch,
                               .rows = grid.rows,
                               .cols = grid.cols,
                               .one_code_a_byte = true});
}

// The memory of an unpack output: contiguous, of exactly that many bytes.
Result<std::span<std::byte>> output_span(const Tensor& tensor, std::string_view name, DType type,
                                         std::array<int64_t, 3> shape) {
  if (!tensor.present()) {
    return std::span<std::byte>();
  }
  const bool packed4 = num::is_packed4(type) && name == "b";
  const int64_t row = packed4 ? shape[2] / 2 : shape[2];
  SCALEGEMM_RETURN_IF_ERROR(check_output(tensor, {.name = name,
                                                  .type = type,
                                                  .batch = shape[0],
                                                  .rows = shape[1],
                                                  .cols = shape[2],
                                                  .one_code_a_byte = !packed4,
                                                  .unit_dim = 2}));
  const std::array<int64_t, 3> want = {shape[1] * row, row, 1};
  for (size_t dim = 0; dim < 2; ++dim) {
    if (shape[dim] > 1 && tensor.stride[dim] != want[dim]) {
      return invalid_argument("{}: unpack writes contiguous rows, so stride[{}] must be {}, got {}", name,
                              dim, want[dim], tensor.stride[dim]);
    }
  }
  const int64_t elements = shape[0] * shape[1] * row;
  const int64_t bytes = packed4 || num::is_packed4(type) ? elements : num::bytes_of(type, elements);
  return std::span<std::byte>(static_cast<std::byte*>(tensor.data), static_cast<size_t>(bytes));
}

}  // namespace

Status check_weights(const spec::Problem& problem, const WeightTensors& weights) {
  SCALEGEMM_RETURN_IF_ERROR(
      check_tensor(weights.b, {.name = "b",
                               .type = problem.b.type,
                               .batch = problem.batch,
                               .rows = problem.n,
                               .cols = problem.k,
                               .unit_dim = problem.b.layout == spec::Layout::kCol ? 2 : 1}));
  const auto& scale = problem.b.scale;
  if (scale) {
    SCALEGEMM_RETURN_IF_ERROR(check_grid(weights.scale, "scale_b", scale->type, problem));
  } else {
    SCALEGEMM_RETURN_IF_ERROR(check_absent(weights.scale, "scale_b", "B of this problem has no scales"));
  }
  if (scale && scale->zero_type) {
    SCALEGEMM_RETURN_IF_ERROR(check_grid(weights.zero, "zero_b", *scale->zero_type, problem));
  } else {
    SCALEGEMM_RETURN_IF_ERROR(check_absent(weights.zero, "zero_b", "B of this problem has no zero points"));
  }
  const bool needs_global = scale && scale->global;
  if (needs_global != (weights.global != nullptr)) {
    return invalid_argument("global_b: must {}, because B of this problem has {} global factor",
                            needs_global ? "point at one f32" : "be null", needs_global ? "a" : "no");
  }
  return ok_status();
}

Result<std::unique_ptr<PackedMatrix>> PackedMatrix::pack(const spec::Problem& problem,
                                                         const WeightTensors& weights,
                                                         base::ThreadPool& pool) {
  SCALEGEMM_RETURN_IF_ERROR(check_weights(problem, weights));
  SCALEGEMM_ASSIGN_OR_RETURN(layout::PackedHeader header, layout::describe(packed_shape(problem, weights)));
  auto packed = std::make_unique<PackedMatrix>();
  SCALEGEMM_ASSIGN_OR_RETURN(packed->file_,
                             AlignedBuffer::allocate(layout::kPackedHeaderBytes + header.payload_bytes));
  const std::span<std::byte> payload = packed->file_.span().subspan(layout::kPackedHeaderBytes);
  const layout::GridView b = grid_view(weights.b);
  layout::RawWeights raw{
      .data = b.data, .stride_n = b.stride_r, .stride_k = b.stride_k, .stride_batch = b.stride_batch};
  if (weights.scale.present()) {
    raw.scale = grid_view(weights.scale);
  }
  if (weights.zero.present()) {
    raw.zero = grid_view(weights.zero);
  }
  // An empty range makes all the checks, which depend on no range: after it the packing of panels cannot
  // fail.
  SCALEGEMM_RETURN_IF_ERROR(layout::pack(header, raw, payload, {0, 0}));
  pool.parallel_for(layout::all_panels(header).end, 1, [&](int64_t begin, int64_t end, int) {
    (void)layout::pack(header, raw, payload, {begin, end});
  });
  SCALEGEMM_RETURN_IF_ERROR(layout::seal(header, payload));
  packed->header_ = header;
  std::memcpy(packed->file_.data(), &header, sizeof header);
  return packed;
}

Result<std::unique_ptr<PackedMatrix>> PackedMatrix::load(const std::string& path) {
  SCALEGEMM_ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::open(path));
  if (file.bytes().size() > kMaxPackedFile) {
    return make_error(Code::kCorruptData, "{}: {} bytes are more than packed weights can have ({})", path,
                      file.bytes().size(), kMaxPackedFile);
  }
  auto packed = std::make_unique<PackedMatrix>();
  // Copied first: what is verified is what is used, also when somebody writes to the file meanwhile.
  SCALEGEMM_ASSIGN_OR_RETURN(packed->file_, AlignedBuffer::allocate(file.bytes().size()));
  std::memcpy(packed->file_.data(), file.bytes().data(), file.bytes().size());
  const auto view = layout::parse(packed->file_.span());
  if (!view.ok()) {
    return view.status().with_context(path);
  }
  packed->header_ = view->header;
  return packed;
}

Status PackedMatrix::save(const std::string& path) const {
  const std::span<std::byte> bytes = file_.span();
  const std::array<std::string_view, 1> parts = {
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())};
  return base::atomic_publish(path, parts, base::Access::kUmask);
}

Status PackedMatrix::unpack(const WeightTensors& out) const {
  const layout::PackedShape shape = layout::shape_of(header_);
  layout::UnpackedWeights spans;
  SCALEGEMM_ASSIGN_OR_RETURN(spans.codes,
                             output_span(out.b, "b", shape.type, {shape.batch, shape.n, shape.k}));
  if (shape.scale) {
    const spec::Grid grid = spec::scale_grid(*shape.scale, shape.n, shape.k);
    SCALEGEMM_ASSIGN_OR_RETURN(spans.scales, output_span(out.scale, "scale_b", shape.scale->type,
                                                         {shape.batch, grid.rows, grid.cols}));
    if (shape.scale->zero_type) {
      SCALEGEMM_ASSIGN_OR_RETURN(
          spans.zeros, output_span(out.zero, "zero_b", DType::kInt8, {shape.batch, grid.rows, grid.cols}));
    }
  }
  return layout::unpack(header_, payload(), spans);
}

spec::OperandSpec PackedMatrix::operand() const {
  const layout::PackedShape shape = layout::shape_of(header_);
  return {.type = shape.type, .layout = spec::Layout::kCol, .scale = shape.scale};
}

std::string PackedMatrix::digest_hex() const {
  return base::Hash128{.high = header_.payload_digest[1], .low = header_.payload_digest[0]}.hex();
}

}  // namespace scalegemm::runtime
