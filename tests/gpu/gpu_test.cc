// The four proofs on a CUDA device: the mma family over the whole grid of schemes, layouts and outputs, and
// every TMA kernel over sizes around its tiles. Then streams, graphs and what bad input gets.
#include <gtest/gtest.h>

#include <cstdlib>

#include "arch/legal.h"
#include "device/cuda/device.h"
#include "gpu/require_gpu.h"
#include "harness/grid.h"
#include "harness/proofs.h"
#include "spec/scheme.h"

namespace scalegemm::harness {
namespace {

constexpr const char* kDevice = "cuda:0";

const Runtime& runtime() {
  static const Runtime instance;
  return instance;
}

ProofOptions options_for(const std::string& kernel) {
  ProofOptions options;
  options.choice.device = kDevice;
  options.choice.kernel = kernel;
  options.most_products = int64_t{1} << 23;
  return options;
}

using ProofFunction = ProofResult (*)(const Runtime&, const Case&, const ProofOptions&);

void prove_all(const Case& c, const ProofOptions& options) {
  for (const ProofFunction proof : {prove_exact, prove_random, prove_poison, prove_repeat}) {
    try {
      const ProofResult result = proof(runtime(), c, options);
      EXPECT_TRUE(result.passed) << to_string(result.proof) << ": " << result.detail << "\n  "
                                 << options.choice.kernel << "\n  scalegemm verify --device cuda:0 "
                                 << to_string(c);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what() << "\n  " << options.choice.kernel
                    << "\n  scalegemm verify --device cuda:0 " << to_string(c);
    }
  }
}

// Every kernel that the tables have for the problem of a case, of one kind.
std::vector<std::string> kernels_for(const Case& c, bool tma) {
  const scalegemm_problem p = problem_of(c);
  const auto scheme = spec::parse_scheme(c.scheme);
  spec::Problem problem;
  problem.m = p.m;
  problem.n = p.n;
  problem.k = p.k;
  problem.d = static_cast<spec::DType>(p.d_dtype);
  problem.accuracy = static_cast<spec::Accuracy>(p.accuracy);
  problem.epilogue.activation = static_cast<spec::Activation>(p.activation);
  if (p.bias_dtype != SCALEGEMM_DTYPE_NONE) {
    problem.epilogue.bias = static_cast<spec::DType>(p.bias_dtype);
  }
  if (p.c_dtype != SCALEGEMM_DTYPE_NONE) {
    problem.epilogue.c = static_cast<spec::DType>(p.c_dtype);
  }
  EXPECT_TRUE(apply(*scheme, "rcr", problem).ok());
  std::vector<std::string> names;
  for (const spec::KernelSpec& s : arch::gpu_candidates(spec::Target::kSm90a, problem)) {
    if ((s.pipeline != spec::Pipeline::kMma) == tma && !arch::illegal(s) && !arch::gpu_declines(s, problem)) {
      names.push_back(spec::name(s));
    }
  }
  return names;
}

class MmaGrid : public testing::TestWithParam<std::string> {};

TEST_P(MmaGrid, EveryLayoutAndOutput) {
  REQUIRE_GPU();
  uint64_t index = 0;
  for (Case c : grid_of(GetParam(), 2)) {
    c.packing = SCALEGEMM_RAW;
    const std::vector<std::string> kernels = kernels_for(c, false);
    ASSERT_FALSE(kernels.empty()) << to_string(c);
    prove_all(c, options_for(kernels[index++ % kernels.size()]));
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schemes, MmaGrid, testing::ValuesIn(every_scheme()), test_name);

// Sizes around the tiles of the TMA kernels; K beyond a scale block.
constexpr Size kLarge[] = {{1, 8, 144}, {129, 257, 1024}, {257, 1031, 4099}, {700, 2112, 640}};
constexpr Size kFew[] = {{1, 64, 256}, {7, 65, 144}, {33, 1031, 4099}, {128, 520, 2048}};
constexpr Size kThin[] = {{520, 24, 2048}, {1031, 33, 1040}};

class TmaKernels : public testing::TestWithParam<std::string> {};

// Parameter: scheme, accuracy, output, epilogue ("plain" or "fused"), separated by '|'.
TEST_P(TmaKernels, EveryTileAndEdge) {
  REQUIRE_GPU();
  std::vector<std::string> words;
  std::stringstream text(GetParam());
  for (std::string word; std::getline(text, word, '|');) {
    words.push_back(word);
  }
  Case c;
  c.scheme = words[0];
  c.accuracy = words[1] == "fast" ? SCALEGEMM_FAST : SCALEGEMM_PROMOTED;
  c.d_dtype = scalegemm_dtype_from_name(words[2].c_str());
  if (words[3] == "fused") {
    c.epilogue = {.alpha = 0.5f,
                  .beta = 2,
                  .c_dtype = SCALEGEMM_BF16,
                  .bias_dtype = SCALEGEMM_F32,
                  .activation = SCALEGEMM_ACT_RELU,
                  .has_clamp = 1,
                  .clamp_min = -1,
                  .clamp_max = 1000};
  }
  c.strides = Strides::kLines;
  uint64_t index = 0;
  for (const std::span<const Size> sizes :
       {std::span<const Size>(kLarge), std::span<const Size>(kFew), std::span<const Size>(kThin)}) {
    std::vector<std::string> kernels;
    for (const Size& size : sizes) {
      c.m = size.m;
      c.n = size.n;
      c.k = size.k;
      c.seed = ++index;
      for (const std::string& kernel : kernels_for(c, true)) {
        const bool strided = kernel.find("_strided") != std::string::npos;
        const bool thin = kernel.find("_persistent") == std::string::npos;
        // Each kind of kernel meets the sizes that it is for.
        if (thin == (sizes.data() == kLarge)) {
          continue;
        }
        const bool bytes =
            kernel.find("mxquant") != std::string::npos || kernel.find("e8m0") != std::string::npos;
        c.scale_order = strided && !bytes ? ScaleOrder::kDense : ScaleOrder::kLines;
        prove_all(c, options_for(kernel));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, TmaKernels,
                         testing::Values("rowcol|fast|bf16|plain", "rowcol|promoted|f16|plain",
                                         "rowcol:a=e5m2,b=e4m3|fast|f32|plain", "tensor|fast|bf16|plain",
                                         "tensor:a=e5m2|promoted|e4m3|plain",
                                         "abquant:bn=128|promoted|bf16|plain", "abquant|promoted|f32|plain",
                                         "abquant:g=64,bn=128|promoted|bf16|plain",
                                         "abquant:g=32|promoted|bf16|plain", "aquant|promoted|bf16|plain",
                                         "bquant:a=e4m3,b=e4m3,g=128,bn=128|promoted|e5m2|plain",
                                         "none|promoted|bf16|plain", "none:a=f16|promoted|f16|plain",
                                         "int8|promoted|bf16|plain", "mxfp8|promoted|bf16|plain",
                                         "mxfp8:a=e5m2,b=e4m3|promoted|f32|plain",
                                         "none:a=int8|promoted|int32|plain", "rowcol|fast|bf16|fused",
                                         "abquant:bn=128|promoted|bf16|fused", "none|promoted|bf16|fused"),
                         test_name);

Case plain_case(const char* scheme) {
  Case c;
  c.scheme = scheme;
  c.m = 100;
  c.n = 264;
  c.k = 1024;
  c.d_dtype = SCALEGEMM_BF16;
  c.strides = Strides::kLines;
  c.scale_order = ScaleOrder::kLines;
  return c;
}

// A run enqueues on the caller's stream, may be captured, and a replay on another stream gives the same bits.
TEST(CudaStreams, CaptureAndReplay) {
  REQUIRE_GPU();
  namespace cuda = device::cuda;
  for (const char* scheme : {"rowcol", "abquant:bn=128", "mxfp4"}) {
    const ProofOptions options = options_for("");
    Instance instance(runtime(), std::make_shared<CaseData>(make_case_data(plain_case(scheme))),
                      options.choice, 0xFF);
    instance.run();
    const std::vector<uint8_t> wanted = instance.output();

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
    instance.run_again(first);
    ASSERT_EQ(d.capture_end(first, &graph), 0);
    ASSERT_EQ(d.graph_instantiate(&exec, graph, 0), 0);
    instance.clear_output();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(d.graph_launch(exec, second), 0);
    }
    ASSERT_EQ(d.stream_synchronize(second), 0);
    EXPECT_EQ(instance.output(), wanted) << scheme;
    EXPECT_EQ(instance.check_memory(), "");
    d.graph_exec_destroy(exec);
    d.graph_destroy(graph);
    d.stream_destroy(first);
    d.stream_destroy(second);
  }
}

// TMA kernels by name, so that nothing else can take the run: operands in other layouts, with odd rows,
// padded strides and misaligned data are copied and give what the problem asks for.
class CopiedOperands : public testing::TestWithParam<const char*> {};

TEST_P(CopiedOperands, EveryLayoutAndEdge) {
  REQUIRE_GPU();
  for (const char* layout : {"rcr", "rrr", "crr", "ccr"}) {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 257},
                                  {7, 130, 129},
                                  {257, 131, 515},
                                  {128, 128, 250},
                                  {300, 17, 1031},
                                  {64, 264, 650}}) {
      for (const auto& [strides, place] :
           {std::pair(Strides::kDense, Place::kAligned), std::pair(Strides::kPadded, Place::kMisaligned)}) {
        Case c;
        c.scheme = GetParam();
        c.layout = layout;
        c.m = m, c.n = n, c.k = k;
        c.d_dtype = SCALEGEMM_F32;
        c.scale_order = ScaleOrder::kLines;
        c.strides = strides;
        c.place = place;
        if (place == Place::kMisaligned && std::string_view(GetParam()).starts_with("abquant")) {
          continue;  // its scales would be misaligned too, and those of short runs are not copied
        }
        const std::vector<std::string> kernels = kernels_for(c, true);
        ASSERT_FALSE(kernels.empty()) << to_string(c);
        prove_all(c, options_for(kernels.front()));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, CopiedOperands,
                         testing::Values("rowcol", "tensor:a=e5m2", "abquant:bn=128", "none", "none:a=f16",
                                         "int8"));

// Block scales in any order beside a long run: copied, not fetched by a slower kernel.
TEST(CudaPlans, BlockScalesAreCopiedForLongRuns) {
  REQUIRE_GPU();
  for (const char* scheme : {"abquant:bn=128", "abquant", "aquant"}) {
    Case c = plain_case(scheme);
    c.m = 1500;
    c.n = 2056;
    c.k = 3600;  // 29 blocks: lines of an odd length
    c.scale_order = ScaleOrder::kDense;
    const std::vector<std::string> kernels = kernels_for(c, true);
    ASSERT_FALSE(kernels.empty());
    prove_all(c, options_for(kernels.front()));
    prove_all(c, options_for(""));
  }
}

// A batch is launched element by element: strides between them, shared operands, and what one of them cannot
// address.
TEST(CudaPlans, TmaKernelsTakeBatches) {
  REQUIRE_GPU();
  for (const char* scheme : {"rowcol", "abquant:bn=128", "none", "int8"}) {
    for (const int64_t m : {5, 200}) {
      Case c = plain_case(scheme);
      c.m = m;
      c.batch = 3;
      const std::vector<std::string> kernels = kernels_for(c, true);
      ASSERT_FALSE(kernels.empty());
      prove_all(c, options_for(kernels.front()));
      prove_all(c, options_for(kernels.back()));
      prove_all(c, options_for(""));
    }
  }
}

// Strides and pointers that TMA cannot address are taken by the kernels behind the chosen one; a kernel asked
// for by name says what it needs.
TEST(CudaPlans, FallBackWhereTmaCannotAddress) {
  REQUIRE_GPU();
  Case c = plain_case("rowcol");
  c.strides = Strides::kPadded;
  c.place = Place::kMisaligned;
  prove_all(c, options_for(""));
  c = plain_case("abquant:bn=128");
  c.scale_order = ScaleOrder::kDense;
  prove_all(c, options_for(""));

  c = plain_case("rowcol");
  const std::vector<std::string> kernels = kernels_for(c, true);
  ASSERT_FALSE(kernels.empty());
  c.strides = Strides::kPadded;
  try {
    Instance instance(runtime(), std::make_shared<CaseData>(make_case_data(c)),
                      options_for(kernels[0]).choice, 0xFF);
    instance.run();
    FAIL() << "an unaligned row stride was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), SCALEGEMM_UNSUPPORTED);
    EXPECT_NE(std::string(error.what()).find("multiple of 16 bytes apart"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace scalegemm::harness
