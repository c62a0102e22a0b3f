#include "harness/quantize_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/data.h"
#include "harness/words.h"
#include "num/bulk.h"

namespace scalegemm::harness {
namespace {

constexpr uint8_t kPoison = 0xFF;  // a NaN in the room between rows of the source

size_t element_bytes(int32_t dtype) {
  return std::max<size_t>(1, static_cast<size_t>(num::info(dtype_of(dtype)).bits) / 8);
}

// The values of one block, of a kind that differs from block to block.
void fill_block(Random& random, int64_t kind, int64_t count, float* out) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto any = static_cast<size_t>(random.below(count));
  const float wide = std::ldexp(1.0f, static_cast<int>(random.below(60)) - 30);
  for (int64_t i = 0; i < count; ++i) {
    const auto normal = static_cast<float>(random.normal());
    switch (kind) {
      case 1:  // zeros
        out[i] = random.below(2) == 0 ? 0.0f : -0.0f;
        break;
      case 2:  // subnormal scales
        out[i] = normal * 0x1p-140f;
        break;
      case 3:  // subnormal in f16
        out[i] = normal * 0x1p-20f;
        break;
      case 4:  // large scales; infinite in f16
        out[i] = std::clamp(normal * 0x1p125f, -3e38f, 3e38f);
        break;
      case 5:  // halfway between codes, once divided by a scale of 1
        out[i] = static_cast<float>(random.below(1024) - 512) * 0.25f;
        break;
      default:
        out[i] = normal * wide;
    }
  }
  switch (kind) {
    case 5:
      out[any] = 448.0f;
      break;
    case 6:  // an outlier
      out[any] = std::ldexp(wide, 30);
      break;
    case 7:
      out[any] = std::numeric_limits<float>::quiet_NaN();
      break;
    case 8:
      out[any] = random.below(2) == 0 ? kInfinity : -kInfinity;
      break;
    default:
      break;
  }
}

// rows x k contiguous codes of the source type.
std::vector<uint8_t> make_source(const QuantizeCase& c) {
  Random random(c.seed * 31 + static_cast<uint64_t>(c.rows * 1000003 + c.k));
  const int64_t block = c.operand.scale.block_k == 0 ? c.k : c.operand.scale.block_k;
  std::vector<float> values(static_cast<size_t>(c.rows * c.k));
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t k = 0; k < c.k; k += block) {
      fill_block(random, random.below(12), std::min(block, c.k - k), values.data() + r * c.k + k);
    }
  }
  std::vector<uint8_t> codes(values.size() * element_bytes(c.source_dtype));
  num::encode_array(dtype_of(c.source_dtype), values, num::Overflow::kIeee,
                    reinterpret_cast<std::byte*>(codes.data()));
  return codes;
}

// Memory of a strided matrix whose elements are those of a contiguous one; the rest is poison.
std::vector<uint8_t> spread(const std::vector<uint8_t>& from, const scalegemm_tensor& t, int64_t cols) {
  const size_t element = element_bytes(t.dtype);
  const int64_t last = (t.shape[1] - 1) * t.stride[1] + (cols - 1) * t.stride[2];
  std::vector<uint8_t> memory(static_cast<size_t>(last + 1) * element, kPoison);
  for (int64_t r = 0; r < t.shape[1]; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      std::memcpy(memory.data() + static_cast<size_t>(r * t.stride[1] + c * t.stride[2]) * element,
                  from.data() + static_cast<size_t>(r * cols + c) * element, element);
    }
  }
  return memory;
}

Buffer place(const char* name, size_t bytes, int32_t dtype, const QuantizeCase& c) {
  return {name, bytes, element_bytes(dtype), c.place, kPoison};
}

}  // namespace

std::string to_string(const QuantizeCase& c) {
  return fmt::format("{} to {}, {} scales, block_k {}, rounding {}: {} x {}, room {} and {}, scales {}, {}",
                     word_of(kTypes, c.source_dtype), word_of(kTypes, c.operand.dtype),
                     word_of(kTypes, c.operand.scale.dtype), c.operand.scale.block_k,
                     word_of(kScaleRoundings, c.scale_rounding), c.rows, c.k, c.source_room, c.code_room,
                     c.scale_order == ScaleOrder::kLines ? "along rows" : "dense",
                     word_of(kPlaces, static_cast<int32_t>(c.place)));
}

scalegemm_operand_desc quantizer_operand(int32_t codes, int32_t scale, int64_t block_k) {
  scalegemm_operand_desc operand{};
  operand.dtype = codes;
  operand.scale.dtype = scale;
  operand.scale.block_rows = 1;
  operand.scale.block_k = block_k;
  return operand;
}

Quantizer make_quantizer(const Runtime& runtime, const scalegemm_operand_desc& operand, int32_t source_dtype,
                         int32_t scale_rounding, const std::string& device) {
  auto desc = make<scalegemm_quantizer_desc>();
  desc.operand = operand;
  desc.source_dtype = source_dtype;
  desc.scale_rounding = scale_rounding;
  auto options = make<scalegemm_plan_options>();
  options.device = device.c_str();
  return {runtime, desc, &options};
}

QuantizeInstance::QuantizeInstance(const Quantizer& quantizer, const QuantizeCase& c,
                                   const std::string& device)
    : quantizer_(quantizer), mirrored_(device != "cpu") {
  const std::vector<uint8_t> source = make_source(c);
  std::vector<float> values(static_cast<size_t>(c.rows * c.k));
  num::decode_array(dtype_of(c.source_dtype), reinterpret_cast<const std::byte*>(source.data()), values);
  auto rounding = make<scalegemm_quantize_options>();
  rounding.scale_rounding = c.scale_rounding;
  const OperandData expected = quantize(c.operand, values.data(), c.rows, c.k, &rounding);

  args_.src = scalegemm_matrix(nullptr, c.source_dtype, c.rows, c.k);
  args_.src.stride[1] += c.source_room;
  args_.codes = scalegemm_matrix(nullptr, c.operand.dtype, c.rows, c.k);
  const int64_t code_cols = args_.codes.stride[1];
  args_.codes.stride[1] += c.code_room;
  args_.scales = scalegemm_matrix(nullptr, c.operand.scale.dtype, expected.grid_rows, expected.grid_k);
  if (c.scale_order == ScaleOrder::kLines) {
    args_.scales.stride[1] = 1;
    args_.scales.stride[2] = (c.rows + 3) / 4 * 4;
  }
  expected_source_ = spread(source, args_.src, c.k);
  expected_codes_ = spread(expected.codes, args_.codes, code_cols);
  expected_scales_ = spread(expected.scales, args_.scales, expected.grid_k);

  source_ = place("src", expected_source_.size(), c.source_dtype, c);
  codes_ = place("codes", expected_codes_.size(), c.operand.dtype, c);
  scales_ = place("scales", expected_scales_.size(), c.operand.scale.dtype, c);
  std::memcpy(source_.data(), expected_source_.data(), expected_source_.size());
  const Gpu gpu = open_gpu(device);
  const auto bind = [&](const Buffer& buffer, Mirror* mirror, scalegemm_tensor* t) {
    if (mirrored_) {
      *mirror = Mirror(gpu, buffer);
    }
    t->data = mirrored_ ? mirror->data() : buffer.data();
    t->bytes = buffer.bytes();
  };
  bind(source_, &source_mirror_, &args_.src);
  bind(codes_, &codes_mirror_, &args_.codes);
  bind(scales_, &scales_mirror_, &args_.scales);
}

void QuantizeInstance::clear() {
  std::memset(codes_.data(), kPoison, codes_.bytes());
  std::memset(scales_.data(), kPoison, scales_.bytes());
  codes_mirror_.upload(codes_);
  scales_mirror_.upload(scales_);
}

void QuantizeInstance::run(void* stream) {
  args_.stream = stream;
  quantizer_.run(args_);
}

std::string QuantizeInstance::difference(const Buffer& buffer, const std::vector<uint8_t>& expected) const {
  const uint8_t* const data = buffer.data();
  const auto [given, wanted] = std::mismatch(data, data + buffer.bytes(), expected.begin());
  return given == data + buffer.bytes() ? buffer.check()
                                        : fmt::format("{}: byte {} must be {:#04x}, is {:#04x}",
                                                      buffer.name(), given - data, *wanted, *given);
}

std::string QuantizeInstance::check() {
  source_mirror_.download(source_);
  codes_mirror_.download(codes_);
  scales_mirror_.download(scales_);
  for (const auto& [buffer, expected] :
       {std::pair(&scales_, &expected_scales_), {&codes_, &expected_codes_}, {&source_, &expected_source_}}) {
    if (std::string wrong = difference(*buffer, *expected); !wrong.empty()) {
      return wrong;
    }
  }
  return "";
}

void for_each_quantize_case(const Runtime& runtime, const std::string& device, int stride,
                            const std::function<void(const Quantizer&, const QuantizeCase&)>& visit) {
  int index = 0;
  for (const int32_t source : {SCALEGEMM_F32, SCALEGEMM_F16, SCALEGEMM_BF16}) {
    for (const int32_t codes : {SCALEGEMM_E4M3, SCALEGEMM_E5M2, SCALEGEMM_E2M1, SCALEGEMM_INT8}) {
      for (const int32_t scale : {SCALEGEMM_F32, SCALEGEMM_E8M0}) {
        for (const int64_t block : {0, 16, 32, 64, 128, 256}) {
          if (index++ % stride != 0) {
            continue;
          }
          QuantizeCase c;
          c.operand = quantizer_operand(codes, scale, block);
          c.source_dtype = source;
          c.scale_rounding = index / stride % 3;
          const Quantizer quantizer = make_quantizer(runtime, c.operand, source, c.scale_rounding, device);
          // Around a thread's 16 elements and a warp's 512; one row to 8 and beyond; K past the registers.
          constexpr std::pair<int64_t, int64_t> kSizes[] = {
              {1, 1},     {3, 15},   {2, 16},   {5, 17},   {7, 127},   {9, 257},   {13, 509}, {17, 512},
              {33, 1031}, {300, 48}, {3, 4097}, {2, 8200}, {1, 16384}, {2, 16411}, {1, 40000}};
          for (const auto& [rows, k] : kSizes) {
            c.rows = rows;
            c.k = codes == SCALEGEMM_E2M1 ? (k + 1) / 2 * 2 : k;
            ++c.seed;
            c.source_room = c.seed % 3 == 0 ? 3 : c.seed % 3 == 1 ? 0 : 16 - c.k % 16;
            c.code_room = c.seed % 4 == 0 ? 5 : c.seed % 4 == 1 ? 16 : 0;
            c.scale_order = c.seed % 2 == 0 ? ScaleOrder::kDense : ScaleOrder::kLines;
            c.place = c.seed % 5 == 0   ? Place::kMisaligned
                      : c.seed % 5 == 1 ? Place::kFlushEnd
                                        : Place::kAligned;
            visit(quantizer, c);
          }
        }
      }
    }
  }
}

}  // namespace scalegemm::harness
