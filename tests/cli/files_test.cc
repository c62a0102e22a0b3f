// quantize, pack, run, bench, evaluate: what they write, and what they say about files that are missing,
// damaged or cannot be written.
#include <sys/stat.h>

#include <cmath>
#include <cstring>

#include "cli/run_cli.h"
#include "harness/data.h"

namespace scalegemm::cli_test {
namespace {

// f32 tensors as a safetensors file.
struct Tensor {
  std::string name;
  int64_t rows;
  int64_t cols;
};

void write_model(const std::string& path, const std::vector<Tensor>& tensors) {
  std::vector<std::vector<float>> values;
  std::vector<scalegemm_file_tensor> list;
  for (const Tensor& tensor : tensors) {
    values.push_back(
        harness::normal_values(harness::Fill::kRandom, harness::Side::kB, tensor.rows, tensor.cols, 3));
    scalegemm_file_tensor out{};
    out.name = tensor.name.c_str();
    out.dtype = SCALEGEMM_F32;
    out.rank = 2;
    out.shape[0] = tensor.rows;
    out.shape[1] = tensor.cols;
    out.data = values.back().data();
    out.bytes = values.back().size() * sizeof(float);
    list.push_back(out);
  }
  check(scalegemm_file_write(path.c_str(), list.data(), static_cast<int64_t>(list.size())));
}

class FilesTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    write_model(path("model.safetensors"), {{"layer.0.up.weight", 96, 64},
                                            {"layer.0.down.weight", 64, 96},
                                            {"layer.1.up.weight", 96, 64},
                                            {"embeddings.word", 300, 64}});
    write_model(path("one.safetensors"), {{"w", 48, 64}});
  }
};

TEST_F(FilesTest, QuantizePackUnpackIsTheSame) {
  for (const char* scheme : {"mxfp4", "nvfp4", "bquant:b=uint4,g=32,zero=uint4", "bquant:b=int4,g=all",
                             "int8", "abquant:bn=32", "none:a=bf16"}) {
    const std::string option = std::string(" --scheme ") + scheme;
    Output output = run("quantize one.safetensors q.safetensors" + option);
    ASSERT_EQ(output.exit_code, 0) << scheme << output.err;
    output = run("pack q.safetensors -o q.sgp" + option);
    ASSERT_EQ(output.exit_code, 0) << scheme << output.err;
    output = run("pack one.safetensors -o direct.sgp" + option);
    ASSERT_EQ(output.exit_code, 0) << scheme << output.err;
    EXPECT_EQ(read_file(path("q.sgp")), read_file(path("direct.sgp"))) << scheme;
    output = run("pack q.sgp --unpack -o back.safetensors");
    ASSERT_EQ(output.exit_code, 0) << scheme << output.err;
    output = run("pack back.safetensors -o again.sgp" + option);
    ASSERT_EQ(output.exit_code, 0) << scheme << output.err;
    EXPECT_EQ(read_file(path("q.sgp")), read_file(path("again.sgp"))) << scheme;
  }
}

// Codes of the same size under another meaning are refused, not read as something else.
TEST_F(FilesTest, PackRefusesTheSchemeOfAnotherFile) {
  ASSERT_EQ(run("quantize one.safetensors q.safetensors --scheme bquant:b=uint4,g=32,zero=uint4").exit_code,
            0);
  for (const char* scheme :
       {"bquant:b=int4,g=32", "bquant:b=uint4,g=32,zero=int4", "bquant:b=uint4,g=32,zero=int8"}) {
    const Output output = run(std::string("pack q.safetensors -o q.sgp --scheme ") + scheme);
    EXPECT_EQ(output.exit_code, 1) << scheme;
    EXPECT_NE(output.err.find("give the --scheme that the file was quantised with"), std::string::npos)
        << output.err;
  }
}

TEST_F(FilesTest, QuantizeReportsAndCopies) {
  const Json json =
      run_json("quantize model.safetensors q.safetensors --scheme mxfp4 --tensor layer.0.up.weight");
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"scheme", "operand", "tensors"}));
  ASSERT_EQ(json["tensors"].size(), 1u);
  EXPECT_DOUBLE_EQ(json["tensors"][0]["bits_per_value"].get<double>(), 4.25);
  // 4-bit floats of normal data: about 17 to 20 dB.
  EXPECT_GT(json["tensors"][0]["sqnr_db"].get<double>(), 14);
  EXPECT_LT(json["tensors"][0]["sqnr_db"].get<double>(), 24);
  const File file(path("q.safetensors"));
  std::vector<std::string> names;
  for (const auto& tensor : file.tensors()) {
    names.emplace_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"embeddings.word", "layer.0.down.weight", "layer.0.up.weight",
                                             "layer.0.up.weight.scale", "layer.1.up.weight"}));
}

TEST_F(FilesTest, InspectSaysWhatAPackedFileHolds) {
  ASSERT_EQ(run("pack one.safetensors -o w.sgp --scheme mxfp4").exit_code, 0);
  const Json json = run_json("pack w.sgp --inspect");
  EXPECT_EQ(json["n"], 48);
  EXPECT_EQ(json["k"], 64);
  EXPECT_EQ(json["operand"]["dtype"], "e2m1");
  EXPECT_EQ(json["digest"].get<std::string>().size(), 32u);
  // One flipped bit anywhere is found.
  std::string bytes = read_file(path("w.sgp"));
  for (size_t at : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    write_file(path("bad.sgp"), damaged);
    expect_error("pack bad.sgp --inspect", 1, {"bad.sgp"});
  }
  write_file(path("bad.sgp"), bytes.substr(0, bytes.size() / 2));
  expect_error("pack bad.sgp --unpack -o x.safetensors", 1, {"bad.sgp"});
  EXPECT_FALSE(std::filesystem::exists(path("x.safetensors")));
}

TEST_F(FilesTest, RunMultipliesFiles) {
  // Small integers: none:a=f32 gives the exact product.
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<float> b = {1, 0, -1, 2, 2, 2};
  for (const auto& [name, values] : {std::pair{"a", a}, {"b", b}}) {
    scalegemm_file_tensor out{};
    out.name = name;
    out.dtype = SCALEGEMM_F32;
    out.rank = 2;
    out.shape[0] = 2;
    out.shape[1] = 3;
    out.data = values.data();
    out.bytes = values.size() * sizeof(float);
    check(scalegemm_file_write(path(std::string(name) + ".npy").c_str(), &out, 1));
  }
  const Output output = run("run --a a.npy --b b.npy --scheme none:a=f32 -o d.npy");
  ASSERT_EQ(output.exit_code, 0) << output.err;
  const File file(path("d.npy"));
  const scalegemm_file_tensor d = file.tensors().at(0);
  ASSERT_EQ(d.bytes, 4 * sizeof(float));
  float values[4];
  std::memcpy(values, d.data, sizeof(values));
  EXPECT_EQ(values[0], -2);
  EXPECT_EQ(values[1], 12);
  EXPECT_EQ(values[2], -2);
  EXPECT_EQ(values[3], 30);
  expect_error("run --a a.npy --b b.npy --k 4 --scheme none:a=f32", 2, {"--a", "2 x 4", "2 x 3"});
  expect_error("run --scheme none:a=f32", 2, {"--m"});
}

TEST_F(FilesTest, BenchWritesWhatTheIssueSays) {
  write_file(path("suite.csv"), "name,m,n,k\nsmall,3,40,64\nother,1,64,128\n");
  const Output output = run(
      "bench --suite suite.csv --scheme mxfp4 --scheme none:a=f32 --threads 1 --budget 0.02 --json out.json "
      "--csv out.csv");
  ASSERT_EQ(output.exit_code, 0) << output.err << output.out;
  const Json json = Json::parse(read_file(path("out.json")), nullptr, false);
  for (const char* field : {"device", "ceilings", "ceilings_after", "moved", "results"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  ASSERT_EQ(json["results"].size(), 4u);
  for (const Json& result : json["results"]) {
    for (const char* field : {"name", "m", "n", "k", "scheme", "kernel", "median_us", "mad_us", "gops",
                              "gbps", "share_of_ceiling", "verified"}) {
      EXPECT_TRUE(result.contains(field)) << field;
    }
    EXPECT_TRUE(result["verified"].get<bool>());
    EXPECT_GT(result["median_us"].get<double>(), 0);
    EXPECT_GT(result["host_us"].get<double>(), 0);
    // Absent where the probes before and after disagree, which this machine may do.
    EXPECT_TRUE(result["share_of_ceiling"].is_null() ? !json["moved"].empty()
                                                     : result["share_of_ceiling"].get<double>() > 0);
  }
  EXPECT_EQ(json["results"][0]["name"], "small");
  const std::string csv = read_file(path("out.csv"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 6);
  EXPECT_EQ(run("bench --m 2 --n 32 --k 64 --scheme all --budget 0.005 --warm").exit_code, 0);
}

TEST_F(FilesTest, BenchRefuses) {
  expect_error("bench --scheme mxfp4", 2, {"--suite", "--m"});
  expect_error("bench --m 3 --n 4 --scheme mxfp4", 2, {"--k 0"});
  expect_error("bench --suite nothing.csv --scheme mxfp4", 1, {"nothing.csv"});
  expect_error("bench --suite model.safetensors --scheme mxfp4", 1, {"name,m,n,k"});
  write_file(path("bad.csv"), "name,m,n,k\nx,0,2,2\n");
  expect_error("bench --suite bad.csv --scheme mxfp4", 1, {"bad.csv", "column m", "given \"0\""});
  expect_error("bench --m 2 --n 2 --k 2 --scheme mxfp5", 2, {"mxfp5"});
  // A scheme that a shape cannot have is a failure of that row.
  const Output odd = run("bench --m 2 --n 2 --k 3 --scheme mxfp4 --budget 0.01");
  EXPECT_EQ(odd.exit_code, 1);
  EXPECT_NE(odd.out.find("even K"), std::string::npos) << odd.out;
}

TEST_F(FilesTest, EvaluateReportsEveryScheme) {
  const Output output =
      run("evaluate model.safetensors --m 1,5 --budget 0.001 --csv e.csv --json e.json --by-shape");
  ASSERT_EQ(output.exit_code, 0) << output.err << output.out;
  EXPECT_NE(output.out.find("embeddings.word (300 x 64): a lookup table"), std::string::npos) << output.out;
  const Json json = Json::parse(read_file(path("e.json")), nullptr, false);
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"model", "version", "device", "threads", "complete",
                                                     "seconds", "left_out", "shapes", "summary", "results"}));
  EXPECT_TRUE(json["complete"].get<bool>());
  ASSERT_EQ(json["shapes"].size(), 2u);
  const size_t schemes = json["summary"].size();
  EXPECT_GE(schemes, 12u);
  EXPECT_EQ(json["results"].size(), schemes * 2 * 2);
  EXPECT_EQ(json["summary"][0]["scheme"], "none:a=f32");
  for (const Json& row : json["summary"]) {
    EXPECT_TRUE(row["problems"].empty()) << row.dump(2);
    EXPECT_LE(row["worst_error_over_bound"].get<double>(), 1.0);
    EXPECT_GT(row["speed"][1]["gops"].get<double>(), 0);
    EXPECT_GT(row["memory_bytes"].get<double>(), 0);
    EXPECT_NE(output.out.find(row["scheme"].get<std::string>()), std::string::npos);
  }
  const std::string csv = read_file(path("e.csv"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'),
            static_cast<std::ptrdiff_t>(2 + json["results"].size()));
  const Json two =
      run_json("evaluate model.safetensors --schemes mxfp4,int8 --m 2 --budget 0.001 --embeddings");
  EXPECT_EQ(two["summary"].size(), 3u);
  EXPECT_EQ(two["shapes"].size(), 3u);
  EXPECT_EQ(
      run_json("evaluate model.safetensors --schemes int8 --m 2 --budget 0.001 --max-shapes 1")["shapes"]
          .size(),
      1u);
}

// Ctrl-C leaves a result that says it is partial, and files that can be read.
TEST_F(FilesTest, EvaluateInterruptedIsUsable) {
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < 100; ++i) {  // far more than three seconds of work
    tensors.push_back({std::string("w").append(std::to_string(i)), 400 + i, 256});
  }
  write_model(path("long.safetensors"), tensors);
  const Output output = run("evaluate long.safetensors --m 1,2,3,4,5,6,7,8 --json e.json --csv e.csv",
                            "timeout --preserve-status -s INT 3 env");
  EXPECT_EQ(output.exit_code, 1) << output.err;
  EXPECT_NE(output.out.find("Interrupted"), std::string::npos) << output.out << output.err;
  const Json json = Json::parse(read_file(path("e.json")), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_FALSE(json["complete"].get<bool>());
  EXPECT_GE(json["results"].size(), 1u);
  EXPECT_NE(read_file(path("e.csv")).find("interrupted"), std::string::npos);
}

// Weights of 130 x 200 in e4m3 with a scale a block of 128 x 128, the last ones partial; and one without.
void write_deepseek(const std::string& path) {
  const std::vector<uint8_t> codes(size_t{130} * 200, 0x38);  // 1.0
  const std::vector<float> scales = {1, 2, 3, 4};
  std::vector<scalegemm_file_tensor> list(3);
  list[0] = {"x.weight", nullptr, SCALEGEMM_E4M3, 2, {130, 200}, codes.data(), codes.size(), 0, 0};
  list[1] = {"x.weight_scale_inv", nullptr, SCALEGEMM_F32, 2, {2, 2}, scales.data(), 16, 0, 0};
  list[2] = {"y.weight", nullptr, SCALEGEMM_E4M3, 2, {130, 200}, codes.data(), codes.size(), 0, 0};
  check(scalegemm_file_write(path.c_str(), list.data(), 3));
}

TEST_F(FilesTest, InspectSaysWhatIsThereAndWhatRunsIt) {
  const Json plain = run_json("inspect model.safetensors");
  EXPECT_EQ(keys_of(plain), (std::vector<std::string>{"path", "device", "layers", "left_out", "bytes"}));
  ASSERT_EQ(plain["layers"].size(), 4u);
  EXPECT_EQ(plain["layers"][1]["name"], "layer.0.down");
  EXPECT_EQ(plain["layers"][1]["scheme"], "none:a=f32");
  EXPECT_TRUE(plain["layers"][1]["kernel"].is_string());
  const Json elsewhere = run_json("inspect model.safetensors --target sm_90a");
  EXPECT_EQ(elsewhere["device"], "sm_90a");
  EXPECT_NE(elsewhere["layers"][1]["kernel"].get<std::string>().find("_sm90a"), std::string::npos);
  expect_error("inspect model.safetensors --target sm_1", 2, {"--target", "sm_1"});

  std::filesystem::create_directory(path("deepseek"));
  write_deepseek(path("deepseek/model.safetensors"));
  write_file(path("deepseek/config.json"),
             R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})");
  const Output output = run("inspect deepseek --json d.json");
  EXPECT_EQ(output.exit_code, 1);  // a weight without its scale is no plain one
  EXPECT_NE(output.out.find("cannot be read: layer 'y'"), std::string::npos) << output.out;
  const Json json = Json::parse(read_file(path("d.json")), nullptr, false);
  ASSERT_EQ(json["layers"].size(), 2u);
  EXPECT_EQ(json["layers"][0]["scheme"], "abquant:bn=128");
  EXPECT_EQ(json["layers"][0]["bytes"], 130 * 200 + 16);
  EXPECT_TRUE(json["layers"][0]["kernel"].is_string());
  EXPECT_EQ(json["layers"][0]["operand"]["scale"]["block_k"], 128);

  const Json evaluated = run_json("evaluate deepseek --schemes abquant:bn=128 --m 2 --budget 0.001");
  ASSERT_EQ(evaluated["shapes"].size(), 1u);
  EXPECT_EQ(evaluated["shapes"][0]["n"], 130);
  ASSERT_EQ(evaluated["left_out"].size(), 1u);
  EXPECT_NE(evaluated["left_out"][0].get<std::string>().find("'y'"), std::string::npos);
  EXPECT_TRUE(evaluated["results"][0]["verified"].get<bool>());

  expect_error("inspect nothing.gguf", 1, {"nothing.gguf"});
  write_file(path("cut.gguf"), "GGUF");
  expect_error("inspect cut.gguf", 1, {"cut.gguf", "truncated"});
}

// Column sums of 128 x 128 blocks of ones with scales 1 to 4: exact in f32.
TEST_F(FilesTest, RunTakesALayerOfACheckpoint) {
  std::filesystem::create_directory(path("deepseek"));
  write_deepseek(path("deepseek/model.safetensors"));
  write_file(path("deepseek/config.json"),
             R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})");
  const std::vector<float> ones(200, 448);  // whose scales are 1
  scalegemm_file_tensor a{"a", nullptr, SCALEGEMM_F32, 2, {1, 200}, ones.data(), 800, 0, 0};
  check(scalegemm_file_write(path("a.npy").c_str(), &a, 1));
  const Output output = run("run --model deepseek --layer x --a a.npy --packing packed -o d.npy");
  ASSERT_EQ(output.exit_code, 0) << output.err;
  EXPECT_NE(output.out.find("--scheme abquant:bn=128"), std::string::npos) << output.out;
  const File file(path("d.npy"));
  const scalegemm_file_tensor d = file.tensors().at(0);
  ASSERT_EQ(d.bytes, 130 * sizeof(float));
  std::vector<float> values(130);
  std::memcpy(values.data(), d.data, d.bytes);
  EXPECT_EQ(values[0], 448.0f * (128 * 1 + 72 * 2));
  EXPECT_EQ(values[127], values[0]);
  EXPECT_EQ(values[128], 448.0f * (128 * 3 + 72 * 4));
  EXPECT_EQ(values[129], values[128]);
  // Other activations for the same weights are the user's choice; other weights are not.
  expect_error("run --model deepseek --layer x --m 2 --scheme int8", 2,
               {"--scheme", "abquant:bn=128", "int8"});
  expect_error("run --model deepseek --layer x --member 1 --m 2", 2, {"--member", "less than 1"});
  expect_error("run --model deepseek --layer z --m 2", 1, {"deepseek", "\"z\"", "it holds x, y"});
  expect_error("run --model deepseek --layer y --m 2", 1, {"'y'"});
  expect_error("run --model deepseek --layer x --m 2 --n 5", 2, {"--model", "5 x 200", "130 x 200"});
  expect_error("run --model deepseek --layer x --b a.npy", 2, {"--model", "--b"});
  expect_error("run --model deepseek --m 2", 2, {"--layer"});
  expect_error("run --m 2 --n 2 --k 2", 2, {"--scheme"});
}

// Act-order: the columns of A follow those of the weight.
TEST_F(FilesTest, RunGathersColumnsOfActOrder) {
  // GPTQ v2 of 8 x 16, groups of 8 whose members alternate; every code 3, zero points 2, scales 1 and 4.
  const std::vector<uint32_t> codes(2 * 8, 0x33333333);
  const std::vector<uint32_t> zeros(2, 0x22222222);
  std::vector<uint16_t> scales(16, 0x3C00);  // 1 in f16
  std::fill(scales.begin() + 8, scales.end(), uint16_t{0x4400});
  std::vector<int32_t> groups(16);
  std::vector<float> a(16);
  float expected = 0;
  for (size_t k = 0; k < 16; ++k) {
    groups[k] = static_cast<int32_t>(k % 2);
    a[k] = static_cast<float>(k + 1);
    expected += a[k] * (k % 2 == 0 ? 1 : 4);
  }
  std::filesystem::create_directory(path("gptq"));
  std::vector<scalegemm_file_tensor> list(4);
  list[0] = {"x.qweight", "I32", SCALEGEMM_INT32, 2, {2, 8}, codes.data(), 64, 0, 0};
  list[1] = {"x.qzeros", "I32", SCALEGEMM_INT32, 2, {2, 1}, zeros.data(), 8, 0, 0};
  list[2] = {"x.scales", "F16", SCALEGEMM_F16, 2, {2, 8}, scales.data(), 32, 0, 0};
  list[3] = {"x.g_idx", "I32", SCALEGEMM_INT32, 1, {16}, groups.data(), 64, 0, 0};
  check(scalegemm_file_write(path("gptq/model.safetensors").c_str(), list.data(), 4));
  write_file(
      path("gptq/config.json"),
      R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 8, "desc_act": true,)"
      R"( "sym": true, "checkpoint_format": "gptq_v2"}})");
  scalegemm_file_tensor rows{"a", nullptr, SCALEGEMM_F32, 2, {1, 16}, a.data(), 64, 0, 0};
  check(scalegemm_file_write(path("a.npy").c_str(), &rows, 1));
  const Output output = run("run --model gptq --layer x --a a.npy -o d.npy");
  ASSERT_EQ(output.exit_code, 0) << output.err;
  const File file(path("d.npy"));
  float value = 0;
  std::memcpy(&value, file.tensors().at(0).data, sizeof value);
  EXPECT_EQ(value, expected);
}

TEST_F(FilesTest, MissingDamagedAndUnwritableFiles) {
  expect_error("evaluate nothing.safetensors", 1, {"nothing.safetensors"});
  std::filesystem::create_directory(path("folder"));
  expect_error("evaluate folder", 1, {"folder", "*.safetensors", "name a safetensors or GGUF file"});
  write_file(path("empty.safetensors"), "");
  expect_error("evaluate empty.safetensors", 1, {"empty.safetensors"});
  const std::string whole = read_file(path("model.safetensors"));
  write_file(path("cut.safetensors"), whole.substr(0, whole.size() - 100));
  expect_error("evaluate cut.safetensors", 1, {"cut.safetensors"});
  expect_error("quantize cut.safetensors q.safetensors --scheme mxfp4", 1, {"cut.safetensors"});
  write_file(path("text.npy"), "hello");
  expect_error("run --a text.npy --m 2 --n 2 --k 2 --scheme none", 1, {"text.npy"});
  expect_error("pack one.safetensors -o nowhere/w.sgp --scheme mxfp4", 1, {"nowhere/w.sgp"});
  expect_error("pack one.safetensors --scheme mxfp4", 2, {"--output"});
  expect_error("pack one.safetensors -o w.sgp", 2, {"--scheme"});
  expect_error("pack model.safetensors -o w.sgp --scheme mxfp4", 2, {"--tensor"});
  expect_error("pack model.safetensors -o w.sgp --scheme mxfp4 --tensor nope", 1,
               {"nope", "layer.0.up.weight"});
  expect_error("pack one.safetensors --inspect", 1, {"one.safetensors"});
  expect_error("quantize model.safetensors nowhere/q.safetensors --scheme mxfp4", 1,
               {"nowhere/q.safetensors"});
  expect_error("quantize model.safetensors q.safetensors --scheme mxfp4 --tensor nope", 1, {"nope"});
  expect_error("evaluate model.safetensors --schemes mxfp4 --csv nowhere/e.csv --m 1", 1, {"nowhere/e.csv"});
  expect_error("evaluate model.safetensors --schemes mxfp4 --m 0", 2, {"--m", "given 0"});
}

// What a file holds is the file's fault (1), not the command line's (2), and the message names it.
TEST_F(FilesTest, FilesThatDoNotFit) {
  const auto write = [this](const std::string& name, const char* type, std::vector<int64_t> shape) {
    const std::vector<char> bytes(1024, 0);
    scalegemm_file_tensor out{};
    out.name = "w";
    out.type = type;
    out.rank = static_cast<int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), out.shape);
    out.data = bytes.data();
    out.bytes = type[1] == '8' || type[1] == '6' ? 8 : 4;
    for (int64_t extent : shape) {
      out.bytes *= static_cast<uint64_t>(extent);
    }
    check(scalegemm_file_write(path(name).c_str(), &out, 1));
  };
  write("f64.safetensors", "F64", {4, 4});
  write("conv.safetensors", "F32", {2, 2, 2, 2});
  write("odd.npy", "f4", {4, 3});
  write("f64.npy", "f8", {4, 4});
  for (const char* command : {"quantize f64.safetensors q --scheme mxfp4", "evaluate f64.safetensors"}) {
    expect_error(command, 1,
                 {"f64.safetensors", "needed a matrix of f32, f16, bf16 or fp8", "w: F64 [4, 4]"});
  }
  expect_error("quantize conv.safetensors q --scheme mxfp4", 1, {"w: F32 [2, 2, 2, 2]"});
  expect_error("run --a f64.npy --n 4 --scheme none", 1, {"f64.npy", "f8 [4, 4]", "convert this one to f32"});
  expect_error("quantize odd.npy q --scheme mxfp4", 1, {"odd.npy", "even K", "given 3"});
  expect_error("pack odd.npy -o q --scheme mxfp4", 1, {"odd.npy", "even K", "given 3"});
  expect_error("run --a odd.npy --n 4 --scheme mxfp4", 1, {"odd.npy", "even K", "given 3"});
  expect_error("run --m 4 --n 4 --k 3 --scheme mxfp4", 2, {"even K", "given 3"});
  // An npy type that is not read: not a matter of kernels.
  const std::string npy = read_file(path("f64.npy"));
  std::string text = npy;
  text.replace(text.find("<f8"), 3, "<U1");
  write_file(path("text.npy"), text);
  const Output output = run("run --a text.npy --n 4 --scheme none");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.err.find("explain"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("fix:   save it as f32"), std::string::npos) << output.err;
}

// Files that were asked for are as the umask says; those of the cache are the owner's alone.
TEST_F(FilesTest, Permissions) {
  const mode_t before = umask(027);
  EXPECT_EQ(run("pack one.safetensors -o w.sgp --scheme mxfp4 --json w.json --progress").exit_code, 0);
  EXPECT_EQ(run("quantize one.safetensors q.safetensors --scheme mxfp4").exit_code, 0);
  umask(before);
  for (const char* name : {"w.sgp", "w.json", "q.safetensors"}) {
    EXPECT_EQ(std::filesystem::status(path(name)).permissions(), std::filesystem::perms{0640}) << name;
  }
}

TEST_F(FilesTest, ProgressOnlyWhereItIsWanted) {
  const std::string command = "evaluate model.safetensors --schemes int8 --m 2 --budget 0.001";
  EXPECT_EQ(run(command).err, "");
  EXPECT_NE(run(command + " --progress").err.find("[0/2"), std::string::npos);
}

}  // namespace
}  // namespace scalegemm::cli_test
