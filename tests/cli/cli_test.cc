// Help, schemes, info, kernels, explain, cache, doctor: text, JSON fields, exit codes.
#include <sstream>

#include "cli/run_cli.h"

namespace scalegemm::cli_test {
namespace {

TEST_F(CliTest, HelpNamesEveryCommand) {
  const Output output = run("--help");
  EXPECT_EQ(output.exit_code, 0);
  for (const char* command : {"info", "schemes", "quantize", "pack", "run", "verify", "bench", "kernels",
                              "build", "explain", "cache", "doctor", "inspect", "evaluate", "accuracy"}) {
    EXPECT_NE(output.out.find(std::string("\n  ") + command), std::string::npos) << command;
    const Output help = run(std::string(command) + " --help");
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_NE(help.out.find("--json"), std::string::npos) << command;
  }
  EXPECT_EQ(run("--version").out, "scalegemm 0.1.0\n");
}

// To accept a change: scalegemm --help >tests/cli/golden/help.txt, and so on.
TEST_F(CliTest, GoldenTexts) {
  const std::string golden = SCALEGEMM_SOURCE_DIR "/tests/cli/golden/";
  EXPECT_EQ(run("schemes").out, read_file(golden + "schemes.txt"));
  // CLI11 lays out its help differently from release to release: the descriptions of the commands must be
  // there.
  constexpr size_t kDescription = 30;  // column in the golden file
  std::stringstream help(read_file(golden + "help.txt"));
  const std::string now = run("--help").out;
  size_t compared = 0;
  for (std::string line; std::getline(help, line);) {
    if (line.rfind("  ", 0) == 0 && line.find("--") == std::string::npos && line.size() > kDescription) {
      EXPECT_NE(now.find(line.substr(kDescription)), std::string::npos) << line;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 15u);
}

TEST_F(CliTest, WrongCommandLines) {
  expect_error("", 2, {"needed one of info, schemes", "given nothing"});
  expect_error("frobnicate", 2, {"needed one of info, schemes", "given frobnicate"});
  expect_error("verify", 2, {"--m", "scalegemm verify --help"});
  expect_error("verify --m 0 --n 2 --k 2 --scheme none", 2, {"--m", "needed a positive integer; given 0"});
  expect_error("verify --m -3 --n 2 --k 2 --scheme none", 2, {"--m", "given -3"});
  expect_error("verify --m 99999999999999999999 --n 2 --k 2 --scheme none", 2, {"--m", "2^63"});
  expect_error("verify --m 2x --n 2 --k 2 --scheme none", 2, {"--m", "given 2x"});
  expect_error("verify --m 4000000000000 --n 4000000000000 --k 2 --scheme none", 2, {"2^63"});
  expect_error("verify --m 2 --n 2 --k 3 --scheme mxfp4", 2, {"K", "even", "3"});
  expect_error("verify --m 2 --n 2 --k 2 --scheme mxfp5", 2,
               {"scheme", "mxfp4", "mxfp5", "scalegemm schemes"});
  expect_error("verify --m 2 --n 2 --k 2 --scheme mxfp4:g=64", 2, {"g"});
  expect_error("verify --m 2 --n 2 --k 2 --scheme none --layout rcx", 2,
               {"--layout", "rcr, rrr, crr, ccr", "rcx"});
  expect_error("verify --m 2 --n 2 --k 2 --scheme none --out-type f64", 2, {"--out-type", "f32, f16", "f64"});
  expect_error("verify --m 2 --n 2 --k 2 --scheme none --out-type int32", 2, {"int32", "int8"});
  expect_error("verify --m 2 --n 2 --k 2 --scheme none --bogus", 2, {"--bogus"});
  expect_error("explain --m 2 --n 2 --k 2 --scheme none --target sm_75", 2, {"--target", "sm_75", "sm_90a"});
  expect_error("info --cpu-target pentium", 2, {"pentium", "x86-64-v3"});
  expect_error("run --m 2 --n 2 --k 2 --scheme none --strict", 2, {"--strict", "--tuned"});
  for (const char* option : {"run --m 2 --n 2 --k 2 --scheme none -o ''", "schemes --json ''",
                             "bench --m 2 --n 2 --k 2 --scheme none --csv ''"}) {
    expect_error(option, 2, {"needed a file name; given an empty one"});
  }
}

TEST_F(CliTest, ATargetOfTheEnvironmentIsNamedAsSuch) {
  const Output output = run("info", "env SCALEGEMM_CPU_TARGET=bogus");
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_NE(output.err.find("SCALEGEMM_CPU_TARGET: needed one of x86-64-v3, avx512"), std::string::npos)
      << output.err;
  EXPECT_NE(output.err.find("given \"bogus\""), std::string::npos) << output.err;
  EXPECT_EQ(output.err.find("gfx"), std::string::npos) << output.err;
}

// A result that does not reach its disk is a failure.
TEST_F(CliTest, AFullStandardOutputIsSaid) {
  for (const char* command : {"schemes", "schemes --json", "--help", "--version", "info"}) {
    const Output output = run(std::string(command) + " >/dev/full; exit $?");
    EXPECT_EQ(output.exit_code, 1) << command;
  }
  const std::string shell = std::string("sh -c '\"$0\" schemes >/dev/full'");
  const Output output = run("", shell);
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.err.rfind("error: standard output: ", 0), 0u) << output.err;
  EXPECT_NE(output.err.find("No space left on device"), std::string::npos) << output.err;
}

TEST_F(CliTest, TunedTable) {
  const std::string size = " --m 16 --n 64 --k 64 --scheme mxfp4 --threads 1";
  const std::string header = "target,device,problem,m_bucket,n,k,kernel,us,mad_us\n";
  write_file(path("unknown.csv"), header + "x86-64-v3,*,any,16,64,64,gemm_nothing,3,\n");
  for (const char* command : {"run", "explain", "verify", "bench --budget 0.01"}) {
    const Output output = run(command + size + " --tuned unknown.csv");
    EXPECT_EQ(output.exit_code, 0) << command << output.err;
    EXPECT_EQ(output.err.rfind("warning: tuned table, line 2", 0), 0u) << command << output.err;
    expect_error(command + size + " --tuned unknown.csv --strict", 1, {"unknown.csv", "line 2", "nothing"});
  }
  write_file(path("broken.csv"), "not a table\n");
  expect_error("run" + size + " --tuned broken.csv", 1, {"broken.csv", "line 1", "header"});
  expect_error("run" + size + " --tuned nowhere.csv", 1, {"nowhere.csv"});
  // A row for this very problem overrules the dispatcher.
  const Json json = run_json("explain" + size);
  ASSERT_GE(json["candidates"].size(), 2u);
  const std::string other = json["candidates"][1]["kernel"];
  const std::string target = run_json("info")["devices"][0]["target"];
  write_file(path("tuned.csv"), header + target + ",*," + json["problem"]["signature"].get<std::string>() +
                                    ",16,64,64," + other + ",1,\n");
  EXPECT_EQ(run_json("run" + size + " --tuned tuned.csv --strict")["kernel"], other);
}

TEST_F(CliTest, ProgressOfLongWork) {
  for (const char* command : {"verify --m 2 --n 2 --k 2 --scheme none", "run --m 2 --n 2 --k 2 --scheme none",
                              "info --ceilings --threads 1", "doctor"}) {
    EXPECT_EQ(run(command).err, "") << command;
    EXPECT_NE(run(std::string(command) + " --progress").err.find("[0/"), std::string::npos) << command;
  }
}

TEST_F(CliTest, Schemes) {
  const Json json = run_json("schemes");
  ASSERT_GE(json["schemes"].size(), 12u);
  const std::vector<std::string> fields = {"name", "description", "preset", "bits_per_weight", "a", "b"};
  EXPECT_EQ(keys_of(json["schemes"][0]), fields);
  const std::string text = run("schemes").out;
  for (const Json& scheme : json["schemes"]) {
    EXPECT_NE(text.find(scheme["name"].get<std::string>()), std::string::npos);
  }
  // Numbers that follow from the definitions: 4 + 8/32 and 4 + 8/16 bits.
  for (const auto& [name, bits] : {std::pair{"mxfp4", 4.25}, {"nvfp4", 4.5}, {"int8", 8.0}}) {
    for (const Json& scheme : json["schemes"]) {
      if (scheme["name"] == name) {
        EXPECT_NEAR(scheme["bits_per_weight"].get<double>(), bits, 0.01) << name;
      }
    }
  }
}

TEST_F(CliTest, Info) {
  const Json json = run_json("info");
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"version", "devices", "toolchains"}));
  ASSERT_GE(json["devices"].size(), 1u);
  EXPECT_EQ(keys_of(json["devices"][0]),
            (std::vector<std::string>{"name", "model", "target", "features", "cores", "l1_bytes", "l2_bytes",
                                      "l3_bytes", "memory_bytes"}));
  EXPECT_EQ(json["devices"][0]["name"], "cpu");
  const Json measured = run_json("info --ceilings --threads 1");
  ASSERT_EQ(measured["ceilings"].size(), 1u);
  EXPECT_EQ(measured["ceilings"][0]["device"], "cpu");
  EXPECT_EQ(measured["ceilings"][0]["threads"], 1);
  std::set<std::string> names;
  for (const Json& row : measured["ceilings"][0]["rows"]) {
    EXPECT_GT(row["value"], 0.0);
    names.insert(row["name"].get<std::string>());
  }
  for (const char* name : {"f32_fma", "f32_fma_fed", "int8_dot", "int8_dot_fed", "read", "launch"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
  expect_error("info --device cpu", 2, {"--ceilings"});
  expect_error("info --ceilings --device cuda:99", 1, {"cuda"});
}

// f32 sums are off by at most K units of 2^-24, on the CPU in every mode.
TEST_F(CliTest, Accuracy) {
  const Json json = run_json("accuracy --k 128 --k 512");
  ASSERT_EQ(json["results"].size(), 16u);
  for (const Json& row : json["results"]) {
    EXPECT_TRUE(row["verified"].get<bool>()) << row;
    EXPECT_GT(row["elements"], 1000);
    EXPECT_LE(row["rms_error"], row["max_error"]);
    EXPECT_LT(row["max_error"].get<double>(), row["k"].get<double>() * 0x1p-24);
    ASSERT_FALSE(row["histogram"].empty()) << row;  // some sum was rounded
    int64_t rounded = 0;
    for (const Json& bin : row["histogram"]) {
      rounded += bin[1].get<int64_t>();
    }
    EXPECT_LE(rounded, row["elements"].get<int64_t>());
    EXPECT_EQ(row["histogram"].back()[0], std::ilogb(row["max_error"].get<double>()));
  }
  ASSERT_EQ(run("accuracy --k 128 --csv a.csv").exit_code, 0);
  const std::string csv = read_file(path("a.csv"));
  EXPECT_NE(csv.find("\nscheme,accuracy,data,m,n,k,kernel,max_error,rms_error,elements,histogram,verified\n"),
            std::string::npos);
  EXPECT_NE(csv.find("\"abquant:bn=128\",promoted,ones,256,256,128,"), std::string::npos);
}

TEST_F(CliTest, CpuTargetCanBeCapped) {
  EXPECT_EQ(run_json("info --cpu-target x86-64-v3")["devices"][0]["target"], "x86-64-v3");
}

TEST_F(CliTest, Kernels) {
  const Json json = run_json("kernels");
  ASSERT_GE(json["kernels"].size(), 1u);
  EXPECT_EQ(keys_of(json["kernels"][0]),
            (std::vector<std::string>{"name", "target", "id", "built_in", "cached"}));
  std::string name;
  for (const Json& kernel : json["kernels"]) {
    name = kernel["built_in"].get<bool>() ? kernel["name"].get<std::string>() : name;
  }
  ASSERT_FALSE(name.empty()) << "no kernel is built in";
  const Output source = run("kernels --source " + name);
  EXPECT_EQ(source.exit_code, 0) << source.err;
  EXPECT_NE(source.out.find("#include"), std::string::npos);
  EXPECT_EQ(run_json("kernels --filter no-such-kernel")["kernels"].size(), 0u);
  expect_error("kernels --source no-such-kernel", 2, {"no-such-kernel"});
  expect_error("kernels --build no-such-kernel", 2, {"no-such-kernel"});
}

TEST_F(CliTest, ExplainHereAndForTargetsThatAreNotHere) {
  const Json here = run_json("explain --m 16 --n 64 --k 256 --scheme mxfp4");
  EXPECT_TRUE(here.is_object());
  const Output text = run("explain --m 16 --n 64 --k 256 --scheme mxfp4");
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_GT(text.out.size(), 40u);
  for (const char* target : {"sm_90a", "gfx942", "gfx950", "x86-64-v3", "avx512"}) {
    const Output output =
        run(std::string("explain --m 16 --n 64 --k 256 --scheme rowcol --target ") + target);
    EXPECT_EQ(output.exit_code, 0) << target << output.err;
    EXPECT_GT(output.out.size(), 40u) << target;
  }
}

TEST_F(CliTest, Cache) {
  const Json json = run_json("cache");
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"path", "entries", "bytes", "writable", "removed"}));
  EXPECT_EQ(json["path"], path("cache"));
  EXPECT_EQ(run("cache clear").exit_code, 0);
  expect_error("cache burn", 2, {"burn", "info, clear"});
}

TEST_F(CliTest, Doctor) {
  const Json json = run_json("doctor");
  EXPECT_TRUE(json["healthy"].get<bool>()) << json.dump(2);
  for (const Json& finding : json["findings"]) {
    EXPECT_EQ(keys_of(finding), (std::vector<std::string>{"state", "what", "detail", "fix"}));
    EXPECT_TRUE(finding["state"] == "ok" || !finding["fix"].get<std::string>().empty()) << finding.dump();
  }
}

// What stopped nothing is said all the same: a flag that the compiler refuses, a cache that cannot be used.
TEST_F(CliTest, DoctorShowsWarningsOfTheRuntime) {
  write_file(path("cxx"),
             "#!/bin/sh\nfor word; do [ \"$word\" != -mprefer-vector-width=512 ] || exit 1; done\nexec g++ "
             "\"$@\"\n");
  std::filesystem::permissions(path("cxx"), std::filesystem::perms::owner_all);
  const Output output =
      run("doctor --json", "env SCALEGEMM_CXX='" + path("cxx") + "' SCALEGEMM_CACHE_DIR=/proc/nowhere");
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
  std::string runtime;
  const Json json = Json::parse(output.out, nullptr, false);
  for (const Json& finding : json["findings"]) {
    if (finding["what"] == "runtime") {
      EXPECT_EQ(finding["state"], "warning");
      runtime += finding["detail"].get<std::string>() + "\n";
    }
  }
  EXPECT_NE(runtime.find("does not take -mprefer-vector-width=512"), std::string::npos) << runtime;
  EXPECT_NE(runtime.find("kernel cache not used"), std::string::npos) << runtime;
}

TEST_F(CliTest, Verify) {
  const Json json = run_json("verify --m 5 --n 33 --k 66 --scheme mxfp4 --layout rcr --seed 7");
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"problem", "kernel", "passed", "proofs"}));
  EXPECT_TRUE(json["passed"].get<bool>());
  ASSERT_EQ(json["proofs"].size(), 4u);
  EXPECT_EQ(keys_of(json["proofs"][0]),
            (std::vector<std::string>{"proof", "passed", "detail", "worst_error_over_bound", "wrong"}));
  const Output text = run("verify --m 1 --n 1 --k 2 --scheme none:a=f32 --threads 1 --out-type bf16");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out.substr(text.out.size() - 5), "PASS\n");
  // The problem line is itself a command line.
  const std::string line = json["problem"];
  EXPECT_EQ(run("verify " + line).exit_code, 0);
}

TEST_F(CliTest, JsonToAFileKeepsTheText) {
  const Output output = run("schemes --json out.json");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_NE(output.out.find("mxfp4"), std::string::npos);
  EXPECT_TRUE(Json::parse(read_file(path("out.json")), nullptr, false).is_object());
  expect_error("schemes --json nowhere/out.json", 1, {"nowhere/out.json", "No such file or directory"});
  EXPECT_FALSE(std::filesystem::exists(path("nowhere")));
}

}  // namespace
}  // namespace scalegemm::cli_test
