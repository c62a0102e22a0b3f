#include "dispatch/tuned.h"

#include <gtest/gtest.h>

#include <random>

#include "arch/legal.h"
#include "spec/scheme.h"

namespace scalegemm::dispatch {
namespace {

using spec::Target;

constexpr const char* kKernel = "gemm_any_any-e2m1-any_any_i8dot_default_dynamic_14x16x8_1x1x1_1x16x4_avx512";
constexpr const char* kHeader = "target,device,problem,m_bucket,n,k,kernel,us,mad_us,kernel_id\n";

spec::Problem problem(int64_t m) {
  spec::Problem p;
  p.m = m, p.n = 64, p.k = 128;
  EXPECT_TRUE(apply(*spec::parse_scheme("mxfp4"), "rcr", p).ok());
  return p;
}

std::string row(const std::string& kernel = kKernel) {
  return "avx512,AMD EPYC," + signature(problem(1)) + ",16,64,128," + kernel + ",12.5,\n";
}

TEST(TunedTable, RoundTripsThroughCsv) {
  TunedTable table;
  for (int i = 0; i < 50; ++i) {
    table.add({i % 2 == 0 ? Target::kAvx512 : Target::kX86V3,
               i % 3 == 0 ? "*" : "CPU " + std::to_string(i % 5), signature(problem(1)),
               int64_t{1} << (i % 14), 64 + i, 128, kKernel, 0.1 * i, 0.01 * i,
               i % 7 == 0 ? "" : fmt::format("{:032x}", i)});
  }
  const Result<TunedTable> read = TunedTable::parse(table.to_csv(), Strictness::kStrict);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->rows(), table.rows());
  EXPECT_TRUE(read->warnings().empty());
}

TEST(TunedTable, OlderTablesHaveNoDeviationAndNoId) {
  const std::string columns = "target,device,problem,m_bucket,n,k,kernel,us";
  const std::string old_row = "avx512,AMD EPYC," + signature(problem(1)) + ",16,64,128," + kKernel + ",12.5";
  for (const auto& [more_columns, more_fields] :
       {std::pair("", ""), std::pair(",mad_us", ","), std::pair(",mad_us,kernel_id", ",,")}) {
    const auto table =
        TunedTable::parse(columns + more_columns + "\n" + old_row + more_fields + "\n", Strictness::kStrict);
    ASSERT_TRUE(table.ok()) << table.status().message();
    ASSERT_EQ(table->rows().size(), 1u);
    EXPECT_EQ(table->rows()[0].us, 12.5);
    EXPECT_EQ(table->rows()[0].mad_us, 0);
    EXPECT_EQ(table->rows()[0].kernel_id, "");
  }
  // Rows of a newer tune below an older header.
  const std::string id = "0123456789abcdef0123456789abcdef";
  const auto mixed = TunedTable::parse(columns + "\n" + old_row + ",0.5," + id + "\n", Strictness::kStrict);
  ASSERT_TRUE(mixed.ok()) << mixed.status().message();
  EXPECT_EQ(mixed->rows()[0].mad_us, 0.5);
  EXPECT_EQ(mixed->rows()[0].kernel_id, id);
}

TEST(TunedTable, FindsByEveryPartOfTheKey) {
  const auto table = TunedTable::parse(std::string("# measured\n\n") + kHeader + row(), Strictness::kStrict);
  ASSERT_TRUE(table.ok()) << table.status().message();
  for (int64_t m : {9, 12, 16}) {
    ASSERT_NE(table->find(problem(m), Target::kAvx512, "AMD EPYC"), nullptr) << m;
  }
  EXPECT_EQ(table->find(problem(16), Target::kAvx512, "AMD EPYC")->us, 12.5);
  EXPECT_EQ(table->find(problem(8), Target::kAvx512, "AMD EPYC"), nullptr);
  EXPECT_EQ(table->find(problem(17), Target::kAvx512, "AMD EPYC"), nullptr);
  EXPECT_EQ(table->find(problem(16), Target::kX86V3, "AMD EPYC"), nullptr);
  EXPECT_EQ(table->find(problem(16), Target::kAvx512, "Xeon"), nullptr);
  spec::Problem other = problem(16);
  other.k = 130;
  EXPECT_EQ(table->find(other, Target::kAvx512, "AMD EPYC"), nullptr);
  other = problem(16);
  other.d = num::DType::kBf16;
  EXPECT_EQ(table->find(other, Target::kAvx512, "AMD EPYC"), nullptr);
}

TEST(TunedTable, AnExactDeviceComesBeforeAnyDevice) {
  TunedTable table;
  const std::string key = signature(problem(1));
  table.add({Target::kAvx512, "*", key, 16, 64, 128, "any", 1});
  EXPECT_EQ(table.find(problem(16), Target::kAvx512, "X")->kernel, "any");
  table.add({Target::kAvx512, "X", key, 16, 64, 128, "own", 1});
  EXPECT_EQ(table.find(problem(16), Target::kAvx512, "X")->kernel, "own");
  table.add({Target::kAvx512, "X", key, 16, 64, 128, "newer", 1});
  EXPECT_EQ(table.find(problem(16), Target::kAvx512, "X")->kernel, "newer");
  EXPECT_EQ(table.rows().size(), 2u);
}

TEST(TunedTable, UnknownKernelsWarnOrFail) {
  const std::string csv = kHeader + row("gemm_of_last_year") + row();
  const auto lenient = TunedTable::parse(csv, Strictness::kLenient);
  ASSERT_TRUE(lenient.ok());
  EXPECT_EQ(lenient->rows().size(), 1u);
  ASSERT_EQ(lenient->warnings().size(), 1u);
  EXPECT_NE(lenient->warnings()[0].find("tuned table, line 2: kernel name, column"), std::string::npos)
      << lenient->warnings()[0];
  const auto strict = TunedTable::parse(csv, Strictness::kStrict);
  EXPECT_EQ(strict.status().message(), lenient->warnings()[0]);
  // A name that parses but may not exist is unknown too.
  const std::string illegal = "gemm_any_any-e2m1-any_any_i8dot_default_dynamic_99x16x8_1x1x1_1x16x4_avx512";
  EXPECT_FALSE(TunedTable::parse(kHeader + row(illegal), Strictness::kStrict).ok());
}

TEST(TunedTable, RefusesWhatIsNoTable) {
  const struct {
    std::string csv;
    const char* message;
  } cases[] = {
      {"", "tuned table, line 1: needed the header"},
      {"# only a comment\n", "needed the header"},
      {"a,b\n", "tuned table, line 1: needed the header"},
      {std::string(kHeader) + "a,b\n", "line 2: needed 8 to 10 fields; given \"a,b\""},
      {std::string(kHeader) + ",,,,,,,,,,\n", "line 2: needed 8 to 10 fields"},
      {"target,device,problem,m_bucket,n,k,kernel\n", "needed the header"},
      {"target,device,problem,m_bucket,n,k,kernel,us,mad\n", "needed the header"},
      {std::string(kHeader) + ",,,,,,,,\n", "line 2: needed a target"},
      {std::string(kHeader) + "sm_75,d,p,16,1,1,k,1,\n", "line 2: needed a target (x86-64-v3"},
      {std::string(kHeader) + "avx512,d,p,17,1,1,k,1,\n", "needed an m_bucket (a power of two up to 8192)"},
      {std::string(kHeader) + "avx512,d,p,16384,1,1,k,1,\n", "needed an m_bucket"},
      {std::string(kHeader) + "avx512,d,p,-1,1,1,k,1,\n", "needed an m_bucket"},
      {std::string(kHeader) + "avx512,d,p,16,0,1,k,1,\n", "needed a positive n; given \"0\""},
      {std::string(kHeader) + "avx512,d,p,16,1,99999999999999999999,k,1,\n", "needed a positive k"},
      {std::string(kHeader) + "avx512,d,p,16,1,1,k,nan,\n", "needed a time in us; given \"nan\""},
      {std::string(kHeader) + "avx512,d,p,16,1,1,k,-1,\n", "needed a time in us"},
      {std::string(kHeader) + "avx512,d,p,16,1,1,k,inf,\n", "needed a time in us"},
      {std::string(kHeader) + "avx512,d,p,16,1,1,k,1,-1\n", "needed a deviation in us"},
      {std::string(kHeader) + "avx512,d,p,16,1,1,k,1,,12ab\n", "needed a kernel id of 32 hexadecimal digits"},
      {std::string(kHeader) + "avx512,d,p,16,1,1,k,1,,0123456789ABCDEF0123456789ABCDEF\n",
       "needed a kernel id"},
  };
  for (const auto& c : cases) {
    const auto table = TunedTable::parse(c.csv, Strictness::kLenient);
    ASSERT_FALSE(table.ok()) << c.csv;
    EXPECT_EQ(table.status().code(), Code::kCorruptData);
    EXPECT_NE(table.status().message().find(c.message), std::string::npos) << table.status().message();
  }
}

TEST(TunedTable, DamagedTablesNeverBreakIt) {
  std::mt19937_64 engine(3);
  const std::string good = kHeader + row() + "# c\r\n" + row();
  for (int i = 0; i < 50000; ++i) {
    std::string bad = good;
    for (int edits = 0; edits < 3; ++edits) {
      const size_t at = engine() % bad.size();
      if (engine() % 2 == 0) {
        bad[at] = static_cast<char>(engine());
      } else {
        bad.erase(at, engine() % 9);
      }
      if (bad.empty()) {
        break;
      }
    }
    const auto table = TunedTable::parse(bad, Strictness::kLenient);
    if (!table.ok()) {
      ASSERT_FALSE(table.status().message().empty());
    }
  }
}

TEST(TunedTable, Buckets) {
  const std::pair<int64_t, int64_t> cases[] = {{1, 1},     {2, 2},       {3, 4},         {128, 128},
                                               {129, 256}, {8192, 8192}, {100000, 8192}, {INT64_MAX, 8192}};
  for (const auto& [m, bucket] : cases) {
    EXPECT_EQ(m_bucket(m), bucket) << m;
  }
  EXPECT_EQ(device_key("Intel(R), Xeon\n"), "Intel(R) Xeon");
}

// Every row of the shipped table names a kernel that this library still has, for the problem that it is keyed
// by.
TEST(TunedTable, TheShippedOneIsWhole) {
  const TunedTable& table = TunedTable::shipped();
  EXPECT_TRUE(table.warnings().empty()) << table.warnings().front();
  EXPECT_GE(table.rows().size(), 50u);
  for (const TunedRow& row : table.rows()) {
    const Result<spec::KernelSpec> kernel = spec::parse(row.kernel);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_TRUE(arch::legal(*kernel).ok()) << arch::legal(*kernel).message();
    EXPECT_EQ(kernel->target, row.target);
  }
}

}  // namespace
}  // namespace scalegemm::dispatch
