// safetensors and npy files.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "api/convert.h"
#include "api/error.h"
#include "api/handles.h"
#include "checkpoint/safetensors_writer.h"
#include "scalegemm/scalegemm.h"

using scalegemm::invalid_argument;
using scalegemm::ok_status;
using scalegemm::Result;
using scalegemm::Status;
using namespace scalegemm::api;  // NOLINT(google-build-using-namespace): this file is that room's surface
namespace checkpoint = scalegemm::checkpoint;
namespace num = scalegemm::num;

namespace {

constexpr int64_t kMaxTensors = 1 << 20;
constexpr int32_t kShownRank = 8;

bool is_npy(std::string_view path) {
  return path.ends_with(".npy");
}

std::string stem(std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string_view file = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return std::string(file.substr(0, file.size() - std::string_view(".npy").size()));
}

void set_shape(std::span<const int64_t> shape, scalegemm_file_tensor* out) {
  out->rank = static_cast<int32_t>(shape.size());
  std::copy_n(shape.begin(), std::min<size_t>(shape.size(), kShownRank), out->shape);
}

int32_t dtype_id(const std::optional<num::DType>& type) {
  return type ? static_cast<int32_t>(*type) : SCALEGEMM_DTYPE_NONE;
}

scalegemm_file_tensor describe(const checkpoint::Safetensors& file, size_t index) {
  const checkpoint::TensorInfo& info = file.tensors()[index];
  scalegemm_file_tensor out{};
  out.name = info.name.c_str();
  out.type = info.type->name.data();
  out.dtype = dtype_id(info.type->dtype);
  set_shape(info.shape, &out);
  out.data = file.bytes(info).data();
  out.bytes = file.bytes(info).size();
  return out;
}

scalegemm_file_tensor describe(const checkpoint::Npy& file, const std::string& name) {
  const checkpoint::NpyHeader& header = file.header();
  scalegemm_file_tensor out{};
  out.name = name.c_str();
  out.type = header.type->code.data();
  out.dtype = dtype_id(header.type->dtype);
  set_shape(header.shape, &out);
  out.data = file.bytes().data();
  out.bytes = file.bytes().size();
  out.fortran_order = header.fortran_order ? 1 : 0;
  return out;
}

Status check_tensor(const scalegemm_file_tensor& tensor, int64_t index) {
  if (tensor.rank < 0 || tensor.rank > kShownRank) {
    return invalid_argument("tensors[{}].rank: must be in 0 .. {}, got {}", index, kShownRank, tensor.rank);
  }
  if (tensor.fortran_order != 0) {
    return invalid_argument(
        "tensors[{}].fortran_order: only row-major tensors are written, so it must be 0, got {}", index,
        tensor.fortran_order);
  }
  SCALEGEMM_RETURN_IF_ERROR(check_reserved(tensor.reserved, fmt::format("tensors[{}].reserved", index)));
  if (tensor.data == nullptr && tensor.bytes > 0) {
    return invalid_argument("tensors[{}].data: must not be null for {} bytes", index, tensor.bytes);
  }
  return ok_status();
}

std::span<const std::byte> bytes_of(const scalegemm_file_tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data), tensor.bytes};
}

std::span<const int64_t> shape_of(const scalegemm_file_tensor& tensor) {
  return {tensor.shape, static_cast<size_t>(tensor.rank)};
}

Result<std::string> safetensors_type(const scalegemm_file_tensor& tensor, int64_t index) {
  if (tensor.type != nullptr) {
    return std::string(tensor.type);
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const num::DType type,
                             to_dtype(tensor.dtype, fmt::format("tensors[{}].dtype", index).c_str()));
  const auto name = checkpoint::safetensors_name(type);
  if (!name) {
    return invalid_argument(
        "tensors[{}].dtype: safetensors has no type for {}; set type to \"U8\" and store its bytes", index,
        num::name(type));
  }
  return std::string(*name);
}

Status write_safetensors(const char* path, std::span<const scalegemm_file_tensor> tensors) {
  std::vector<std::string> types;  // own the text that the specs view
  types.reserve(tensors.size());
  std::vector<checkpoint::TensorSpec> specs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    SCALEGEMM_RETURN_IF_ERROR(require(tensors[i].name, "tensors[].name"));
    SCALEGEMM_ASSIGN_OR_RETURN(std::string type, safetensors_type(tensors[i], static_cast<int64_t>(i)));
    types.push_back(std::move(type));
    const auto shape = shape_of(tensors[i]);
    specs.push_back({tensors[i].name, types.back(), {shape.begin(), shape.end()}});
  }
  SCALEGEMM_ASSIGN_OR_RETURN(auto writer, checkpoint::SafetensorsWriter::create(path, specs, {}));
  for (const scalegemm_file_tensor& tensor : tensors) {
    SCALEGEMM_RETURN_IF_ERROR(writer.write(tensor.name, bytes_of(tensor)));
  }
  return writer.finish();
}

Status write_npy(const char* path, std::span<const scalegemm_file_tensor> tensors) {
  if (tensors.size() != 1) {
    return invalid_argument("count: an npy file holds one tensor, got {}", tensors.size());
  }
  const scalegemm_file_tensor& tensor = tensors[0];
  std::string code = tensor.type != nullptr ? tensor.type : "";
  if (code.empty()) {
    SCALEGEMM_ASSIGN_OR_RETURN(const num::DType type, to_dtype(tensor.dtype, "tensors[0].dtype"));
    for (const checkpoint::NpyType& row : checkpoint::npy_types()) {
      if (row.dtype == type) {
        code = row.code;
      }
    }
    if (code.empty()) {
      return invalid_argument(
          "tensors[0].dtype: npy has no type for {}; set type to \"u1\" and store its bytes",
          num::name(type));
    }
  }
  return checkpoint::write_npy(path, code, shape_of(tensor), bytes_of(tensor));
}

}  // namespace

scalegemm_status scalegemm_file_open(const char* path, scalegemm_file** file) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(path, "path"));
    SCALEGEMM_RETURN_IF_ERROR(require(file, "file"));
    *file = nullptr;
    if (is_npy(path)) {
      SCALEGEMM_ASSIGN_OR_RETURN(checkpoint::Npy npy, checkpoint::Npy::open(path));
      *file = new scalegemm_file{std::move(npy), stem(path)};
    } else {
      SCALEGEMM_ASSIGN_OR_RETURN(checkpoint::Safetensors tensors, checkpoint::Safetensors::open(path));
      *file = new scalegemm_file{std::move(tensors), ""};
    }
    return ok_status();
  });
}

void scalegemm_file_close(scalegemm_file* file) {
  delete file;
}

int64_t scalegemm_file_tensor_count(const scalegemm_file* file) {
  if (file == nullptr) {
    return 0;
  }
  const auto* tensors = std::get_if<checkpoint::Safetensors>(&file->impl);
  return tensors != nullptr ? static_cast<int64_t>(tensors->tensors().size()) : 1;
}

scalegemm_status scalegemm_file_get(const scalegemm_file* file, int64_t index,
                                    scalegemm_file_tensor* tensor) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(file, "file"));
    SCALEGEMM_RETURN_IF_ERROR(require(tensor, "tensor"));
    const int64_t count = scalegemm_file_tensor_count(file);
    if (index < 0 || index >= count) {
      return invalid_argument("index: the file has {} tensors, got {}", count, index);
    }
    const auto* tensors = std::get_if<checkpoint::Safetensors>(&file->impl);
    *tensor = tensors != nullptr ? describe(*tensors, static_cast<size_t>(index))
                                 : describe(std::get<checkpoint::Npy>(file->impl), file->npy_name);
    return ok_status();
  });
}

scalegemm_status scalegemm_file_write(const char* path, const scalegemm_file_tensor* tensors, int64_t count) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(path, "path"));
    if (count < 0 || count > kMaxTensors) {
      return invalid_argument("count: must be in 0 .. {}, got {}", kMaxTensors, count);
    }
    if (count > 0) {
      SCALEGEMM_RETURN_IF_ERROR(require(tensors, "tensors"));
    }
    for (int64_t i = 0; i < count; ++i) {
      SCALEGEMM_RETURN_IF_ERROR(check_tensor(tensors[i], i));
    }
    const std::span<const scalegemm_file_tensor> all(tensors, static_cast<size_t>(count));
    return is_npy(path) ? write_npy(path, all) : write_safetensors(path, all);
  });
}
