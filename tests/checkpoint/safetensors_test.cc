#include "checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "checkpoint/file_maker.h"
#include "checkpoint/printable.h"

namespace scalegemm::checkpoint {
namespace {

using testing::Test;

constexpr std::string_view kTwoTensors = R"({"__metadata__":{"format":"pt"},)"
                                         R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
                                         R"("a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})";

std::string two_tensors() {
  return safetensors_file(kTwoTensors, "abcd" + std::string(24, 'x'));
}

TEST(Safetensors, ReadsNamesTypesShapesAndPlaces) {
  const Result<SafetensorsHeader> header = parse_safetensors(two_tensors());
  ASSERT_TRUE(header.ok()) << header.status().message();
  ASSERT_EQ(header->tensors.size(), 2U);
  const TensorInfo& first = header->tensors[0];  // in the order of the data
  EXPECT_EQ(first.name, "a");
  EXPECT_EQ(first.type->name, "I8");
  EXPECT_EQ(first.type->dtype, num::DType::kInt8);
  EXPECT_EQ(first.shape, std::vector<int64_t>{4});
  EXPECT_EQ(first.begin, 0U);
  EXPECT_EQ(first.end, 4U);
  const TensorInfo& second = header->tensors[1];
  EXPECT_EQ(second.name, "b");
  EXPECT_EQ(second.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header->metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(header->data_start, 8 + kTwoTensors.size());
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  const std::pair<std::string, std::string> files[] = {
      {"{}", ""},
      {"{}     \n", ""},
      {R"({"__metadata__":{}})", ""},
      {R"({"scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", "1234"},
      {R"({"empty":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]}})", ""},
      {R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"e":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
       "1"},
      {R"({"":{"shape":[1],"data_offsets":[0,1],"dtype":"U8"}})", "1"},
      {R"({"fp4":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}})", "123"},
      {R"({"fp6":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", "123"},
  };
  for (const auto& [json, data] : files) {
    const auto header = parse_safetensors(safetensors_file(json, data));
    EXPECT_TRUE(header.ok()) << json << ": " << header.status().message();
  }
}

TEST(Safetensors, DecodesEscapesInNames) {
  const auto header = parse_safetensors(
      safetensors_file(R"({"\u0041\n\u00e9":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1"));
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->tensors[0].name, "A\n\xc3\xa9");
}

TEST(Safetensors, TypeTableIsConsistent) {
  std::set<std::string_view> names;
  for (const SafetensorsType& row : safetensors_types()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(find_safetensors_type(row.name), &row);
    if (row.dtype) {
      EXPECT_EQ(num::info(*row.dtype).bits, row.bits) << row.name;
      EXPECT_EQ(safetensors_name(*row.dtype), row.name);
    }
    const int64_t eight[] = {8};
    const auto bytes = tensor_bytes(row, eight);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(*bytes, row.bits) << row.name;
  }
  EXPECT_EQ(names.size(), 22U);
  EXPECT_EQ(safetensors_name(num::DType::kE2m1), "F4");
  EXPECT_EQ(safetensors_name(num::DType::kInt4), std::nullopt);
}

struct Bad {
  std::string json;
  std::string data;
  std::string_view reason;  // a part of the message
};

std::string one(std::string_view fields) {
  return fmt::format(R"({{"x":{{{}}}}})", fields);
}

TEST(Safetensors, RefusesWithTheReason) {
  const std::string deep(1'000'000, '[');
  std::string deep_objects;
  for (int i = 0; i < 200'000; ++i) {
    deep_objects += R"({"a":)";
  }
  const std::string many_extents = std::string(R"("dtype":"U8","shape":[)") +
                                   std::string(66, '1').replace(1, 64,
                                                                [] {
                                                                  std::string s;
                                                                  for (int i = 0; i < 32; ++i) {
                                                                    s += ",1";
                                                                  }
                                                                  return s;
                                                                }()) +
                                   R"(],"data_offsets":[0,1])";
  const Bad cases[] = {
      {"[]", "", "start with '{'"},
      {" {}", "", "start with '{'"},
      {"", "", "start with '{'"},
      {"{", "", "not valid UTF-8 JSON"},
      {"{} x", "", "not valid UTF-8 JSON"},
      {"{}{}", "", "not valid UTF-8 JSON"},
      {std::string("{}\0\0", 4), "", "zero byte"},
      {"{\"\xff\":{}}", "", "not valid UTF-8 JSON"},
      {"{\"\xc0\xaf\":{}}", "", "not valid UTF-8 JSON"},
      {R"({"\ud800":{}})", "", "not valid UTF-8 JSON"},
      {R"({"x":)" + deep, "", "a list for 'x', needs an object"},
      {deep_objects, "", "unknown field 'a'"},
      {one(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"), "1", "tensor 'x'"},
      {one(R"("dtype":"U8","shape":{"a":1},"data_offsets":[0,1])"), "1", "an object in shape"},
      {R"({"x":1})", "", "a number for 'x', needs an object"},
      {R"({"x":null})", "", "null for 'x'"},
      {R"({"__metadata__":{"a":1}})", "", "a number for the metadata key 'a', needs a text"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "", "metadata key 'a' twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "", "__metadata__ twice"},
      {R"({"__metadata__":[]})", "", "needs an object"},
      {one(""), "", "not all of dtype"},
      {one(R"("dtype":"U8","shape":[1])"), "1", "not all of dtype"},
      {one(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])"), "1", "field dtype twice"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1])"), "1", "unknown field 'strides'"},
      {one(R"("dtype":"F128","shape":[1],"data_offsets":[0,16])"), std::string(16, '1'),
       "unknown dtype 'F128'"},
      {one(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])"), "1234", "unknown dtype 'f32'"},
      {one(R"("dtype":3,"shape":[1],"data_offsets":[0,4])"), "1234", "a number in dtype"},
      {one(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), "1", "negative number -1"},
      {one(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), "1", "no whole number"},
      {one(R"("dtype":"U8","shape":[1e99999],"data_offsets":[0,1])"), "1", "not valid UTF-8 JSON"},
      {one(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1])"), "1", "no whole number"},
      {one(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1])"), "1", "under 2^63"},
      {one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), "", "bad shape"},
      {one(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), "", "bad shape"},
      {one(R"("dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0])"), "", "bad shape"},
      {one(many_extents), "1", "more than 32 numbers in shape"},
      {one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), "12", "no whole number of bytes"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), "1", "1 data_offsets, needs 2"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,1])"), "1", "3 data_offsets, needs 2"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), "1", "needs 1 bytes"},
      {one(R"("dtype":"U8","shape":[2],"data_offsets":[0,1])"), "1", "needs 2 bytes"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551615,0])"), "1", "needs 1 bytes"},
      {one(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"), "1", "truncated"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), "12", "too long"},
      {one(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), "12", "a hole"},
      {R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "123", "an overlap"},
      {R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       "12", "tensor 'x' twice"},
  };
  for (const Bad& bad : cases) {
    const auto header = parse_safetensors(safetensors_file(bad.json, bad.data));
    ASSERT_FALSE(header.ok()) << bad.json.substr(0, 200);
    EXPECT_EQ(header.status().code(), Code::kCorruptData) << bad.json.substr(0, 200);
    EXPECT_NE(header.status().message().find(bad.reason), std::string::npos)
        << bad.json.substr(0, 200) << "\n  says: " << header.status().message();
  }
}

TEST(Safetensors, RefusesHeaderLengths) {
  const std::pair<std::string, std::string_view> cases[] = {
      {"", "at least 8 bytes"},
      {"1234567", "at least 8 bytes"},
      {little_endian(3, 8) + "{}", "only 2 follow"},
      {little_endian(kMaxHeaderBytes, 8) + "{}", "only 2 follow"},
      {little_endian(kMaxHeaderBytes + 1, 8) + "{}", "at most 100000000 bytes"},
      {little_endian(~uint64_t{0}, 8) + "{}", "at most 100000000 bytes"},
      {"PK\x03\x04 a zip file, as PyTorch writes", "is this a safetensors file?"},
  };
  for (const auto& [file, reason] : cases) {
    const auto header = parse_safetensors(file);
    ASSERT_FALSE(header.ok());
    EXPECT_EQ(header.status().code(), Code::kCorruptData);
    EXPECT_NE(header.status().message().find(reason), std::string::npos) << header.status().message();
  }
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string file = two_tensors();
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(parse_safetensors(std::string_view(file).substr(0, size)).ok()) << size;
  }
}

TEST(Safetensors, SurvivesEveryChangedHeaderByte) {
  const std::string good = two_tensors();
  int accepted = 0;
  for (size_t at = 0; at < 8 + kTwoTensors.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string file = good;
      file[at] = static_cast<char>(value);
      const auto header = parse_safetensors(file);
      if (!header.ok()) {
        EXPECT_FALSE(header.status().message().empty());
        continue;
      }
      ++accepted;
      for (const TensorInfo& tensor : header->tensors) {
        ASSERT_LE(tensor.begin, tensor.end);
        ASSERT_LE(header->data_start + tensor.end, file.size());
      }
    }
  }
  EXPECT_GT(accepted, 500);  // names and metadata may be almost anything
}

TEST(Safetensors, MessagesHoldNoControlCharacters) {
  const auto header = parse_safetensors(safetensors_file(
      "{\"\\u001b[2J" + std::string(5000, 'n') + R"(":{"dtype":"\u001b]0;title\u0007"}})", ""));
  ASSERT_FALSE(header.ok());
  const std::string& message = header.status().message();
  EXPECT_LT(message.size(), 400U);
  for (const char c : message) {
    EXPECT_TRUE(c >= ' ' && c <= '~') << static_cast<int>(c);
  }
  EXPECT_EQ(printable("a\x1b\xff'"), "'a\\x1b\\xff\\x27'");
  EXPECT_EQ(printable("abcdef", 3), "'abc...'");
}

class SafetensorsFile : public FolderTest {};

TEST_F(SafetensorsFile, OpensFindsAndGivesBytes) {
  const auto opened = Safetensors::open(write("two.safetensors", two_tensors()));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Safetensors moved = Result<Safetensors>(*Safetensors::open(path("two.safetensors"))).value();
  for (const Safetensors* file : {&*opened, &moved}) {
    ASSERT_NE(file->find("a"), nullptr);
    ASSERT_NE(file->find("b"), nullptr);
    EXPECT_EQ(file->find("c"), nullptr);
    EXPECT_EQ(file->find(""), nullptr);
    EXPECT_EQ(text_of(file->bytes(*file->find("a"))), "abcd");
    EXPECT_EQ(text_of(file->bytes(*file->find("b"))), std::string(24, 'x'));
  }
}

TEST_F(SafetensorsFile, ReadsTensorsThatAreNotAligned) {
  const std::string json = one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])");
  ASSERT_NE((8 + json.size()) % 4, 0U);
  const auto file =
      Safetensors::open(write("odd.safetensors", safetensors_file(json, little_endian(0x3f800000, 4))));
  ASSERT_TRUE(file.ok()) << file.status().message();
  float value = 0;
  std::memcpy(&value, file->bytes(file->tensors()[0]).data(), 4);
  EXPECT_EQ(value, 1.0F);
}

TEST_F(SafetensorsFile, NamesTheFileInFailures) {
  const auto opened = Safetensors::open(write("bad.safetensors", "1234567"));
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().message().find(path("bad.safetensors")), std::string::npos);
}

TEST_F(SafetensorsFile, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& name : {path(""), path("missing"), path("pipe"), std::string("/dev/null"),
                                  std::string("/dev/zero"), path("missing/file")}) {
    const auto opened = Safetensors::open(name);
    ASSERT_FALSE(opened.ok()) << name;
    EXPECT_EQ(opened.status().code(), Code::kIoError) << opened.status().message();
  }
  EXPECT_EQ(Safetensors::open(write("empty", "")).status().code(), Code::kCorruptData);
}

// A tensor of 5 GiB in a sparse file: offsets past 2^32, and no page of it is read but the last.
TEST_F(SafetensorsFile, ReadsTensorsOverFourGiB) {
  constexpr uint64_t kBig = 5ULL << 30;
  const std::string json =
      fmt::format(R"({{"big":{{"dtype":"U8","shape":[5,1073741824],"data_offsets":[0,{}]}},)"
                  R"("last":{{"dtype":"U8","shape":[4],"data_offsets":[{},{}]}}}})",
                  kBig, kBig, kBig + 4);
  const std::string name = write("big.safetensors", safetensors_file(json, ""));
  const base::UniqueFd fd(::open(name.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(fd);
  const auto start = static_cast<off_t>(8 + json.size());
  ASSERT_EQ(::pwrite(fd.get(), "Zlast", 5, start + static_cast<off_t>(kBig) - 1), 5);
  const auto file = Safetensors::open(name);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->bytes(*file->find("big")).size(), kBig);
  EXPECT_EQ(file->bytes(*file->find("big")).back(), std::byte{'Z'});
  EXPECT_EQ(text_of(file->bytes(*file->find("last"))), "last");
}

}  // namespace
}  // namespace scalegemm::checkpoint
