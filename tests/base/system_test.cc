// Dynamic libraries and the CPU description.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "base/cpu_info.h"
#include "base/dynlib.h"
#include "base/files.h"

namespace scalegemm::base {
namespace {

TEST(DynLib, OpensAndFindsSymbols) {
  auto library = DynLib::open("libm.so.6");
  ASSERT_TRUE(library.ok()) << library.status().message();
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(library->function("cos", &cosine).ok());
  EXPECT_EQ(cosine(0.0), 1.0);
  EXPECT_EQ(library->function("no_such_symbol", &cosine).code(), Code::kNotBuilt);
  EXPECT_EQ(library->symbol("no_such_symbol"), nullptr);
}

TEST(DynLib, AMissingLibraryIsAnErrorThatNamesIt) {
  const auto library = DynLib::open("libscalegemm_no_such.so.1");
  EXPECT_EQ(library.status().code(), Code::kNotBuilt);
  EXPECT_NE(library.status().message().find("libscalegemm_no_such.so.1"), std::string::npos);
}

TEST(CpuInfo, AgreesWithTheKernel) {
  const CpuInfo info = detect_cpu();
  EXPECT_GE(info.logical_cores, 1);
  EXPECT_FALSE(info.vendor.empty());
  EXPECT_FALSE(info.model.empty());

  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  std::set<std::string> flags;
  while (std::getline(cpuinfo, line)) {
    if (line.starts_with("flags")) {
      std::istringstream words(line);
      for (std::string word; words >> word;) {
        flags.insert(word);
      }
      break;
    }
  }
  ASSERT_FALSE(flags.empty()) << "/proc/cpuinfo lists no flags";
  for (int i = 0; i < static_cast<int>(CpuFeature::kCount); ++i) {
    const auto feature = static_cast<CpuFeature>(i);
    EXPECT_EQ(info.has(feature), flags.contains(std::string(name(feature)))) << name(feature);
  }
}

TEST(CpuInfo, CachesArePlausibleWhereTheyAreKnown) {
  const CpuInfo info = detect_cpu();
  if (std::ifstream("/sys/devices/system/cpu/cpu0/cache/index0/size").good()) {
    EXPECT_GE(info.l1d_bytes, 8 << 10);
    EXPECT_LE(info.l1d_bytes, 1 << 20);
  }
  if (info.l2_bytes != 0) {
    EXPECT_GE(info.l2_bytes, info.l1d_bytes);
  }
}

}  // namespace
}  // namespace scalegemm::base
