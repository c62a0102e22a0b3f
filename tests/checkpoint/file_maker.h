// Makes the files of the tests by hand, byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "base/files.h"

namespace scalegemm::checkpoint {

// The `width` low bytes of `value`, little-endian.
inline std::string little_endian(uint64_t value, size_t width) {
  std::string out(width, '\0');
  std::memcpy(out.data(), &value, width);
  return out;
}

inline std::string safetensors_file(std::string_view json, std::string_view data) {
  return little_endian(json.size(), 8).append(json).append(data);
}

inline std::string npy_file(std::string_view dict, std::string_view data, int major = 1) {
  std::string out = "\x93NUMPY";
  out += {static_cast<char>(major), '\0'};
  return out.append(little_endian(dict.size(), major == 1 ? 2 : 4)).append(dict).append(data);
}

inline std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A test with a folder of its own.
class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<base::TempDir> made = base::TempDir::make("checkpoint-test");
    ASSERT_TRUE(made.ok()) << made.status().message();
    folder_.emplace(*std::move(made));
  }

  std::string path(const std::string& name) const { return folder_->path() + "/" + name; }

  std::string write(const std::string& name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::optional<base::TempDir> folder_;
};

}  // namespace scalegemm::checkpoint
