// Writes what num makes of many inputs, for compare_ml_dtypes.py:
//
//   FOLDER/inputs.f32        every bf16 and every f16 value, f32 random bit patterns, special values
//   FOLDER/TYPE.decode.f32   the value of every code (of 8 bits: 256; 4 bits: 16; 16 bits: 65,536)
//   FOLDER/TYPE.ieee         codes of the inputs, one uint8 or uint16 each, Overflow::kIeee
//   FOLDER/TYPE.saturate     the same with Overflow::kSaturate
#include <bit>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "num/bulk.h"
#include "num/convert.h"

namespace {

using namespace scalegemm::num;  // NOLINT(google-build-using-namespace): the whole program is about it

constexpr DType kTypes[] = {DType::kF16,  DType::kBf16,     DType::kE4m3, DType::kE4m3Fnuz,
                            DType::kE5m2, DType::kE5m2Fnuz, DType::kE2m1, DType::kE8m0,
                            DType::kInt8, DType::kInt4,     DType::kUint4};

std::vector<float> make_inputs() {
  std::vector<float> inputs;
  for (DType type : {DType::kBf16, DType::kF16}) {
    for (uint32_t code = 0; code < 65'536; ++code) {
      inputs.push_back(decode(type, code));
    }
  }
  std::mt19937 random(20);
  for (int i = 0; i < 1'000'000; ++i) {
    inputs.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  // Random bits seldom fall into the narrow range of 8- and 4-bit types: half as many again that do.
  for (int i = 0; i < 500'000; ++i) {
    const uint32_t exponent = 100 + static_cast<uint32_t>(random()) % 50;
    const uint32_t sign_and_mantissa = static_cast<uint32_t>(random()) & 0x807F'FFFFu;
    inputs.push_back(std::bit_cast<float>(sign_and_mantissa | exponent << 23));
  }
  for (float special : {0.0f, -0.0f, std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN(), 0x1.fffffep127f, 0x1p-149f, 6e-38f}) {
    inputs.push_back(special);
    inputs.push_back(-special);
  }
  return inputs;
}

template <class T>
bool write(const std::string& path, const std::vector<T>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
  return static_cast<bool>(file);
}

template <class Code>
bool write_codes(const std::string& stem, DType type, const std::vector<float>& inputs) {
  bool good = true;
  for (Overflow mode : {Overflow::kIeee, Overflow::kSaturate}) {
    std::vector<std::byte> packed(storage_bytes(type, static_cast<int64_t>(inputs.size())));
    encode_array(type, inputs, mode, packed.data());
    std::vector<Code> codes(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      codes[i] = static_cast<Code>(load_code(type, packed.data(), static_cast<int64_t>(i)));
    }
    good = write(stem + (mode == Overflow::kIeee ? ".ieee" : ".saturate"), codes) && good;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: dump_conversions FOLDER\n");
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/";
  const std::vector<float> inputs = make_inputs();
  bool good = write(folder + "inputs.f32", inputs);
  for (DType type : kTypes) {
    const std::string stem = folder + std::string(name(type));
    std::vector<float> values;
    for (uint32_t code = 0; code < 1u << info(type).bits; ++code) {
      values.push_back(decode(type, code));
    }
    good = write(stem + ".decode.f32", values) && good;
    good = (info(type).bits == 16 ? write_codes<uint16_t>(stem, type, inputs)
                                  : write_codes<uint8_t>(stem, type, inputs)) &&
           good;
  }
  if (!good) {
    std::fprintf(stderr, "dump_conversions: cannot write into %s\n", argv[1]);
  }
  return good ? 0 : 1;
}
