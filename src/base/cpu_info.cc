#include "base/cpu_info.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>

namespace scalegemm::base {
namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  // Leaves past the highest answer with data of another leaf.
  if (static_cast<unsigned>(__get_cpuid_max(leaf & 0x80000000U, nullptr)) >= leaf) {
    __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
  }
  return r;
}

// XCR0: the register states that the operating system saves (SDM vol. 1, 13.3).
uint64_t saved_states() {
  constexpr unsigned kOsxsave = 1U << 27;
  if ((cpuid(1, 0).ecx & kOsxsave) == 0) {
    return 0;
  }
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

constexpr uint64_t kNoState = 0;
constexpr uint64_t kYmmState = 0x6;       // SSE and AVX
constexpr uint64_t kZmmState = 0xe6;      // and opmask, upper halves, zmm16-31
constexpr uint64_t kTileState = 0x60000;  // XTILECFG and XTILEDATA

enum Register { kEax, kEbx, kEcx, kEdx };

struct FeatureRow {
  CpuFeature feature;
  std::string_view name;
  unsigned leaf, subleaf;
  Register reg;
  int bit;
  uint64_t state;
};

// SDM vol. 2A, table "Information Returned by CPUID Instruction", leaves 1 and 7.
constexpr std::array<FeatureRow, static_cast<size_t>(CpuFeature::kCount)> kFeatures = {{
    {CpuFeature::kAvx, "avx", 1, 0, kEcx, 28, kYmmState},
    {CpuFeature::kAvx2, "avx2", 7, 0, kEbx, 5, kYmmState},
    {CpuFeature::kFma, "fma", 1, 0, kEcx, 12, kYmmState},
    {CpuFeature::kF16c, "f16c", 1, 0, kEcx, 29, kYmmState},
    {CpuFeature::kBmi2, "bmi2", 7, 0, kEbx, 8, kNoState},
    {CpuFeature::kAvxVnni, "avx_vnni", 7, 1, kEax, 4, kYmmState},
    {CpuFeature::kAvx512f, "avx512f", 7, 0, kEbx, 16, kZmmState},
    {CpuFeature::kAvx512bw, "avx512bw", 7, 0, kEbx, 30, kZmmState},
    {CpuFeature::kAvx512dq, "avx512dq", 7, 0, kEbx, 17, kZmmState},
    {CpuFeature::kAvx512vl, "avx512vl", 7, 0, kEbx, 31, kZmmState},
    {CpuFeature::kAvx512vnni, "avx512_vnni", 7, 0, kEcx, 11, kZmmState},
    {CpuFeature::kAvx512vbmi, "avx512vbmi", 7, 0, kEcx, 1, kZmmState},
    {CpuFeature::kAvx512bf16, "avx512_bf16", 7, 1, kEax, 5, kZmmState},
    {CpuFeature::kAvx512fp16, "avx512_fp16", 7, 0, kEdx, 23, kZmmState},
    {CpuFeature::kAmxTile, "amx_tile", 7, 0, kEdx, 24, kTileState},
    {CpuFeature::kAmxInt8, "amx_int8", 7, 0, kEdx, 25, kTileState},
    {CpuFeature::kAmxBf16, "amx_bf16", 7, 0, kEdx, 22, kTileState},
}};

constexpr bool rows_in_order() {
  for (size_t i = 0; i < kFeatures.size(); ++i) {
    if (static_cast<size_t>(kFeatures[i].feature) != i) {
      return false;
    }
  }
  return true;
}
static_assert(rows_in_order(), "kFeatures needs one row a feature, in the order of CpuFeature");

uint64_t detect_features() {
  const uint64_t states = saved_states();
  uint64_t features = 0;
  for (const FeatureRow& row : kFeatures) {
    const Registers r = cpuid(row.leaf, row.subleaf);
    const std::array<unsigned, 4> values = {r.eax, r.ebx, r.ecx, r.edx};
    const bool present = (values[row.reg] >> row.bit & 1U) != 0;
    if (present && (states & row.state) == row.state) {
      features |= uint64_t{1} << static_cast<int>(row.feature);
    }
  }
  return features;
}

std::string detect_vendor() {
  const Registers r = cpuid(0, 0);
  char text[12];
  std::memcpy(text, &r.ebx, 4);
  std::memcpy(text + 4, &r.edx, 4);
  std::memcpy(text + 8, &r.ecx, 4);
  return {text, sizeof text};
}

std::string detect_model() {
  std::string text;
  for (unsigned leaf = 0x80000002U; leaf <= 0x80000004U; ++leaf) {
    const Registers r = cpuid(leaf, 0);
    for (const unsigned word : {r.eax, r.ebx, r.ecx, r.edx}) {
      text.append(reinterpret_cast<const char*>(&word), 4);
    }
  }
  text.resize(std::strlen(text.c_str()));
  const size_t first = text.find_first_not_of(' ');
  const size_t last = text.find_last_not_of(' ');
  return first == std::string::npos ? std::string("unknown x86-64") : text.substr(first, last - first + 1);
}

// "32K", "1024K" as /sys writes cache sizes; 0 when there is no such cache.
int64_t cache_bytes(int level) {
  constexpr int kMostCaches = 8;
  for (int index = 0; index < kMostCaches; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    // Not read_file: a file of /sys claims a page and holds a word.
    const auto read = [&](const char* file) {
      std::string word;
      std::ifstream(folder + file) >> word;
      return word;
    };
    if (read("level") != fmt::format("{}", level) || read("type") == "Instruction") {
      continue;
    }
    const std::string size = read("size");
    int64_t value = 0;
    const auto end = std::from_chars(size.data(), size.data() + size.size(), value).ptr;
    const char unit = end < size.data() + size.size() ? *end : '\0';
    return unit == 'M' ? value << 20 : unit == 'K' ? value << 10 : value;
  }
  return 0;
}

// The affinity mask, grown until the kernel accepts its size (more than 1024 processors).
int allowed_cores() {
  constexpr int kMostProcessors = 1 << 16;
  for (int processors = 1024; processors <= kMostProcessors; processors *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(processors));
    if (set == nullptr) {
      break;
    }
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(processors));
    const bool known = ::sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) {
      return count;
    }
  }
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<int>(online) : 1;
}

}  // namespace

std::string_view name(CpuFeature feature) {
  const auto index = static_cast<size_t>(feature);
  return index < kFeatures.size() ? kFeatures[index].name : "unknown";
}

CpuInfo detect_cpu() {
  CpuInfo info;
  info.vendor = detect_vendor();
  info.model = detect_model();
  const unsigned signature = cpuid(1, 0).eax;
  const unsigned family = signature >> 8 & 0xf;
  const unsigned extended_family = signature >> 20 & 0xff;
  const unsigned extended_model = signature >> 16 & 0xf;
  info.family = static_cast<int>(family == 0xf ? family + extended_family : family);
  info.model_number = static_cast<int>((signature >> 4 & 0xf) | extended_model << 4);
  info.features = detect_features();
  info.l1d_bytes = cache_bytes(1);
  info.l2_bytes = cache_bytes(2);
  info.l3_bytes = cache_bytes(3);
  info.logical_cores = allowed_cores();
  return info;
}

}  // namespace scalegemm::base
