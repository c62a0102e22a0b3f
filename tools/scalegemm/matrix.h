// Matrices of files as f32, whatever float type they are stored in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app.h"

namespace scalegemm::cli {

inline constexpr const char* kFloatWords = "f32, f16, bf16 or fp8";

struct Matrix {
  std::string name;  // of the tensor, for messages and tables
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> values;  // row-major
};

// Opens a safetensors or npy file; an npy type that is not read comes with what to do about it.
File open_file(const std::string& path);

// "conv.weight: F64 [3, 3, 4, 4]" of the first few: what a file holds in place of float matrices.
std::string list_of(const std::vector<scalegemm_file_tensor>& tensors);

// Is this a tensor of two dimensions that can be quantised: f32, f16, bf16 or fp8 values?
bool is_float_matrix(const scalegemm_file_tensor& tensor);

// The values of such a tensor; rank 1 becomes one row. Throws Failure otherwise.
Matrix to_matrix(const scalegemm_file_tensor& tensor, const std::string& path);

// "FILE.npy", "FILE.safetensors" with one matrix, or "FILE.safetensors:TENSOR".
Matrix load_matrix(const std::string& where);

// The tensor of that name. Throws Failure that lists what the file holds.
const scalegemm_file_tensor& find_tensor(const std::vector<scalegemm_file_tensor>& tensors,
                                         const std::string& name, const std::string& path);

// An f32 matrix as FILE.npy or FILE.safetensors (one tensor "d").
void save_matrix(const std::string& path, const Matrix& matrix);

}  // namespace scalegemm::cli
