#include <cstring>

#include "checkpoint/safetensors.h"
#include "fuzz/target.h"

namespace scalegemm::fuzz {
namespace {

std::string with_length(std::string_view json, size_t data_bytes) {
  const uint64_t length = json.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(json).append(data_bytes, 'd');
}

// The input with its header length put right, so that changes reach past it.
std::string repaired(std::string_view input) {
  std::string file(input);
  const size_t end = input.rfind('}');
  if (end != std::string_view::npos && end >= 8) {
    const uint64_t length = end + 1 - 8;
    std::memcpy(file.data(), &length, sizeof length);
  }
  return file;
}

// An accepted header describes exactly the file.
void check(const checkpoint::SafetensorsHeader& header, size_t file_bytes) {
  uint64_t next = 0;
  for (const checkpoint::TensorInfo& tensor : header.tensors) {
    require(tensor.begin == next && tensor.end >= next, "tensors tile the data");
    require(tensor.type != nullptr, "a tensor has a type");
    const Result<int64_t> bytes = checkpoint::tensor_bytes(*tensor.type, tensor.shape);
    require(bytes.ok() && static_cast<uint64_t>(*bytes) == tensor.end - tensor.begin,
            "a tensor has its size");
    next = tensor.end;
  }
  require(header.data_start + next == file_bytes, "the data ends with the file");
}

Verdict run_one(std::string_view file) {
  const Result<checkpoint::SafetensorsHeader> header = checkpoint::parse_safetensors(file);
  if (header.ok()) {
    check(*header, file.size());
    return {};
  }
  require(header.status().code() == Code::kCorruptData, "a refusal is corrupt data");
  require(!header.status().message().empty(), "a refusal has a message");
  require(header.status().message().size() < 1000, "a message is short");
  return header.status().message();
}

}  // namespace

Target safetensors_target() {
  return {
      .name = "safetensors",
      .seeds = {with_length("{}", 0),
                with_length(
                    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],)"
                    R"("data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]}} )",
                    26),
                with_length(
                    R"({"w":{"dtype":"F4","shape":[2,4],"data_offsets":[0,4]},"s":{"dtype":"F8_E8M0",)"
                    R"("shape":[2,1],"data_offsets":[4,6]},"e":{"dtype":"U8","shape":[0,9],)"
                    R"("data_offsets":[6,6]}})",
                    6)},
      .dictionary = {R"("dtype":)",
                     R"("shape":[)",
                     R"("data_offsets":[)",
                     R"("__metadata__":{)",
                     R"("F6_E2M3")",
                     R"("I64")",
                     R"("BOOL")",
                     R"("C64")",
                     "[[[[",
                     R"({"a":{"a":)",
                     R"("\u0000")",
                     R"("\ud800")",
                     "\xff\xfe",
                     "-1",
                     "1e308",
                     "18446744073709551615",
                     "9223372036854775807",
                     "null",
                     "true",
                     "}},",
                     "  ",
                     "\n"},
      .run =
          [](std::string_view input) {
            Verdict verdict = run_one(input);
            return verdict.empty() ? verdict : run_one(repaired(input));
          },
  };
}

}  // namespace scalegemm::fuzz
