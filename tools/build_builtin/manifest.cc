#include "manifest.h"

#include <algorithm>
#include <array>

#include "arch/cpu_family.h"
#include "arch/legal.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace scalegemm::build_builtin {
namespace {

using num::DType;
using spec::KernelSpec;
using spec::Pipeline;
using Words = std::vector<std::string>;

constexpr std::array kCpuPipelines = {Pipeline::kF32Fma, Pipeline::kI8Dot, Pipeline::kBf16Dot};

std::string position(const toml::node& node, const std::string& where) {
  return fmt::format("{}:{}", where, node.source().begin.line);
}

// A non-empty list of strings; empty when the key is missing.
Result<Words> string_list(const toml::table& table, std::string_view key, const std::string& where) {
  Words words;
  const toml::node* node = table.get(key);
  if (node == nullptr) {
    return words;
  }
  const toml::array* list = node->as_array();
  if (list == nullptr || list->empty()) {
    return invalid_argument("{}: {} needs a list of strings that is not empty", position(*node, where), key);
  }
  for (const toml::node& item : *list) {
    const auto word = item.value<std::string>();
    if (!word) {
      return invalid_argument("{}: {} needs strings only", position(item, where), key);
    }
    words.push_back(*word);
  }
  return words;
}

Result<Pipeline> parse_pipeline(const std::string& word) {
  for (const Pipeline pipeline : kCpuPipelines) {
    if (spec::to_string(pipeline) == word) {
      return pipeline;
    }
  }
  return invalid_argument("pipeline: needs f32fma, i8dot or bf16dot, is {}", word);
}

Result<std::vector<DType>> parse_types(const Words& words, std::span<const DType> of_family) {
  if (words == Words{"all"}) {
    return std::vector<DType>(of_family.begin(), of_family.end());
  }
  std::vector<DType> types;
  for (const std::string& word : words) {
    const auto row =
        std::find_if(of_family.begin(), of_family.end(), [&](DType type) { return num::name(type) == word; });
    if (row == of_family.end()) {
      return invalid_argument("b: needs a type that the family has, or \"all\" alone; is {}", word);
    }
    types.push_back(*row);
  }
  return types;
}

Status add_fields(const Words& targets, const Words& pipelines, const Words& b,
                  std::vector<KernelSpec>* specs) {
  if (targets.empty() || pipelines.empty() || b.empty()) {
    return invalid_argument("needs either names, or all of targets, pipelines and b");
  }
  for (const std::string& target_word : targets) {
    SCALEGEMM_ASSIGN_OR_RETURN(const spec::Target target, spec::parse_target(target_word));
    for (const std::string& pipeline_word : pipelines) {
      SCALEGEMM_ASSIGN_OR_RETURN(const Pipeline pipeline, parse_pipeline(pipeline_word));
      const arch::CpuFamily* family = arch::find_family(target, pipeline);
      if (family == nullptr) {
        return invalid_argument("there is no kernel family {} on {}", pipeline_word, target_word);
      }
      SCALEGEMM_ASSIGN_OR_RETURN(const std::vector<DType> types, parse_types(b, family->b_types));
      for (const DType type : types) {
        specs->push_back(arch::make_spec(*family, type));
      }
    }
  }
  return ok_status();
}

Status add_table(const toml::table& table, const std::string& where, std::vector<KernelSpec>* specs) {
  constexpr std::array<std::string_view, 4> kKeys = {"names", "targets", "pipelines", "b"};
  for (const auto& [key, value] : table) {
    if (std::find(kKeys.begin(), kKeys.end(), key.str()) == kKeys.end()) {
      return invalid_argument("{}: needs names, targets, pipelines or b, is {}", position(value, where),
                              key.str());
    }
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const Words names, string_list(table, "names", where));
  SCALEGEMM_ASSIGN_OR_RETURN(const Words targets, string_list(table, "targets", where));
  SCALEGEMM_ASSIGN_OR_RETURN(const Words pipelines, string_list(table, "pipelines", where));
  SCALEGEMM_ASSIGN_OR_RETURN(const Words b, string_list(table, "b", where));
  if (names.empty()) {
    const Status status = add_fields(targets, pipelines, b, specs);
    return status.ok() ? status : invalid_argument("{}: {}", position(table, where), status.message());
  }
  if (!targets.empty() || !pipelines.empty() || !b.empty()) {
    return invalid_argument("{}: names do not go together with targets, pipelines or b",
                            position(table, where));
  }
  for (const std::string& name : names) {
    auto spec = spec::parse(name);
    Status status = spec.ok() ? arch::legal(*spec) : spec.status();
    if (!status.ok()) {
      return invalid_argument("{}: {}", position(table, where), status.message());
    }
    specs->push_back(*std::move(spec));
  }
  return ok_status();
}

}  // namespace

Result<std::vector<KernelSpec>> read_manifest(std::string_view text, const std::string& where) {
  const toml::parse_result parsed = toml::parse(text, where);
  if (!parsed) {
    return invalid_argument("{}:{}: {}", where, parsed.error().source().begin.line,
                            parsed.error().description());
  }
  const toml::array* tables = parsed.table()["kernels"].as_array();
  if (tables == nullptr || tables->empty() || parsed.table().size() != 1) {
    return invalid_argument("{}: needs [[kernels]] tables and nothing else", where);
  }
  std::vector<KernelSpec> specs;
  for (const toml::node& node : *tables) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      return invalid_argument("{}: kernels needs to be [[kernels]] tables", position(node, where));
    }
    SCALEGEMM_RETURN_IF_ERROR(add_table(*table, where, &specs));
  }
  std::vector<KernelSpec> unique;
  for (const KernelSpec& spec : specs) {
    if (std::find(unique.begin(), unique.end(), spec) == unique.end()) {
      unique.push_back(spec);
    }
  }
  return unique;
}

}  // namespace scalegemm::build_builtin
