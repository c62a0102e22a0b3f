#include "checkpoint/safetensors_writer.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "checkpoint/file_maker.h"

namespace scalegemm::checkpoint {
namespace {

class SafetensorsWriterTest : public FolderTest {
 protected:
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path("")), {}));
  }

  Result<SafetensorsWriter> create(const std::vector<TensorSpec>& tensors) const {
    return SafetensorsWriter::create(path("out.safetensors"), tensors, {});
  }
};

TEST_F(SafetensorsWriterTest, WritesEveryTypeSoThatTheReaderAgrees) {
  std::vector<TensorSpec> specs;
  std::map<std::string, std::string> contents;
  for (const SafetensorsType& type : safetensors_types()) {
    const std::string name = fmt::format("layer.{}.\"weight\"\n", type.name);
    specs.push_back({.name = name, .type = type.name, .shape = {3, 8}});
    contents[name] = std::string(static_cast<size_t>(3 * type.bits), static_cast<char>('a' + specs.size()));
  }
  specs.push_back({.name = "scalar", .type = "F32", .shape = {}});
  contents["scalar"] = "1234";
  specs.push_back({.name = "empty", .type = "BF16", .shape = {0, 7}});
  contents["empty"] = "";
  const std::map<std::string, std::string> metadata = {{"scheme", "mxfp4"}, {"note", "\xc3\xa9"}};

  auto writer = SafetensorsWriter::create(path("out.safetensors"), specs, metadata);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const auto& [name, content] : contents) {
    const Status status = writer->write(name, bytes_of(content));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  ASSERT_TRUE(writer->finish().ok());

  const auto file = Safetensors::open(path("out.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->metadata(), metadata);
  ASSERT_EQ(file->tensors().size(), specs.size());
  for (const TensorSpec& spec : specs) {
    const TensorInfo* tensor = file->find(spec.name);
    ASSERT_NE(tensor, nullptr) << spec.name;
    EXPECT_EQ(tensor->type->name, spec.type);
    EXPECT_EQ(tensor->shape, spec.shape);
    EXPECT_EQ(text_of(file->bytes(*tensor)), contents[spec.name]);
    const size_t element = static_cast<size_t>(std::max(tensor->type->bits / 8, 1));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file->bytes(*tensor).data()) % element, 0U) << spec.name;
  }
  EXPECT_EQ(files(), 1U);
}

TEST_F(SafetensorsWriterTest, AnEmptyFileIsValid) {
  auto writer = create({});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto file = Safetensors::open(path("out.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->tensors().empty());
}

TEST_F(SafetensorsWriterTest, AnUnfinishedFileLeavesNothing) {
  write("out.safetensors", "old");
  {
    auto writer = create({{.name = "x", .type = "U8", .shape = {4}}});
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(files(), 2U);
    ASSERT_TRUE(writer->write("x", bytes_of("1234")).ok());
    EXPECT_EQ(read_all(path("out.safetensors")), "old");
  }
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(read_all(path("out.safetensors")), "old");
}

TEST_F(SafetensorsWriterTest, TwoWritersOfOnePathDoNotMix) {
  auto first = create({{.name = "first", .type = "U8", .shape = {1}}});
  auto second = create({{.name = "second", .type = "U8", .shape = {1}}});
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->write("first", bytes_of("1")).ok());
  ASSERT_TRUE(second->write("second", bytes_of("2")).ok());
  ASSERT_TRUE(second->finish().ok());
  ASSERT_TRUE(first->finish().ok());
  const auto file = Safetensors::open(path("out.safetensors"));
  ASSERT_TRUE(file.ok());
  EXPECT_NE(file->find("first"), nullptr);
  EXPECT_EQ(files(), 1U);
}

TEST_F(SafetensorsWriterTest, RefusesBadSpecsBeforeAnyFile) {
  const std::vector<std::vector<TensorSpec>> cases = {
      {{.name = "x", .type = "F31", .shape = {1}}},
      {{.name = "x", .type = "U8", .shape = {-1}}},
      {{.name = "x", .type = "U8", .shape = {int64_t{1} << 62, 4}}},
      {{.name = "x", .type = "U8", .shape = std::vector<int64_t>(33, 1)}},
      {{.name = "x", .type = "F4", .shape = {3}}},
      {{.name = "", .type = "U8", .shape = {1}}},
      {{.name = "__metadata__", .type = "U8", .shape = {1}}},
      {{.name = "x", .type = "U8", .shape = {1}}, {.name = "x", .type = "U8", .shape = {1}}},
      {{.name = "\xff", .type = "U8", .shape = {1}}},
      std::vector<TensorSpec>(1, {.name = std::string(kMaxHeaderBytes, 'n'), .type = "U8", .shape = {1}}),
  };
  for (const auto& specs : cases) {
    const auto writer = create(specs);
    ASSERT_FALSE(writer.ok()) << specs[0].name.substr(0, 10);
    EXPECT_EQ(writer.status().code(), Code::kInvalidArgument) << writer.status().message();
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(SafetensorsWriterTest, RefusesWrongWrites) {
  auto writer =
      create({{.name = "x", .type = "F16", .shape = {2}}, {.name = "y", .type = "U8", .shape = {1}}});
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer->write("z", bytes_of("1")).code(), Code::kInvalidArgument);
  EXPECT_EQ(writer->write("x", bytes_of("123")).code(), Code::kInvalidArgument);
  EXPECT_TRUE(writer->write("x", bytes_of("1234")).ok());
  EXPECT_EQ(writer->write("x", bytes_of("1234")).code(), Code::kInvalidArgument);
  const Status unfinished = writer->finish();
  EXPECT_EQ(unfinished.code(), Code::kInvalidArgument);
  EXPECT_NE(unfinished.message().find("'y'"), std::string::npos) << unfinished.message();
  EXPECT_FALSE(std::filesystem::exists(path("out.safetensors")));
}

TEST_F(SafetensorsWriterTest, RefusesPlacesThatAreNoFile) {
  for (const std::string& name : {path(""), path("missing/out"), std::string("/dev/null")}) {
    const auto writer = SafetensorsWriter::create(name, {}, {});
    ASSERT_FALSE(writer.ok()) << name;
    EXPECT_EQ(writer.status().code(), Code::kIoError);
  }
  struct stat info {};
  ASSERT_EQ(::stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
}

// A limit on the size of files stands for a full disk: the write fails half-way.
TEST_F(SafetensorsWriterTest, AFullDiskIsAnErrorAndLeavesNothing) {
  write("out.safetensors", "old");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tight { .rlim_cur = 1 << 16, .rlim_max = before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  Status status;
  {
    auto writer = create({{.name = "x", .type = "U8", .shape = {1 << 20}}});
    status = writer.ok() ? writer->write("x", bytes_of(std::string(1 << 20, 'x'))) : writer.status();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), Code::kIoError) << status.message();
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(read_all(path("out.safetensors")), "old");
}

}  // namespace
}  // namespace scalegemm::checkpoint
