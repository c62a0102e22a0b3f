#include <cstring>

#include "checkpoint/npy.h"
#include "checkpoint/safetensors.h"
#include "fuzz/target.h"

namespace scalegemm::fuzz {
namespace {

std::string file_of(int major, std::string_view dict, size_t data_bytes) {
  const uint32_t length = static_cast<uint32_t>(dict.size());
  const size_t width = major == 1 ? 2 : 4;
  std::string file = "\x93NUMPY";
  file += {static_cast<char>(major), '\0'};
  file.append(width, '\0');
  std::memcpy(file.data() + 8, &length, width);
  return file.append(dict).append(data_bytes, 'd');
}

// The input with magic, version and header length put right.
std::string repaired(std::string_view input) {
  const size_t begin = input.find('{');
  const size_t end = input.rfind('}');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    return std::string(input);
  }
  return file_of(2, input.substr(begin, end + 1 - begin), 0).append(input.substr(end + 1));
}

Verdict run_one(std::string_view file) {
  const Result<checkpoint::NpyHeader> header = checkpoint::parse_npy(file);
  if (!header.ok()) {
    const Code code = header.status().code();
    require(code == Code::kCorruptData || code == Code::kUnsupported, "a refusal is corrupt or unsupported");
    require(!header.status().message().empty(), "a refusal has a message");
    require(header.status().message().size() < 1000, "a message is short");
    return header.status().message();
  }
  require(header->type != nullptr, "an array has a type");
  require(header->shape.size() <= checkpoint::kMaxRank, "the rank is bounded");
  uint64_t elements = 1;
  for (const int64_t extent : header->shape) {
    require(extent >= 0, "no extent is negative");
    elements *= static_cast<uint64_t>(extent);
  }
  require(elements * static_cast<uint64_t>(header->type->bytes) == header->data_bytes,
          "the array has its size");
  require(header->data_start + header->data_bytes == file.size(), "the array ends with the file");
  return {};
}

}  // namespace

Target npy_target() {
  return {
      .name = "npy",
      .seeds = {file_of(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }     \n", 24),
                file_of(2, "{'descr': '|u1', 'fortran_order': True, 'shape': (), }\n", 1),
                file_of(3, "{\"shape\":(0,7),\"descr\":\"<i8\",\"fortran_order\":False}", 0)},
      .dictionary = {"'descr':",
                     "'shape':",
                     "'fortran_order':",
                     "True",
                     "False",
                     "(",
                     "()",
                     "(1,)",
                     "((",
                     ",)",
                     "'",
                     "'<f2'",
                     "'>f4'",
                     "'|O'",
                     "'<V2'",
                     "[('a','<f4')]",
                     "9223372036854775807",
                     "18446744073709551616",
                     "-1",
                     "0x10",
                     "\n",
                     "}",
                     std::string_view("\0", 1)},
      .run =
          [](std::string_view input) {
            Verdict verdict = run_one(input);
            return verdict.empty() ? verdict : run_one(repaired(input));
          },
  };
}

}  // namespace scalegemm::fuzz
