// Serves a linear layer of a checkpoint as it is stored: a DeepSeek-shaped FP8 file (128 x 128 blocks,
// partial ones at the edge) and a gpt-oss-shaped MXFP4 file (experts, K = 2880) are written, opened and
// multiplied.
//
//   build/release/bin/checkpoint_linear                        the two files, made in the current folder
//   build/release/bin/checkpoint_linear MODEL LAYER            a layer of a model of yours
//   build/release/bin/checkpoint_linear MODEL LAYER A.npy D.npy   A is M x K in f32, D matrices x M x N
//
// Each product is compared with a sum in double over the decoded weight and activations.
// examples/checkpoint_linear.py does the same in Python, scalegemm run --model at the command line, with the
// same bits (docs/checkpoints.md).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <scalegemm/scalegemm.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// Activations of M rows, or nothing.
struct Rows {
  int64_t m = 3;
  std::vector<float> values;

  static Rows wave(int64_t k) {
    Rows rows;
    rows.values.resize(static_cast<size_t>(rows.m * k));
    for (size_t i = 0; i < rows.values.size(); ++i) {
      rows.values[i] = std::sin(static_cast<float>(i) * 0.37f);
    }
    return rows;
  }

  static Rows read(const std::string& path, int64_t k) {
    const scalegemm::File file(path);
    const scalegemm_file_tensor tensor = file.tensors().at(0);
    if (tensor.dtype != SCALEGEMM_F32 || tensor.rank != 2 || tensor.shape[1] != k ||
        tensor.fortran_order != 0) {
      throw std::runtime_error(path + ": needed an f32 matrix of M x " + std::to_string(k));
    }
    Rows rows{tensor.shape[0], std::vector<float>(tensor.bytes / sizeof(float))};
    std::memcpy(rows.values.data(), tensor.data, tensor.bytes);
    return rows;
  }
};

std::vector<uint8_t> pattern(size_t count, uint8_t first, uint8_t kinds) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<uint8_t>(first + i * 7 % kinds);
  }
  return bytes;
}

scalegemm_file_tensor entry(const char* name, const char* type, std::vector<int64_t> shape, const void* data,
                            size_t bytes) {
  scalegemm_file_tensor tensor{};
  tensor.name = name;
  tensor.type = type;
  tensor.rank = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape);
  tensor.data = data;
  tensor.bytes = bytes;
  return tensor;
}

void write_deepseek(const char* path) {
  constexpr int64_t kN = 576;
  constexpr int64_t kK = 1088;
  const std::vector<uint8_t> codes = pattern(kN * kK, 0x20, 0x30);  // e4m3, all finite
  std::vector<float> scales(5 * 9);
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = 0.001f * static_cast<float>(i + 1);
  }
  const scalegemm_file_tensor tensors[] = {
      entry("model.kv_a_proj.weight", "F8_E4M3", {kN, kK}, codes.data(), codes.size()),
      entry("model.kv_a_proj.weight_scale_inv", "F32", {5, 9}, scales.data(), scales.size() * 4)};
  scalegemm::check(scalegemm_file_write(path, tensors, 2));
}

void write_gpt_oss(const char* path) {
  constexpr int64_t kExperts = 2;
  constexpr int64_t kN = 64;
  constexpr int64_t kBlocks = 90;  // K = 2880
  const std::vector<uint8_t> codes = pattern(kExperts * kN * kBlocks * 16, 0, 251);
  const std::vector<uint8_t> scales = pattern(kExperts * kN * kBlocks, 120, 5);
  const scalegemm_file_tensor tensors[] = {
      entry("model.experts.down_proj_blocks", "U8", {kExperts, kN, kBlocks, 16}, codes.data(), codes.size()),
      entry("model.experts.down_proj_scales", "U8", {kExperts, kN, kBlocks}, scales.data(), scales.size())};
  scalegemm::check(scalegemm_file_write(path, tensors, 2));
}

const scalegemm_tensor* present(const scalegemm_tensor& tensor) {
  return tensor.data != nullptr ? &tensor : nullptr;
}

// An operand A quantised as the scheme says, and what it stands for.
struct Activations {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
  float global = 1;
  scalegemm_tensor codes_view{};
  scalegemm_tensor scales_view{};
  std::vector<float> values;

  // With act-order (columns) the weight's column j meets column columns[j].
  Activations(const scalegemm_operand_desc& desc, const Rows& source, int64_t k, const int32_t* columns)
      : codes(source.values.size() * 4), scales(codes.size()), values(source.values) {
    const int64_t m = source.m;
    for (size_t i = 0; columns != nullptr && i < values.size(); ++i) {
      const size_t row = i / static_cast<size_t>(k) * static_cast<size_t>(k);
      values[i] = source.values[row + static_cast<size_t>(columns[i - row])];
    }
    codes_view = scalegemm_matrix(codes.data(), desc.dtype, m, k);
    if (desc.scale.dtype != SCALEGEMM_DTYPE_NONE) {
      const int64_t rows = desc.scale.block_rows == 0 ? 1 : m;
      const int64_t block = desc.scale.block_k == 0 ? k : desc.scale.block_k;
      scales_view = scalegemm_matrix(scales.data(), desc.scale.dtype, rows, (k + block - 1) / block);
    }
    scalegemm_tensor f32 = scalegemm_matrix(values.data(), SCALEGEMM_F32, m, k);
    auto options = scalegemm::make<scalegemm_quantize_options>();
    scalegemm::check(
        scalegemm_quantize(&desc, &f32, &options, &codes_view, present(scales_view), nullptr, &global));
    scalegemm::check(scalegemm_dequantize(&desc, &codes_view, present(scales_view), nullptr, &global, &f32));
  }
};

// The largest |D - sum in double| over the sum of magnitudes.
double largest_error(const scalegemm_weight_view& b, const std::vector<float>& a, const float* d) {
  std::vector<float> weight(static_cast<size_t>(b.n * b.k));
  const scalegemm_tensor f32 = scalegemm_matrix(weight.data(), SCALEGEMM_F32, b.n, b.k);
  scalegemm::check(
      scalegemm_dequantize(&b.operand, &b.codes, present(b.scales), present(b.zeros), b.global, &f32));
  double largest = 0;
  for (int64_t m = 0; m < static_cast<int64_t>(a.size()) / b.k; ++m) {
    for (int64_t n = 0; n < b.n; ++n) {
      double sum = 0;
      double magnitude = 1e-30;
      for (int64_t k = 0; k < b.k; ++k) {
        const double x = static_cast<double>(a[static_cast<size_t>(m * b.k + k)]) *
                         static_cast<double>(weight[static_cast<size_t>(n * b.k + k)]);
        sum += x;
        magnitude += std::abs(x);
      }
      const double error = std::abs(static_cast<double>(d[m * b.n + n]) - sum) / magnitude;
      largest = error <= largest ? largest : error;  // keeps NaN
    }
  }
  return largest;
}

// D = A * B^T for one matrix of a layer, packed and planned; the largest error.
double multiply(const scalegemm::Runtime& runtime, const char* scheme, const scalegemm::Weight& weight,
                const Rows& rows, float* d) {
  const scalegemm_weight_view b = weight.view();
  scalegemm_problem problem = scalegemm::make_problem(scheme, "rcr", rows.m, b.n, b.k);
  problem.b_packing = SCALEGEMM_PACKED;
  auto pack = scalegemm::make<scalegemm_pack_args>();
  pack.b = b.codes;
  pack.scale_b = b.scales;
  pack.zero_b = b.zeros;
  pack.global_b = b.global;
  const scalegemm::Packed packed(runtime, problem, pack);
  const scalegemm::Plan plan(runtime, problem);
  scalegemm::Workspace workspace(plan.workspace_bytes());

  Activations a(problem.a, rows, b.k, b.columns);
  scalegemm_run_args args = scalegemm::make_run_args();
  args.a = a.codes_view;
  args.scale_a = a.scales_view;
  args.global_a = problem.a.scale.has_global != 0 ? &a.global : nullptr;
  args.packed_b = packed.get();
  args.d = scalegemm_matrix(d, SCALEGEMM_F32, rows.m, b.n);
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.bytes();
  plan.run(args);
  return largest_error(b, a.values, d);
}

// True when every matrix of the layer multiplies to within f32 rounding. Empty paths: no files.
bool serve(const char* path, const char* name, const std::string& a_path = {},
           const std::string& d_path = {}) {
  const scalegemm::Runtime runtime;
  const scalegemm::Checkpoint checkpoint(path);
  const std::vector<scalegemm_layer_info> layers = checkpoint.layers();
  const auto layer = std::find_if(layers.begin(), layers.end(), [&](const scalegemm_layer_info& candidate) {
    return std::strcmp(candidate.name, name) == 0;
  });
  if (layer == layers.end()) {
    std::fprintf(stderr, "error: %s has no layer %s\n", path, name);
    return false;
  }
  std::printf("%s: %s, scheme %s, %lld of %lld x %lld\n", name, layer->format, layer->scheme,
              static_cast<long long>(layer->count), static_cast<long long>(layer->n),
              static_cast<long long>(layer->k));
  const Rows rows = a_path.empty() ? Rows::wave(layer->k) : Rows::read(a_path, layer->k);
  const auto size = static_cast<size_t>(rows.m * layer->n);
  std::vector<float> d(static_cast<size_t>(layer->count) * size);
  bool right = true;
  for (int64_t member = 0; member < layer->count; ++member) {
    const scalegemm::Weight weight(checkpoint, layer - layers.begin(), member);  // says why, when it cannot
    float* product = d.data() + static_cast<size_t>(member) * size;
    const double error = multiply(runtime, layer->scheme, weight, rows, product);
    std::printf("  %lld: D[0,0] = %.6g, largest error / sum of magnitudes = %.2g\n",
                static_cast<long long>(member), static_cast<double>(product[0]), error);
    right = error <= 1e-5 && right;
  }
  if (!d_path.empty()) {
    const scalegemm_file_tensor out =
        entry("d", "f4", {layer->count, rows.m, layer->n}, d.data(), d.size() * sizeof(float));
    scalegemm::check(scalegemm_file_write(d_path.c_str(), &out, 1));
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3 || argc == 5) {
      return serve(argv[1], argv[2], argc == 5 ? argv[3] : "", argc == 5 ? argv[4] : "") ? 0 : 1;
    }
    if (argc != 1) {
      std::fprintf(stderr, "usage: checkpoint_linear [MODEL LAYER [A.npy D.npy]]\n");
      return 2;
    }
    write_deepseek("deepseek.safetensors");
    write_gpt_oss("gpt_oss.safetensors");
    const bool fp8 = serve("deepseek.safetensors", "model.kv_a_proj");
    const bool fp4 = serve("gpt_oss.safetensors", "model.experts.down_proj");
    return fp8 && fp4 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
