// Arrays convert exactly as single values do, at every length and alignment.
#include "num/bulk.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace scalegemm::num {
namespace {

constexpr std::byte kPoison{0xA5};

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

std::vector<float> random_values(size_t count, DType type, std::mt19937& random) {
  std::vector<float> values(count);
  for (float& value : values) {
    switch (random() % 4) {
      case 0:  // any bits: huge, tiny, infinite, NaN
        value = std::bit_cast<float>(static_cast<uint32_t>(random()));
        break;
      case 1:  // midpoints and integers near the type's range
        value = static_cast<float>(static_cast<int>(random() % 1200) - 600) / 4.0f;
        break;
      default:  // about the range of the type, with its subnormals
        value = static_cast<float>(std::ldexp(static_cast<int>(random() % 8192) - 4096,
                                              -13 - static_cast<int>(random() % 20))) *
                std::min(info(type).max_finite, 1e30f) * 2.2f;
    }
  }
  return values;
}

TEST(Bulk, EncodeEqualsScalarAtEveryLength) {
  std::mt19937 random(2);
  for (const DTypeInfo& row : kDTypes) {
    for (size_t count = 0; count <= 70; ++count) {
      for (Overflow mode : {Overflow::kSaturate, Overflow::kIeee}) {
        const std::vector<float> values = random_values(count, row.type, random);
        const size_t bytes = storage_bytes(row.type, static_cast<int64_t>(count));
        std::vector<std::byte> codes(bytes + 2, kPoison);
        encode_array(row.type, values, mode, codes.data() + 1);  // misaligned by one byte
        EXPECT_EQ(codes.front(), kPoison);
        EXPECT_EQ(codes.back(), kPoison);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(load_code(row.type, codes.data() + 1, static_cast<int64_t>(i)),
                    encode(row.type, values[i], mode))
              << row.name << " " << values[i];
        }
      }
    }
  }
}

TEST(Bulk, LongArraysCrossTheNibbleBuffer) {
  std::mt19937 random(3);
  for (DType type : {DType::kE2m1, DType::kInt4, DType::kUint4}) {
    for (size_t count : {511u, 512u, 513u, 1025u, 4096u}) {
      const std::vector<float> values = random_values(count, type, random);
      std::vector<std::byte> codes(storage_bytes(type, static_cast<int64_t>(count)), kPoison);
      encode_array(type, values, Overflow::kSaturate, codes.data());
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(load_code(type, codes.data(), static_cast<int64_t>(i)),
                  encode(type, values[i], Overflow::kSaturate));
      }
      if (count % 2 != 0) {
        EXPECT_EQ(static_cast<int>(codes.back()) >> 4, 0);
      }
    }
  }
}

TEST(Bulk, DecodeEqualsScalarForEveryCode) {
  std::mt19937 random(4);
  for (const DTypeInfo& row : kDTypes) {
    const int64_t count = row.bits <= 16 ? int64_t{1} << row.bits : 100'000;
    std::vector<std::byte> codes(storage_bytes(row.type, count) + 1);
    for (int64_t i = 0; i < count; ++i) {
      store_code(row.type, codes.data() + 1, i,
                 row.bits <= 16 ? static_cast<uint32_t>(i) : static_cast<uint32_t>(random()));
    }
    std::vector<float> values(static_cast<size_t>(count));
    decode_array(row.type, codes.data() + 1, values);
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t code = load_code(row.type, codes.data() + 1, i);
      ASSERT_TRUE(same_bits(values[static_cast<size_t>(i)], decode(row.type, code)))
          << row.name << " " << code;
    }
  }
}

TEST(Bulk, DecodeOfAnyLengthWritesOnlyItsOutput) {
  for (const DTypeInfo& row : kDTypes) {
    for (size_t count = 0; count <= 9; ++count) {
      std::vector<std::byte> codes(storage_bytes(row.type, static_cast<int64_t>(count)), std::byte{0x21});
      std::vector<float> values(count + 1, -77.0f);
      decode_array(row.type, codes.data(), std::span(values).first(count));
      EXPECT_EQ(values[count], -77.0f) << row.name;
      for (size_t i = 0; i < count; ++i) {
        EXPECT_EQ(values[i], decode(row.type, load_code(row.type, codes.data(), static_cast<int64_t>(i))));
      }
    }
  }
}

TEST(Codes, StoreKeepsTheNeighbour) {
  std::byte two[2] = {std::byte{0x5A}, std::byte{0xC3}};
  store_code(DType::kInt4, two, 0, 0xF);
  EXPECT_EQ(two[0], std::byte{0x5F});
  store_code(DType::kInt4, two, 1, 0x12);  // bits above the code are dropped
  EXPECT_EQ(two[0], std::byte{0x2F});
  store_code(DType::kUint4, two, 3, 0x7);
  EXPECT_EQ(two[1], std::byte{0x73});
  EXPECT_EQ(load_code(DType::kUint4, two, 2), 0x3u);
  EXPECT_EQ(load_code(DType::kUint4, two, 3), 0x7u);
}

TEST(Codes, StorageBytes) {
  EXPECT_EQ(storage_bytes(DType::kInt4, 7), 4u);
  EXPECT_EQ(storage_bytes(DType::kBf16, 7), 14u);
}

}  // namespace
}  // namespace scalegemm::num
