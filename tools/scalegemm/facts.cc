#include "facts.h"

#include <fmt/format.h>

namespace scalegemm::cli {
namespace {

std::string dtype_name(int32_t dtype) {
  const char* name = scalegemm_dtype_name(dtype);
  return name == nullptr ? "none" : name;
}

std::string block_word(int64_t block) {
  return block == 0 ? "all" : std::to_string(block);
}

}  // namespace

Json json_of(const scalegemm_device_info& device) {
  return {
      {"name", device.name},         {"model", device.model},       {"target", device.target},
      {"features", device.features}, {"cores", device.cores},       {"l1_bytes", device.l1_bytes},
      {"l2_bytes", device.l2_bytes}, {"l3_bytes", device.l3_bytes}, {"memory_bytes", device.memory_bytes}};
}

Json json_of(const std::vector<Ceiling>& ceilings, const std::string& device, int32_t threads) {
  Json json = {{"device", device}};
  if (threads > 0) {
    json["threads"] = threads;
  }
  json["rows"] = Json::array();
  for (const Ceiling& c : ceilings) {
    json["rows"].push_back({{"name", c.name}, {"value", c.value}, {"unit", c.unit}});
    if (c.bytes > 0) {
      json["rows"].back()["bytes"] = c.bytes;
    }
  }
  return json;
}

Json json_of(const scalegemm_operand_desc& operand) {
  Json json = {{"dtype", dtype_name(operand.dtype)},
               {"layout", operand.layout == SCALEGEMM_ROW ? "row" : "column"},
               {"scale", nullptr}};
  if (operand.scale.dtype != SCALEGEMM_DTYPE_NONE) {
    json["scale"] = {{"dtype", dtype_name(operand.scale.dtype)},
                     {"zero_dtype", dtype_name(operand.scale.zero_dtype)},
                     {"block_rows", operand.scale.block_rows},
                     {"block_k", operand.scale.block_k},
                     {"global", operand.scale.has_global != 0}};
  }
  return json;
}

Json json_of(const scalegemm_packed_info& packed) {
  return {{"layout", harness::word_of(harness::kPackings, packed.layout)},
          {"n", packed.n},
          {"k", packed.k},
          {"batch", packed.batch},
          {"operand", json_of(packed.operand)},
          {"bytes", packed.bytes},
          {"digest", packed.digest}};
}

std::vector<scalegemm_toolchain_info> toolchains(const Runtime& runtime) {
  std::vector<scalegemm_toolchain_info> list;
  for (int32_t i = 0; i < scalegemm_toolchain_count(runtime.get()); ++i) {
    list.push_back(make<scalegemm_toolchain_info>());
    check(scalegemm_toolchain(runtime.get(), i, &list.back()));
  }
  return list;
}

Json json_of(const scalegemm_toolchain_info& toolchain) {
  return {{"name", toolchain.name}, {"version", toolchain.version}, {"problem", toolchain.problem}};
}

std::vector<scalegemm_scheme_info> schemes() {
  std::vector<scalegemm_scheme_info> list(static_cast<size_t>(scalegemm_scheme_count()));
  for (size_t i = 0; i < list.size(); ++i) {
    check(scalegemm_scheme(static_cast<int32_t>(i), &list[i]));
  }
  return list;
}

std::string describe(const scalegemm_operand_desc& operand) {
  std::string text = dtype_name(operand.dtype);
  const scalegemm_scale_desc& scale = operand.scale;
  if (scale.dtype == SCALEGEMM_DTYPE_NONE) {
    return text;
  }
  text += fmt::format(", {} scales of {} x {}", dtype_name(scale.dtype), block_word(scale.block_rows),
                      block_word(scale.block_k));
  text += scale.zero_dtype == SCALEGEMM_DTYPE_NONE ? "" : ", zero points " + dtype_name(scale.zero_dtype);
  text += scale.has_global == 0 ? "" : ", global f32";
  return text;
}

}  // namespace scalegemm::cli
