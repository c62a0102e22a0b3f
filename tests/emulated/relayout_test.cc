// The relayout kernel, with the jobs that the library gives it: every element arrives, lines are filled with
// zeros, nothing else is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "device.h"
// The kernel's header comes after CUDA's words.
#include "cuda/relayout.cuh"
#include "device/cuda/relayout.h"

namespace scalegemm::cuda {
namespace {

using device::cuda::OfParts;
using device::cuda::Part;
using device::cuda::Relayouter;

constexpr uint8_t kGuard = 0xA5;
constexpr size_t kRoom = 256;

void run(const SgRelayoutJobs& jobs) {
  for (u32 block = 0; block < jobs.end[SG_RELAYOUT_JOBS - 1]; ++block) {
    emulated::Cta::now().run(block, SG_RELAYOUT_THREADS, [&] { relayout(jobs); });
  }
}

// `lines` x `length` elements with the line's elements `along` apart and lines `between` apart.
struct Source {
  std::vector<uint8_t> bytes;
  int64_t between, along;

  Source(std::mt19937& random, int64_t lines, int64_t length, int element, bool transposed, int64_t room,
         size_t shift) {
    between = transposed ? 1 : length + room;
    along = transposed ? lines + room : 1;
    bytes.resize(static_cast<size_t>((lines * between + length * along) * element) + 16 + shift);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<uint8_t>(random()); });
  }
};

struct Copy {
  std::vector<uint8_t> memory;
  uint8_t* data;
  explicit Copy(uint64_t bytes) : memory(bytes + 2 * kRoom, kGuard) {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    data = memory.data() + (128 - address % 128);
  }
};

void expect_copy(const Copy& copy, uint64_t bytes, const Source& from, size_t shift, int64_t lines,
                 int64_t length, int element) {
  const int64_t pitch = (length * element + 15) / 16 * 16;
  const uint8_t* source = from.bytes.data() + shift;
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t i = 0; i < length; ++i) {
      ASSERT_TRUE(std::equal(copy.data + line * pitch + i * element,
                             copy.data + line * pitch + (i + 1) * element,
                             source + (line * from.between + i * from.along) * element))
          << "line " << line << " of " << lines << ", element " << i << " of " << length << ", " << element
          << " bytes, shift " << shift;
    }
    ASSERT_TRUE(std::all_of(copy.data + line * pitch + length * element, copy.data + (line + 1) * pitch,
                            [](uint8_t b) { return b == 0; }));
  }
  const auto is_guard = [](uint8_t b) { return b == kGuard; };
  EXPECT_TRUE(std::all_of(copy.memory.data(), static_cast<const uint8_t*>(copy.data), is_guard));
  EXPECT_TRUE(std::all_of(static_cast<const uint8_t*>(copy.data) + lines * pitch,
                          copy.memory.data() + copy.memory.size(), is_guard));
  EXPECT_GE(bytes, static_cast<uint64_t>(lines * pitch));
}

TEST(Relayout, OperandsOfEveryLayoutAndEdge) {
  std::mt19937 random(7);
  for (const num::DType type : {num::DType::kE4m3, num::DType::kBf16}) {
    const int element = num::info(type).bits / 8;
    for (const auto& [m, n, k] :
         {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 16}, {129, 131, 127}, {128, 64, 256}, {300, 17, 515}}) {
      for (const bool transposed : {false, true}) {
        for (const size_t shift : {size_t{0}, static_cast<size_t>(element), size_t{6}}) {
          const Source a(random, m, k, element, transposed, 3, shift);
          const Source b(random, n, k, element, transposed, 0, shift);
          SgGemm g{};
          g.m = m, g.n = n, g.k = k;
          g.a.data = a.bytes.data() + shift, g.a.stride_r = a.between, g.a.stride_k = a.along;
          g.b.data = b.bytes.data() + shift, g.b.stride_r = b.between, g.b.stride_k = b.along;
          g.a.dtype = g.b.dtype = static_cast<int32_t>(type);
          const SgCudaInfo info{};
          Copy to_a(Relayouter::bytes(g, info, Part::kA));
          Copy to_b(Relayouter::bytes(g, info, Part::kB));
          const uint64_t bytes_a = Relayouter::bytes(g, info, Part::kA);
          const uint64_t bytes_b = Relayouter::bytes(g, info, Part::kB);
          run(Relayouter::redirect(&g, info, {to_a.data, to_b.data, nullptr, nullptr}));
          expect_copy(to_a, bytes_a, a, shift, m, k, element);
          expect_copy(to_b, bytes_b, b, shift, n, k, element);
          EXPECT_EQ(g.a.data, to_a.data);
          EXPECT_EQ(g.a.stride_k, 1);
          EXPECT_EQ(g.b.stride_r * element % 16, 0);
        }
      }
    }
  }
}

// 1 x 128 scales of A become lines along rows, 128 x 128 scales of B lines along K.
TEST(Relayout, BlockScales) {
  std::mt19937 random(8);
  const int64_t m = 301, n = 700, k = 128 * 9 + 5, blocks = 10, groups = 6;
  const Source a(random, m, blocks, 4, false, 0, 0);  // as it lies: a line a row
  const Source b(random, groups, blocks, 4, false, 0, 0);
  SgGemm g{};
  g.m = m, g.n = n, g.k = k;
  g.a.dtype = g.b.dtype = SG_E4M3;
  g.a.scale.data = a.bytes.data();
  g.a.scale.stride_r = a.between, g.a.scale.stride_k = 1;
  g.b.scale.data = b.bytes.data();
  g.b.scale.stride_r = b.between, g.b.scale.stride_k = 1;
  SgCudaInfo info{};
  info.promote_k = 128;
  info.scale_a = SG_SCALE_BLOCK_1;
  info.scale_b = SG_SCALE_BLOCK_128;
  const uint64_t bytes_a = Relayouter::bytes(g, info, Part::kScaleA);
  const uint64_t bytes_b = Relayouter::bytes(g, info, Part::kScaleB);
  Copy to_a(bytes_a);
  Copy to_b(bytes_b);
  run(Relayouter::redirect(&g, info, {nullptr, nullptr, to_a.data, to_b.data}));
  Source turned = a;
  std::swap(turned.between, turned.along);
  expect_copy(to_a, bytes_a, turned, 0, blocks, m, 4);
  expect_copy(to_b, bytes_b, b, 0, groups, blocks, 4);
  EXPECT_EQ(g.a.scale.stride_r, 1);
  EXPECT_EQ(g.a.scale.stride_k, 304);
  EXPECT_EQ(g.b.scale.stride_r, 12);
  EXPECT_EQ(g.scale_bytes_a, 10 * 304 * 4);
}

}  // namespace
}  // namespace scalegemm::cuda
