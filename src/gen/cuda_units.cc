#include "gen/cuda_units.h"

#include <algorithm>
#include <array>
#include <span>

#include "num/name_list.h"

namespace scalegemm::gen {
namespace {

using num::DType;

constexpr std::array kSources = {DType::kF32, DType::kF16, DType::kBf16};
constexpr std::array kCodes = {DType::kE4m3, DType::kE5m2, DType::kE2m1, DType::kInt8};
constexpr std::array kScales = {DType::kF32, DType::kE8m0};
constexpr std::array<int64_t, 6> kGroups = {0, 16, 32, 64, 128, 256};
constexpr std::array kWarpsPerRow = {2, 4, 8};

Status expect_type(std::string_view what, DType type, std::span<const DType> allowed) {
  return std::find(allowed.begin(), allowed.end(), type) != allowed.end()
             ? ok_status()
             : unsupported("{}: the CUDA quantisers take {}; got {}", what, num::name_list(allowed),
                           num::name(type));
}

std::string entry(const std::string& symbol, int warps) {
  return fmt::format("{}_w{}", symbol, warps);
}

std::string instance(const QuantizerConfig& c, const std::string& symbol, int warps) {
  return fmt::format(
      "namespace scalegemm::cuda {{\n"
      "constexpr QuantizeConfig kConfig{4} = {{\n"
      "    .source = {0}, .codes = {1}, .group = {2}, .e8m0 = {3}, .warps_per_row = {4}}};\n"
      "}}\n"
      "SCALEGEMM_KERNEL_QUANTIZE({5}, scalegemm::cuda::kConfig{4})\n",
      abi_enumerator(c.source), abi_enumerator(c.codes), c.group, c.scale == DType::kE8m0, warps, symbol);
}

}  // namespace

Result<KernelSource> quantizer_unit(const QuantizerConfig& c, spec::Target target) {
  SCALEGEMM_RETURN_IF_ERROR(expect_type("source type", c.source, kSources));
  SCALEGEMM_RETURN_IF_ERROR(expect_type("type", c.codes, kCodes));
  SCALEGEMM_RETURN_IF_ERROR(expect_type("scale type", c.scale, kScales));
  if (std::find(kGroups.begin(), kGroups.end(), c.group) == kGroups.end()) {
    return unsupported("scale block_k: the CUDA quantisers take {} or 0 (all of K); got {}",
                       fmt::join(kGroups.begin() + 1, kGroups.end(), ", "), c.group);
  }
  const std::string name =
      fmt::format("quantize_{}_{}_{}_1x{}_{}", num::name(c.source), num::name(c.codes), num::name(c.scale),
                  c.group == 0 ? std::string("all") : std::to_string(c.group), spec::target_name(target));
  const std::string symbol = "scalegemm_" + name;
  std::string text = "#include \"cuda/quantize.cuh\"\n";
  if (c.group != 0) {
    text += instance(c, symbol, 1);
  } else {
    for (const int warps : kWarpsPerRow) {
      text += instance(c, entry(symbol, warps), warps);
    }
  }
  return make_unit(name, symbol, text);
}

std::vector<std::string> quantizer_entries(const QuantizerConfig& config, const KernelSource& unit) {
  if (config.group != 0) {
    return {unit.symbol};
  }
  std::vector<std::string> entries;
  for (const int warps : kWarpsPerRow) {
    entries.push_back(entry(unit.symbol, warps));
  }
  return entries;
}

Result<KernelSource> relayout_unit(spec::Target target) {
  const std::string name = fmt::format("relayout_{}", spec::target_name(target));
  return make_unit(name, name,
                   fmt::format("#include \"cuda/relayout.cuh\"\nSCALEGEMM_KERNEL_RELAYOUT({})\n", name));
}

Result<KernelSource> probe_unit(spec::Target target) {
  const std::string symbol = fmt::format("scalegemm_probe_{}", spec::target_name(target));
  std::string text = fmt::format("#include \"cuda/probe.cuh\"\nSCALEGEMM_PROBE_MEMORY({})\n", symbol);
  if (target == spec::Target::kSm90a) {
    text += fmt::format("SCALEGEMM_PROBE_MATRIX({})\n", symbol);
  }
  return make_unit(symbol, symbol, std::move(text));
}

Result<std::vector<KernelSource>> support_units(spec::Target target) {
  std::vector<KernelSource> units;
  SCALEGEMM_ASSIGN_OR_RETURN(KernelSource relayout, relayout_unit(target));
  units.push_back(std::move(relayout));
  for (const DType source : {DType::kBf16, DType::kF16}) {
    for (const QuantizerConfig& config : {QuantizerConfig{source, DType::kE4m3, DType::kF32, 0},
                                          QuantizerConfig{source, DType::kE4m3, DType::kF32, 128},
                                          QuantizerConfig{source, DType::kE4m3, DType::kE8m0, 32},
                                          QuantizerConfig{source, DType::kE2m1, DType::kE8m0, 32},
                                          QuantizerConfig{source, DType::kInt8, DType::kF32, 0}}) {
      SCALEGEMM_ASSIGN_OR_RETURN(KernelSource unit, quantizer_unit(config, target));
      units.push_back(std::move(unit));
    }
  }
  return units;
}

}  // namespace scalegemm::gen
