#include "matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace scalegemm::cli {
namespace {

constexpr int32_t kFloatTypes[] = {SCALEGEMM_F32,       SCALEGEMM_F16,  SCALEGEMM_BF16,     SCALEGEMM_E4M3,
                                   SCALEGEMM_E4M3_FNUZ, SCALEGEMM_E5M2, SCALEGEMM_E5M2_FNUZ};

bool is_float(int32_t dtype) {
  return std::find(std::begin(kFloatTypes), std::end(kFloatTypes), dtype) != std::end(kFloatTypes);
}

std::string shape_text(const scalegemm_file_tensor& tensor) {
  const int32_t shown = std::clamp(tensor.rank, 0, 8);
  return fmt::format("{} [{}]", tensor.type, fmt::join(tensor.shape, tensor.shape + shown, ", "));
}

// Converts through scalegemm_dequantize. Tensors of a file need not be aligned, so the codes are copied
// first.
void convert(const scalegemm_file_tensor& tensor, Matrix& matrix) {
  if (tensor.dtype == SCALEGEMM_F32) {
    std::memcpy(matrix.values.data(), tensor.data, tensor.bytes);
    return;
  }
  std::vector<uint16_t> copy((tensor.bytes + 1) / 2);
  std::memcpy(copy.data(), tensor.data, tensor.bytes);
  scalegemm_operand_desc desc{};
  desc.dtype = tensor.dtype;
  desc.layout = SCALEGEMM_ROW;
  const scalegemm_tensor codes = scalegemm_matrix(copy.data(), tensor.dtype, matrix.rows, matrix.cols);
  const scalegemm_tensor out =
      scalegemm_matrix(matrix.values.data(), SCALEGEMM_F32, matrix.rows, matrix.cols);
  check(scalegemm_dequantize(&desc, &codes, nullptr, nullptr, nullptr, &out));
}

void transpose(Matrix& matrix) {
  std::vector<float> turned(matrix.values.size());
  for (int64_t r = 0; r < matrix.rows; ++r) {
    for (int64_t c = 0; c < matrix.cols; ++c) {
      turned[static_cast<size_t>(r * matrix.cols + c)] =
          matrix.values[static_cast<size_t>(c * matrix.rows + r)];
    }
  }
  matrix.values = std::move(turned);
}

// A path may hold ':'; only a file name with an ending before it is split.
std::pair<std::string, std::string> split(const std::string& where) {
  constexpr std::string_view kEnding = ".safetensors:";
  const size_t at = where.find(kEnding);
  return at == std::string::npos
             ? std::pair{where, std::string()}
             : std::pair{where.substr(0, at + kEnding.size() - 1), where.substr(at + kEnding.size())};
}

}  // namespace

File open_file(const std::string& path) {
  try {
    return File(path);
  } catch (const Error& error) {
    if (error.status() != SCALEGEMM_UNSUPPORTED) {
      throw;
    }
    throw Failure(kExitFailure, error.what(), "save it as f32, such as numpy.save(FILE, x.astype('<f4'))");
  }
}

std::string list_of(const std::vector<scalegemm_file_tensor>& tensors) {
  constexpr size_t kShown = 8;
  std::string list = tensors.empty() ? "no tensor" : "";
  for (size_t i = 0; i < std::min(tensors.size(), kShown); ++i) {
    list += fmt::format("{}{}: {}", i == 0 ? "" : ", ", tensors[i].name, shape_text(tensors[i]));
  }
  return tensors.size() > kShown ? fmt::format("{}, ... ({} tensors)", list, tensors.size()) : list;
}

bool is_float_matrix(const scalegemm_file_tensor& tensor) {
  return tensor.rank == 2 && is_float(tensor.dtype) && tensor.shape[0] > 0 && tensor.shape[1] > 0;
}

Matrix to_matrix(const scalegemm_file_tensor& tensor, const std::string& path) {
  const bool vector = tensor.rank == 1 && tensor.shape[0] > 0 && is_float(tensor.dtype);
  if (!is_float_matrix(tensor) && !vector) {
    throw Failure(kExitFailure,
                  fmt::format("{}: tensor {}: needed a matrix of {}; given {}", path, tensor.name,
                              kFloatWords, shape_text(tensor)),
                  "name another tensor as FILE.safetensors:TENSOR, or convert this one to f32");
  }
  Matrix matrix;
  matrix.name = tensor.name;
  matrix.rows = vector ? 1 : tensor.shape[0];
  matrix.cols = vector ? tensor.shape[0] : tensor.shape[1];
  matrix.values.resize(static_cast<size_t>(matrix.rows * matrix.cols));
  convert(tensor, matrix);
  if (tensor.fortran_order != 0) {
    transpose(matrix);
  }
  return matrix;
}

const scalegemm_file_tensor& find_tensor(const std::vector<scalegemm_file_tensor>& tensors,
                                         const std::string& name, const std::string& path) {
  for (const scalegemm_file_tensor& tensor : tensors) {
    if (name == tensor.name) {
      return tensor;
    }
  }
  throw Failure(kExitFailure,
                fmt::format("{}: needed a tensor named \"{}\"; given none of that name", path, name),
                "it holds " + list_of(tensors));
}

Matrix load_matrix(const std::string& where) {
  const auto [path, name] = split(where);
  const File file = open_file(path);
  const auto tensors = file.tensors();
  if (!name.empty()) {
    return to_matrix(find_tensor(tensors, name, path), path);
  }
  std::vector<scalegemm_file_tensor> candidates;
  for (const scalegemm_file_tensor& tensor : tensors) {
    if (tensors.size() == 1 || is_float_matrix(tensor)) {
      candidates.push_back(tensor);
    }
  }
  if (candidates.size() != 1) {
    throw Failure(kExitFailure,
                  fmt::format("{}: needed one matrix of {}; given {}: it holds {}", path, kFloatWords,
                              candidates.size(), list_of(tensors)),
                  fmt::format("name one as {}:TENSOR", path));
  }
  return to_matrix(candidates.front(), path);
}

void save_matrix(const std::string& path, const Matrix& matrix) {
  scalegemm_file_tensor tensor{};
  tensor.name = "d";
  tensor.dtype = SCALEGEMM_F32;
  tensor.rank = 2;
  tensor.shape[0] = matrix.rows;
  tensor.shape[1] = matrix.cols;
  tensor.data = matrix.values.data();
  tensor.bytes = matrix.values.size() * sizeof(float);
  check(scalegemm_file_write(path.c_str(), &tensor, 1));
}

}  // namespace scalegemm::cli
