#include "checkpoint/npy.h"

#include <sys/stat.h>

#include <filesystem>

#include "checkpoint/file_maker.h"
#include "checkpoint/safetensors.h"

namespace scalegemm::checkpoint {
namespace {

constexpr std::string_view kDict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n";

std::string dict_of(std::string_view descr, std::string_view order, std::string_view shape) {
  return fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}\n", descr, order, shape);
}

TEST(Npy, ReadsEveryVersion) {
  for (const int major : {1, 2, 3}) {
    const std::string file = npy_file(kDict, std::string(24, 'x'), major);
    const auto header = parse_npy(file);
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->type->code, "f4");
    EXPECT_EQ(header->type->dtype, num::DType::kF32);
    EXPECT_EQ(header->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_FALSE(header->fortran_order);
    EXPECT_EQ(header->data_start, file.size() - 24);
    EXPECT_EQ(header->data_bytes, 24U);
  }
}

TEST(Npy, ReadsWhatOtherWritersMayWrite) {
  struct Case {
    std::string dict;
    size_t bytes;
    std::vector<int64_t> shape;
    bool fortran;
  };
  const Case cases[] = {
      {dict_of("'<f8'", "True", "(2, 3)"), 48, {2, 3}, true},
      {dict_of("'|i1'", "False", "(5,)"), 5, {5}, false},
      {dict_of("'>u1'", "False", "(5,)"), 5, {5}, false},  // one byte has no order
      {dict_of("'=u2'", "False", "(5,)"), 10, {5}, false},
      {dict_of("'<c16'", "False", "()"), 16, {}, false},
      {dict_of("'<i8'", "False", "(0, 4)"), 0, {0, 4}, false},
      {"{\"shape\":(1,2),\"fortran_order\":False,\"descr\":\"<i4\"}", 8, {1, 2}, false},
      {" {\t'shape' : ( 1 , 2 , ) , 'fortran_order':False,'descr':'<i4'}\n\n", 8, {1, 2}, false},
  };
  for (const Case& c : cases) {
    const auto header = parse_npy(npy_file(c.dict, std::string(c.bytes, 'x')));
    ASSERT_TRUE(header.ok()) << c.dict << header.status().message();
    EXPECT_EQ(header->shape, c.shape);
    EXPECT_EQ(header->fortran_order, c.fortran);
    EXPECT_EQ(header->data_bytes, c.bytes);
  }
}

TEST(Npy, RefusesWithTheReason) {
  struct Case {
    std::string dict;
    Code code;
    std::string_view reason;
  };
  std::string extents = "(1";
  for (size_t i = 0; i < kMaxRank; ++i) {
    extents += ",1";
  }
  const Case cases[] = {
      {dict_of("'>f4'", "False", "(1,)"), Code::kUnsupported, "needs little-endian numbers, is '>f4'"},
      {dict_of("'|O'", "False", "(1,)"), Code::kUnsupported, "Python objects"},
      {dict_of("'<V2'", "False", "(1,)"), Code::kUnsupported, "raw bytes"},
      {dict_of("'<U5'", "False", "(1,)"), Code::kUnsupported, "text"},
      {dict_of("'<M8[ns]'", "False", "(1,)"), Code::kUnsupported, "dates"},
      {dict_of("[('a', '<f4')]", "False", "(1,)"), Code::kUnsupported, "structured type"},
      {dict_of("'<f16'", "False", "(1,)"), Code::kUnsupported, "'<f16' is not read"},
      {dict_of("'f4'", "False", "(1,)"), Code::kCorruptData, "byte order"},
      {dict_of("'<<f4'", "False", "(1,)"), Code::kCorruptData, "byte order"},
      {dict_of("''", "False", "(1,)"), Code::kCorruptData, "byte order"},
      {dict_of("4", "False", "(1,)"), Code::kCorruptData, "quoted text"},
      {dict_of("'<f4", "False", "(1,)"), Code::kUnsupported, "is not read"},
      {"{'descr': '<f4", Code::kCorruptData, "a text without end"},
      {dict_of("'<f4'", "Maybe", "(1,)"), Code::kCorruptData, "True or False"},
      {dict_of("'<f4'", "1", "(1,)"), Code::kCorruptData, "True or False"},
      {dict_of("'<f4'", "False", "1"), Code::kCorruptData, "needs '('"},
      {dict_of("'<f4'", "False", "(1)"), Code::kCorruptData, "tuple"},
      {dict_of("'<f4'", "False", "(1 2)"), Code::kCorruptData, "tuple"},
      {dict_of("'<f4'", "False", "(,)"), Code::kCorruptData, "needs extents"},
      {dict_of("'<f4'", "False", "(-1,)"), Code::kCorruptData, "needs extents"},
      {dict_of("'<f4'", "False", "(9223372036854775808,)"), Code::kCorruptData, "needs extents"},
      {dict_of("'<f4'", "False", "(4294967296, 4294967296)"), Code::kCorruptData, "2^63"},
      {dict_of("'<f4'", "False", "(4294967296, 4294967296, 0)"), Code::kCorruptData, "2^63"},
      {dict_of("'<f4'", "False", "((1,),)"), Code::kCorruptData, "needs extents"},
      {dict_of("'<f4'", "False", std::string(60000, '(')), Code::kCorruptData, "needs extents"},
      {dict_of("'<f4'", "False", extents + ")"), Code::kCorruptData, "at most 32"},
      {dict_of("'<f4'", "False", "(2,)"), Code::kCorruptData, "truncated"},
      {dict_of("'<f4'", "False", "(0,)"), Code::kCorruptData, "too long"},
      {"{'descr': '<f4', 'shape': (1,), }", Code::kCorruptData, "all of descr"},
      {"{'descr': '<f4', 'descr': '<f4', 'shape': (1,), }", Code::kCorruptData, "key descr twice"},
      {"{'descr': '<f4', 'x': 1}", Code::kCorruptData, "unknown key 'x'"},
      {"{'descr': '<f4' 'shape': (1,)}", Code::kCorruptData, "needs ',' or '}'"},
      {std::string(kDict.substr(0, 60)) + "; import os", Code::kCorruptData, "more after its dictionary"},
      {"{", Code::kCorruptData, "quoted text"},
      {"", Code::kCorruptData, "needs '{'"},
      {std::string(10, '\0'), Code::kCorruptData, "needs '{'"},
  };
  for (const Case& c : cases) {
    const auto header = parse_npy(npy_file(c.dict, "1234"));
    ASSERT_FALSE(header.ok()) << c.dict.substr(0, 100);
    EXPECT_EQ(header.status().code(), c.code) << c.dict.substr(0, 100) << header.status().message();
    const std::string& message = header.status().message();
    EXPECT_NE(message.find(c.reason), std::string::npos) << c.dict.substr(0, 100) << "\n  says: " << message;
  }
}

TEST(Npy, RefusesBadStarts) {
  const std::string good = npy_file(kDict, std::string(24, 'x'));
  std::string version = good;
  version[6] = 4;
  std::string length = npy_file(kDict, std::string(24, 'x'), 2);
  length[8] = length[9] = length[10] = length[11] = '\xff';
  const std::pair<std::string, std::string_view> cases[] = {
      {"", "needs to start with"},
      {"PK\x03\x04 a zip file, as npz", "needs to start with"},
      {version, "needs to be 1, 2 or 3, is 4"},
      {length, "at most 65535 bytes"},
  };
  for (const auto& [file, reason] : cases) {
    const auto header = parse_npy(file);
    ASSERT_FALSE(header.ok());
    EXPECT_NE(header.status().message().find(reason), std::string::npos) << header.status().message();
  }
}

TEST(Npy, RefusesEveryTruncationAndSurvivesEveryChange) {
  for (const int major : {1, 2, 3}) {
    const std::string good = npy_file(kDict, std::string(24, 'x'), major);
    for (size_t size = 0; size < good.size(); ++size) {
      EXPECT_FALSE(parse_npy(std::string_view(good).substr(0, size)).ok()) << size;
    }
    int accepted = 0;
    for (size_t at = 0; at < good.size() - 24; ++at) {
      for (int value = 0; value < 256; ++value) {
        std::string file = good;
        file[at] = static_cast<char>(value);
        const auto header = parse_npy(file);
        accepted += header.ok() ? 1 : 0;
        ASSERT_TRUE(!header.ok() || header->data_start + header->data_bytes == file.size());
      }
    }
    EXPECT_GT(accepted, 50);
  }
}

class NpyFile : public FolderTest {};

TEST_F(NpyFile, WritesEveryTypeSoThatTheReaderAgrees) {
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {7}, {2, 3}, {0, 5}, std::vector<int64_t>(kMaxRank, 1)};
  for (const NpyType& type : npy_types()) {
    EXPECT_EQ(find_npy_type(type.code), &type);
    for (const std::vector<int64_t>& shape : shapes) {
      size_t count = 1;
      for (const int64_t extent : shape) {
        count *= static_cast<size_t>(extent);
      }
      const std::string content(count * static_cast<size_t>(type.bytes), 'e');
      const Status status = write_npy(path("x.npy"), type.code, shape, bytes_of(content));
      ASSERT_TRUE(status.ok()) << status.message();
      const auto file = Npy::open(path("x.npy"));
      ASSERT_TRUE(file.ok()) << file.status().message();
      EXPECT_EQ(file->header().type, &type);
      EXPECT_EQ(file->header().shape, shape);
      EXPECT_FALSE(file->header().fortran_order);
      EXPECT_EQ(text_of(file->bytes()), content);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(file->bytes().data()) % 64, 0U);
    }
  }
}

TEST_F(NpyFile, RefusesWrongWritesAndLeavesTheOldFile) {
  write("x.npy", "old");
  const int64_t two[] = {2};
  const int64_t negative[] = {-2};
  EXPECT_EQ(write_npy(path("x.npy"), "f3", two, bytes_of("12345678")).code(), Code::kInvalidArgument);
  EXPECT_EQ(write_npy(path("x.npy"), "f4", two, bytes_of("1234567")).code(), Code::kInvalidArgument);
  EXPECT_EQ(write_npy(path("x.npy"), "f4", negative, bytes_of("")).code(), Code::kInvalidArgument);
  EXPECT_EQ(write_npy(path("missing/x.npy"), "f4", two, bytes_of("12345678")).code(), Code::kIoError);
  EXPECT_EQ(read_all(path("x.npy")), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("")), {}), 1);
}

TEST_F(NpyFile, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& name : {path(""), path("missing"), path("pipe"), std::string("/dev/zero")}) {
    const auto opened = Npy::open(name);
    ASSERT_FALSE(opened.ok()) << name;
    EXPECT_EQ(opened.status().code(), Code::kIoError) << opened.status().message();
  }
  EXPECT_EQ(Npy::open(write("empty", "")).status().code(), Code::kCorruptData);
}

}  // namespace
}  // namespace scalegemm::checkpoint
