#include "manifest.h"

#include <algorithm>
#include <array>

#include "arch/cpu_family.h"
#include "arch/legal.h"
#include "dispatch/dispatch.h"
#include "spec/scheme.h"

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
    return invalid_argument("needs targets, pipelines and b");
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

constexpr int64_t kExtent = 4096;  // N and K of the problems

Result<std::vector<int64_t>> number_list(const toml::table& table, std::string_view key,
                                         const std::string& where) {
  std::vector<int64_t> numbers;
  const toml::node* node = table.get(key);
  const toml::array* list = node != nullptr ? node->as_array() : nullptr;
  if (node != nullptr && (list == nullptr || list->empty())) {
    return invalid_argument("{}: {} needs a list of numbers that is not empty", position(*node, where), key);
  }
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const auto number = (*list)[i].value_exact<int64_t>();
    if (!number || *number < 1) {
      return invalid_argument("{}: {} needs whole numbers of 1 or more", position((*list)[i], where), key);
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Result<spec::Accuracy> parse_accuracy(const std::string& word) {
  for (const auto accuracy : {spec::Accuracy::kPromoted, spec::Accuracy::kFast, spec::Accuracy::kExact}) {
    if (spec::to_string(accuracy) == word) {
      return accuracy;
    }
  }
  return invalid_argument("accuracy: needs promoted, fast or exact, is {}", word);
}

// The lists of a table of problems.
struct Problems {
  Words targets, schemes, d, accuracy, epilogue, pipelines;
  std::vector<int64_t> m;
};

// The best candidate of one problem that is of the wanted pipelines (none: of any).
Status add_choice(const spec::Problem& problem, spec::Target target, const Words& pipelines,
                  std::vector<KernelSpec>* specs) {
  SCALEGEMM_ASSIGN_OR_RETURN(const dispatch::Explanation e,
                             dispatch::explain_target(problem, target, dispatch::Backend::kBuilt));
  for (const dispatch::Candidate& candidate : e.candidates) {
    const auto pipeline = spec::to_string(candidate.spec.pipeline);
    if (pipelines.empty() || std::find(pipelines.begin(), pipelines.end(), pipeline) != pipelines.end()) {
      specs->push_back(candidate.spec);
      return ok_status();
    }
  }
  return invalid_argument("no kernel of {} and these pipelines takes {} with M = {}",
                          spec::target_name(target), e.signature, problem.m);
}

Status add_problems(const Problems& lists, std::vector<KernelSpec>* specs) {
  if (lists.targets.empty() || lists.schemes.empty() || lists.d.empty() || lists.m.empty()) {
    return invalid_argument("needs targets, schemes, d and m");
  }
  Words schemes;
  for (const std::string& scheme : lists.schemes) {
    if (scheme != "all") {
      schemes.push_back(scheme);
      continue;
    }
    for (const spec::SchemeInfo& info : spec::known_schemes()) {
      schemes.emplace_back(info.text);
    }
  }
  for (const std::string& scheme_text : schemes) {
    SCALEGEMM_ASSIGN_OR_RETURN(const spec::Scheme scheme, spec::parse_scheme(scheme_text));
    spec::Problem p;
    p.n = p.k = kExtent;
    SCALEGEMM_RETURN_IF_ERROR(spec::apply(scheme, "rcr", p));
    for (const std::string& target_text : lists.targets) {
      SCALEGEMM_ASSIGN_OR_RETURN(const spec::Target target, spec::parse_target(target_text));
      for (const std::string& d : lists.d) {
        const auto type = num::parse_dtype(d);
        if (!type) {
          return invalid_argument("d: needs a type such as bf16, is {}", d);
        }
        p.d = *type;
        for (const std::string& accuracy : lists.accuracy.empty() ? Words{"promoted"} : lists.accuracy) {
          SCALEGEMM_ASSIGN_OR_RETURN(p.accuracy, parse_accuracy(accuracy));
          for (const std::string& epilogue : lists.epilogue.empty() ? Words{"plain"} : lists.epilogue) {
            if (epilogue != "plain" && epilogue != "fused") {
              return invalid_argument("epilogue: needs plain or fused, is {}", epilogue);
            }
            p.epilogue = {};
            if (epilogue == "fused") {
              p.epilogue.bias = num::DType::kBf16;
            }
            for (const int64_t m : lists.m) {
              p.m = m;
              SCALEGEMM_RETURN_IF_ERROR(add_choice(p, target, lists.pipelines, specs));
            }
          }
        }
      }
    }
  }
  return ok_status();
}

Status add_names(const Words& names, std::vector<KernelSpec>* specs) {
  for (const std::string& name : names) {
    SCALEGEMM_ASSIGN_OR_RETURN(KernelSpec spec, spec::parse(name));
    SCALEGEMM_RETURN_IF_ERROR(arch::legal(spec));
    specs->push_back(std::move(spec));
  }
  return ok_status();
}

Status add_tuned(const Words& targets, std::vector<KernelSpec>* specs) {
  for (const std::string& word : targets) {
    SCALEGEMM_ASSIGN_OR_RETURN(const spec::Target target, spec::parse_target(word));
    Words names;
    for (const dispatch::TunedRow& row : dispatch::TunedTable::shipped().rows()) {
      if (row.target == target) {
        names.push_back(row.kernel);
      }
    }
    if (names.empty()) {
      return invalid_argument("tuned: the shipped table has no kernel of {}", word);
    }
    SCALEGEMM_RETURN_IF_ERROR(add_names(names, specs));
  }
  return ok_status();
}

// The forms of a table: the first key says which it is.
struct Form {
  std::string_view key;
  std::vector<std::string_view> others;
};

Status add_table(const toml::table& table, const std::string& where, std::vector<KernelSpec>* specs) {
  static const std::array kForms = {
      Form{"names", {}},
      Form{"tuned", {}},
      Form{"schemes", {"targets", "m", "d", "accuracy", "epilogue", "pipelines"}},
      Form{"b", {"targets", "pipelines"}},
  };
  const auto form =
      std::find_if(kForms.begin(), kForms.end(), [&](const Form& f) { return table.contains(f.key); });
  if (form == kForms.end()) {
    return invalid_argument("{}: needs names, tuned, schemes, or targets with pipelines and b",
                            position(table, where));
  }
  for (const auto& [key, value] : table) {
    if (key.str() != form->key &&
        std::find(form->others.begin(), form->others.end(), key.str()) == form->others.end()) {
      return invalid_argument("{}: {} does not go together with {}", position(value, where), key.str(),
                              form->key);
    }
  }
  const auto words = [&](std::string_view key) { return string_list(table, key, where); };
  SCALEGEMM_ASSIGN_OR_RETURN(const Words first, words(form->key));
  Status status;
  if (form->key == "names") {
    status = add_names(first, specs);
  } else if (form->key == "tuned") {
    status = add_tuned(first, specs);
  } else if (form->key == "schemes") {
    Problems lists;
    lists.schemes = first;
    SCALEGEMM_ASSIGN_OR_RETURN(lists.targets, words("targets"));
    SCALEGEMM_ASSIGN_OR_RETURN(lists.d, words("d"));
    SCALEGEMM_ASSIGN_OR_RETURN(lists.accuracy, words("accuracy"));
    SCALEGEMM_ASSIGN_OR_RETURN(lists.epilogue, words("epilogue"));
    SCALEGEMM_ASSIGN_OR_RETURN(lists.pipelines, words("pipelines"));
    SCALEGEMM_ASSIGN_OR_RETURN(lists.m, number_list(table, "m", where));
    status = add_problems(lists, specs);
  } else {
    SCALEGEMM_ASSIGN_OR_RETURN(const Words targets, words("targets"));
    SCALEGEMM_ASSIGN_OR_RETURN(const Words pipelines, words("pipelines"));
    status = add_fields(targets, pipelines, first, specs);
  }
  return status.ok() ? status : invalid_argument("{}: {}", position(table, where), status.message());
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
