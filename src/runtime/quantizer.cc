#include "runtime/quantizer.h"

#include <cstring>
#include <vector>

#include "num/bulk.h"

namespace scalegemm::runtime {
namespace {

// Kernels count rows and K in 32 bits.
constexpr int64_t kMostOnGpu = (int64_t{1} << 31) - 1;

// An output without gaps may share memory with nothing. One with gaps may lie between the rows of another
// tensor: codes and scales of a row side by side are a common form.
Status check_overlap(const Tensor& out, const char* name, const Tensor& other, const char* other_name) {
  const int64_t cols = num::is_packed4(*out.type) ? out.shape[2] / 2 : out.shape[2];
  if (span_bytes(out, false) != static_cast<__int128>(out.shape[1]) * cols * element_bytes(*out.type) ||
      !range_of(out, false).meets(range_of(other, false))) {
    return ok_status();
  }
  return invalid_argument("{}: must not overlap {} in memory", name, other_name);
}

std::byte* at(const Tensor& tensor, int64_t row, int64_t col) {
  return static_cast<std::byte*>(tensor.data) +
         (row * stride_of(tensor, 1) + col * stride_of(tensor, 2)) * element_bytes(*tensor.type);
}

}  // namespace

Status check_quantizer(const QuantizerDesc& desc) {
  if (desc.source != DType::kF32 && desc.source != DType::kF16 && desc.source != DType::kBf16) {
    return invalid_argument("desc.source_dtype: must be f32, f16 or bf16, got {}", num::name(desc.source));
  }
  SCALEGEMM_RETURN_IF_ERROR(quant::output_sizes(desc.operand, 1, 2).status().with_context("desc.operand"));
  if (!desc.operand.scale) {
    return unsupported("desc.operand.scale.dtype: a quantizer needs scales, got none: that is a plain cast");
  }
  const spec::ScaleSpec& scale = *desc.operand.scale;
  if (scale.block_rows != 1) {
    return unsupported(
        "desc.operand.scale.block_rows: a quantizer needs 1, as it reads every row once and on its own, "
        "got {}; scalegemm_quantize takes it",
        scale.block_rows);
  }
  if (scale.global) {
    return unsupported(
        "desc.operand.scale.has_global: a quantizer needs 0, as the factor of a matrix is known only after "
        "all of it was read, got 1; scalegemm_quantize takes it");
  }
  if (scale.zero_type) {
    return unsupported(
        "desc.operand.scale.zero_dtype: a quantizer needs none, as activations are quantised "
        "symmetrically, got {}; scalegemm_quantize takes it",
        num::name(*scale.zero_type));
  }
  return ok_status();
}

Status Quantizer::check(const QuantizerArgs& args) const {
  const int64_t rows = args.source.shape[1];
  const int64_t k = args.source.shape[2];
  if (rows < 1 || k < 1) {
    return invalid_argument("src: rows and columns must be positive, got {} x {}", rows, k);
  }
  SCALEGEMM_RETURN_IF_ERROR(check_tensor(
      args.source, {.name = "src", .type = desc_.source, .rows = rows, .cols = k, .unit_dim = 2}));
  const DType type = desc_.operand.type;
  if (num::is_packed4(type) && k % 2 != 0) {
    return invalid_argument("src: columns must be even, as two {} codes share a byte, got {}",
                            num::name(type), k);
  }
  SCALEGEMM_RETURN_IF_ERROR(
      check_output(args.codes, {.name = "codes", .type = type, .rows = rows, .cols = k, .unit_dim = 2}));
  const spec::ScaleSpec& scale = *desc_.operand.scale;
  const spec::Grid grid = spec::scale_grid(scale, rows, k);
  SCALEGEMM_RETURN_IF_ERROR(check_output(
      args.scales, {.name = "scales", .type = scale.type, .rows = grid.rows, .cols = grid.cols}));
  SCALEGEMM_RETURN_IF_ERROR(check_overlap(args.codes, "codes", args.source, "src"));
  SCALEGEMM_RETURN_IF_ERROR(check_overlap(args.scales, "scales", args.source, "src"));
  return check_overlap(args.scales, "scales", args.codes, "codes");
}

Status Quantizer::run(const QuantizerArgs& args) const {
  SCALEGEMM_RETURN_IF_ERROR(check(args));
  return gpu_ ? run_on_gpu(args) : run_on_cpu(args);
}

// Row by row, as no scale spans two.
Status Quantizer::run_on_cpu(const QuantizerArgs& args) const {
  if (args.stream != nullptr) {
    return invalid_argument("args.stream: must be null, because this quantizer runs on the CPU, got {}",
                            args.stream);
  }
  const int64_t k = args.source.shape[2];
  const int64_t blocks = args.scales.shape[2];
  const auto scale_bytes = static_cast<size_t>(element_bytes(*args.scales.type));
  const auto code_bytes = static_cast<size_t>(num::bytes_of(*args.codes.type, k));
  std::vector<float> values(static_cast<size_t>(k));
  std::vector<std::byte> scales(static_cast<size_t>(blocks) * scale_bytes);
  for (int64_t row = 0; row < args.source.shape[1]; ++row) {
    num::decode_array(desc_.source, at(args.source, row, 0), values);
    SCALEGEMM_RETURN_IF_ERROR(
        quant::quantize(desc_.operand, {.data = values.data(), .rows = 1, .k = k, .stride_r = k},
                        {.scale_rounding = desc_.rounding},
                        {.codes = {at(args.codes, row, 0), code_bytes}, .scales = scales}));
    for (int64_t j = 0; j < blocks; ++j) {
      std::memcpy(at(args.scales, row, j), scales.data() + static_cast<size_t>(j) * scale_bytes, scale_bytes);
    }
  }
  return ok_status();
}

Status Quantizer::run_on_gpu(const QuantizerArgs& args) const {
  const int64_t rows = args.source.shape[1];
  const int64_t k = args.source.shape[2];
  if (rows > kMostOnGpu || k > kMostOnGpu) {
    return unsupported("src: a GPU quantizer takes up to {} rows and columns, got {} x {}", kMostOnGpu, rows,
                       k);
  }
  SgQuantize q{};
  q.source = args.source.data;
  q.source_stride = stride_of(args.source, 1);
  q.codes = args.codes.data;
  q.code_stride = stride_of(args.codes, 1);
  q.scales = args.scales.data;
  q.scale_stride_row = stride_of(args.scales, 1);
  q.scale_stride_k = stride_of(args.scales, 2);
  q.rows = static_cast<uint32_t>(rows);
  q.k = static_cast<uint32_t>(k);
  q.rounding = static_cast<uint32_t>(desc_.rounding);
  return gpu_->launch(q, args.stream);
}

}  // namespace scalegemm::runtime
