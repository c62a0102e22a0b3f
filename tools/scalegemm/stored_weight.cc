#include "stored_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "matrix.h"

namespace scalegemm::cli {
namespace {

bool is_packed_int(int32_t dtype) {
  return dtype == SCALEGEMM_INT4 || dtype == SCALEGEMM_UINT4;
}

// What the bytes of codes and zero points mean, where the file format has no type that says it.
std::string stored_types(const scalegemm_operand_desc& desc) {
  std::string text = scalegemm_dtype_name(desc.dtype);
  if (desc.scale.zero_dtype != SCALEGEMM_DTYPE_NONE) {
    text += fmt::format(" zero {}", scalegemm_dtype_name(desc.scale.zero_dtype));
  }
  return text;
}

const scalegemm_file_tensor* find_optional(const std::vector<scalegemm_file_tensor>& tensors,
                                           const std::string& name) {
  const auto it = std::find_if(tensors.begin(), tensors.end(),
                               [&](const scalegemm_file_tensor& tensor) { return name == tensor.name; });
  return it != tensors.end() ? &*it : nullptr;
}

// The file's parts must be those of the scheme, no fewer (find_tensor says) and no more.
void check_parts(const std::vector<scalegemm_file_tensor>& tensors, const std::string& name,
                 const scalegemm_operand_desc& desc, const std::string& path) {
  const std::string fix = "give the --scheme that the file was quantised with";
  const auto refuse_extra = [&](const char* suffix, bool expected) {
    if (!expected && find_optional(tensors, name + suffix) != nullptr) {
      throw Failure(
          kExitFailure,
          fmt::format("{}: tensor {}{}: needed a scheme that has it; given one without", path, name, suffix),
          fix);
    }
  };
  refuse_extra(".scale", desc.scale.dtype != SCALEGEMM_DTYPE_NONE);
  refuse_extra(".zero", desc.scale.zero_dtype != SCALEGEMM_DTYPE_NONE);
  refuse_extra(".global", desc.scale.has_global != 0);
  if (const auto* types = find_optional(tensors, name + ".types")) {
    const std::string found(static_cast<const char*>(types->data), types->bytes);
    if (found != stored_types(desc)) {
      throw Failure(
          kExitFailure,
          fmt::format("{}: tensor {}: needed {}; the file holds {}", path, name, stored_types(desc), found),
          fix);
    }
  }
}

std::string tensor_text(const scalegemm_file_tensor& tensor) {
  return fmt::format("{} of {} bytes", tensor.type, tensor.bytes);
}

// Copies a tensor whose bytes must be exactly `wanted`, of the type itself or stored as bytes.
std::vector<uint8_t> take(const scalegemm_file_tensor& tensor, int32_t dtype, size_t wanted,
                          const std::string& path) {
  const std::string_view type = tensor.type;
  if ((tensor.dtype != dtype && type != "U8" && type != "I8") || tensor.bytes != wanted) {
    throw Failure(kExitFailure,
                  fmt::format("{}: tensor {}: needed {} bytes of {}; given {}", path, tensor.name, wanted,
                              scalegemm_dtype_name(dtype), tensor_text(tensor)),
                  "give the --scheme that the file was quantised with");
  }
  std::vector<uint8_t> bytes(tensor.bytes);
  std::memcpy(bytes.data(), tensor.data, tensor.bytes);
  return bytes;
}

}  // namespace

void WeightFile::add(const std::string& name, harness::OperandData data) {
  data_.push_back(std::move(data));
  const harness::OperandData& d = data_.back();
  const auto entry = [this](std::string entry_name, std::string type, int32_t dtype,
                            std::vector<int64_t> shape, const void* bytes, uint64_t size) {
    names_.push_back(std::move(entry_name));
    entries_.push_back({names_.size() - 1, std::move(type), dtype, std::move(shape), bytes, size});
  };
  const bool halved = is_packed_int(d.desc.dtype);
  entry(name, halved ? "U8" : "", d.desc.dtype, {d.rows, halved ? d.k / 2 : d.k}, d.codes.data(),
        d.codes.size());
  if (!d.scales.empty()) {
    entry(name + ".scale", "", d.desc.scale.dtype, {d.grid_rows, d.grid_k}, d.scales.data(), d.scales.size());
  }
  if (!d.zeros.empty()) {
    entry(name + ".zero", "U8", d.desc.scale.zero_dtype, {d.grid_rows, d.grid_k}, d.zeros.data(),
          d.zeros.size());
  }
  if (halved || !d.zeros.empty()) {
    texts_.push_back(stored_types(d.desc));
    const std::string& types = texts_.back();
    entry(name + ".types", "U8", SCALEGEMM_DTYPE_NONE, {static_cast<int64_t>(types.size())}, types.data(),
          types.size());
  }
  if (d.global) {
    entry(name + ".global", "", SCALEGEMM_F32, {1}, &*d.global, sizeof(float));
  }
}

void WeightFile::add_copy(const scalegemm_file_tensor& tensor) {
  names_.emplace_back(tensor.name);
  entries_.push_back({names_.size() - 1,
                      tensor.type,
                      tensor.dtype,
                      {tensor.shape, tensor.shape + std::clamp(tensor.rank, 0, 8)},
                      tensor.data,
                      tensor.bytes});
}

void WeightFile::write(const std::string& path) const {
  std::vector<scalegemm_file_tensor> tensors;
  for (const Entry& entry : entries_) {
    scalegemm_file_tensor tensor{};
    tensor.name = names_[entry.name].c_str();
    tensor.type = entry.type.empty() ? nullptr : entry.type.c_str();
    tensor.dtype = entry.dtype;
    tensor.rank = static_cast<int32_t>(entry.shape.size());
    std::copy(entry.shape.begin(), entry.shape.end(), tensor.shape);
    tensor.data = entry.bytes;
    tensor.bytes = entry.size;
    tensors.push_back(tensor);
  }
  check(scalegemm_file_write(path.c_str(), tensors.data(), static_cast<int64_t>(tensors.size())));
}

harness::OperandData load_weight(const std::vector<scalegemm_file_tensor>& tensors, const std::string& name,
                                 const scalegemm_operand_desc& desc, const std::string& path) {
  const scalegemm_file_tensor& codes = find_tensor(tensors, name, path);
  if (codes.rank != 2) {
    throw Failure(kExitFailure,
                  fmt::format("{}: tensor {}: needed 2 dimensions; given {}", path, name, codes.rank),
                  "name another tensor with --tensor");
  }
  check_parts(tensors, name, desc, path);
  const bool halved = std::string_view(codes.type) == "U8" && scalegemm_dtype_bits(desc.dtype) == 4;
  harness::OperandData data =
      harness::allocate_operand(desc, codes.shape[0], codes.shape[1] * (halved ? 2 : 1), 1);
  data.codes = take(codes, desc.dtype, data.codes.size(), path);
  if (!data.scales.empty()) {
    data.scales =
        take(find_tensor(tensors, name + ".scale", path), desc.scale.dtype, data.scales.size(), path);
  }
  if (!data.zeros.empty()) {
    data.zeros =
        take(find_tensor(tensors, name + ".zero", path), desc.scale.zero_dtype, data.zeros.size(), path);
  }
  if (desc.scale.has_global != 0) {
    const auto bytes = take(find_tensor(tensors, name + ".global", path), SCALEGEMM_F32, sizeof(float), path);
    float global = 0;
    std::memcpy(&global, bytes.data(), sizeof(float));
    data.global = global;
  }
  return data;
}

double sqnr_db(const std::vector<float>& reference, const std::vector<float>& values) {
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double x = static_cast<double>(reference[i]);
    const double e = static_cast<double>(values[i]) - x;
    signal += x * x;
    noise += e * e;
  }
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

double sqnr_db(harness::OperandData& data, const std::vector<float>& values) {
  std::vector<float> back(values.size());
  const scalegemm_tensor codes = data.codes_tensor();
  const scalegemm_tensor scales = data.scales_tensor();
  const scalegemm_tensor zeros = data.zeros_tensor();
  const scalegemm_tensor out = scalegemm_matrix(back.data(), SCALEGEMM_F32, data.rows, data.k);
  check(scalegemm_dequantize(&data.desc, &codes, scales.data ? &scales : nullptr,
                             zeros.data ? &zeros : nullptr, data.global ? &*data.global : nullptr, &out));
  return sqnr_db(values, back);
}

}  // namespace scalegemm::cli
