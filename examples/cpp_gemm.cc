// A weight quantised to MXFP4, packed once, multiplied by activations: the whole path from C++.
//
//   cmake --build build/release --target cpp_gemm && build/release/bin/cpp_gemm
#include <cmath>
#include <cstdio>
#include <scalegemm/scalegemm.hpp>
#include <vector>

namespace {

constexpr int64_t kM = 4;
constexpr int64_t kN = 64;
constexpr int64_t kK = 128;

// Codes and block scales of a rows x K matrix, as scalegemm_quantize writes them.
struct Mxfp4 {
  std::vector<uint8_t> codes;   // two a byte along K
  std::vector<uint8_t> scales;  // e8m0, one for 32 values
  scalegemm_tensor codes_view;
  scalegemm_tensor scales_view;

  Mxfp4(const scalegemm_operand_desc& operand, std::vector<float>& values, int64_t rows)
      : codes(static_cast<size_t>(rows * kK / 2)), scales(static_cast<size_t>(rows * kK / 32)) {
    const scalegemm_tensor source = scalegemm_matrix(values.data(), SCALEGEMM_F32, rows, kK);
    codes_view = scalegemm_matrix(codes.data(), SCALEGEMM_E2M1, rows, kK);
    scales_view = scalegemm_matrix(scales.data(), SCALEGEMM_E8M0, rows, kK / 32);
    auto options = scalegemm::make<scalegemm_quantize_options>();
    options.scale_rounding = SCALEGEMM_SCALE_EVEN;  // the default of OCP MX, floor, clips the largest values
    scalegemm::check(
        scalegemm_quantize(&operand, &source, &options, &codes_view, &scales_view, nullptr, nullptr));
  }
};

std::vector<float> wave(int64_t count, float step) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.6f + 0.4f * std::sin(static_cast<float>(i) * step);
  }
  return values;
}

void multiply() {
  const scalegemm::Runtime runtime;
  scalegemm_problem problem = scalegemm::make_problem("mxfp4", "rcr", kM, kN, kK);
  problem.b_packing = SCALEGEMM_PACKED;

  std::vector<float> activations = wave(kM * kK, 0.37f);
  std::vector<float> weight = wave(kN * kK, 0.11f);
  Mxfp4 a(problem.a, activations, kM);
  Mxfp4 b(problem.b, weight, kN);

  // Once a weight: pack it, and plan the multiplication.
  auto pack = scalegemm::make<scalegemm_pack_args>();
  pack.b = b.codes_view;
  pack.scale_b = b.scales_view;
  const scalegemm::Packed packed(runtime, problem, pack);
  const scalegemm::Plan plan(runtime, problem);
  scalegemm::Workspace workspace(plan.workspace_bytes());

  // Once a call: no allocation, any thread.
  std::vector<float> d(static_cast<size_t>(kM * kN));
  scalegemm_run_args args = scalegemm::make_run_args();
  args.a = a.codes_view;
  args.scale_a = a.scales_view;
  args.packed_b = packed.get();
  args.d = scalegemm_matrix(d.data(), SCALEGEMM_F32, kM, kN);
  args.workspace = workspace.data();
  args.workspace_bytes = workspace.bytes();
  plan.run(args);

  double exact = 0;
  for (size_t k = 0; k < static_cast<size_t>(kK); ++k) {
    exact += static_cast<double>(activations[k]) * static_cast<double>(weight[k]);
  }
  std::printf("kernel %s\nD[0,0] = %.4f (f32 weights and activations: %.4f)\n", plan.kernel().c_str(),
              static_cast<double>(d[0]), exact);
}

}  // namespace

int main() {
  try {
    multiply();
  } catch (const scalegemm::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
