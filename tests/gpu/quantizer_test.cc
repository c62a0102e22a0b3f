// Quantizers on a CUDA device: the bits of scalegemm_quantize for every kind there is, and runs in a graph.
#include <gtest/gtest.h>

#include "device/cuda/device.h"
#include "gpu/require_gpu.h"
#include "harness/quantize_case.h"

namespace scalegemm::harness {
namespace {

constexpr const char* kDevice = "cuda:0";

TEST(CudaQuantizer, BitEqualToQuantize) {
  REQUIRE_GPU();
  const Runtime runtime;
  int cases = 0;
  for_each_quantize_case(runtime, kDevice, 1, [&](const Quantizer& quantizer, const QuantizeCase& c) {
    QuantizeInstance instance(quantizer, c, kDevice);
    instance.run();
    EXPECT_EQ(instance.check(), "") << to_string(c);
    ++cases;
  });
  EXPECT_EQ(cases, 144 * 15);
}

TEST(CudaQuantizer, CaptureAndReplay) {
  REQUIRE_GPU();
  namespace cuda = device::cuda;
  const Runtime runtime;
  QuantizeCase c;
  c.operand = quantizer_operand(SCALEGEMM_E4M3, SCALEGEMM_F32, 128);
  c.rows = 33;
  c.k = 1031;
  c.scale_order = ScaleOrder::kLines;
  const Quantizer quantizer = make_quantizer(runtime, c.operand, c.source_dtype, c.scale_rounding, kDevice);
  QuantizeInstance instance(quantizer, c, kDevice);
  const Gpu gpu = open_gpu(kDevice);
  const cuda::Driver& d = gpu->driver();
  const cuda::Current current(*gpu);
  cuda::Stream first = nullptr;
  cuda::Stream second = nullptr;
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  constexpr unsigned kNonBlocking = 1;
  ASSERT_EQ(d.stream_create(&first, kNonBlocking), 0);
  ASSERT_EQ(d.stream_create(&second, kNonBlocking), 0);
  ASSERT_EQ(d.capture_begin(first, 0), 0);
  instance.run(first);
  ASSERT_EQ(d.capture_end(first, &graph), 0);
  ASSERT_EQ(d.graph_instantiate(&exec, graph, 0), 0);
  EXPECT_NE(instance.check(), "") << "the capture ran";
  for (int i = 0; i < 3; ++i) {
    instance.clear();
    ASSERT_EQ(d.graph_launch(exec, second), 0);
    ASSERT_EQ(d.stream_synchronize(second), 0);
    EXPECT_EQ(instance.check(), "");
  }
  d.graph_exec_destroy(exec);
  d.graph_destroy(graph);
  d.stream_destroy(first);
  d.stream_destroy(second);
}

TEST(CudaQuantizer, SaysWhatItDoesNotTake) {
  REQUIRE_GPU();
  const Runtime runtime;
  for (const auto& operand : {quantizer_operand(SCALEGEMM_INT4, SCALEGEMM_F32, 32),
                              quantizer_operand(SCALEGEMM_E4M3, SCALEGEMM_F16, 32),
                              quantizer_operand(SCALEGEMM_E4M3, SCALEGEMM_F32, 48)}) {
    try {
      make_quantizer(runtime, operand, SCALEGEMM_BF16, SCALEGEMM_SCALE_FLOOR, kDevice);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), SCALEGEMM_UNSUPPORTED);
      EXPECT_NE(std::string(error.what()).find("the CUDA quantisers take"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace scalegemm::harness
