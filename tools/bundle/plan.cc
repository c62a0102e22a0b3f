#include "plan.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <thread>

#include "arch/legal.h"
#include "dispatch/dispatch.h"
#include "dispatch/tuned.h"
#include "spec/scheme.h"
#include "store/store.h"

namespace scalegemm::bundle {
namespace {

using spec::KernelSpec;
using spec::Target;

struct GpuModel {
  Target target;
  std::string_view name;  // keys the shipped tuned table
  int multiprocessors;
  int64_t l2_bytes;
  double read_gbps;
};

// Whose choices a bundle is made for, where a target is more than one device (NVIDIA's data sheets).
constexpr std::array<GpuModel, 3> kModels = {{
    {Target::kSm80, "NVIDIA A100-SXM4-80GB", 108, int64_t{40} << 20, 1600},
    {Target::kSm89, "NVIDIA L40S", 142, int64_t{96} << 20, 750},
    {Target::kSm90a, "NVIDIA H200", 132, int64_t{50} << 20, 4000},
}};

spec::GpuDesc describe(Target target) {
  const auto model =
      std::find_if(kModels.begin(), kModels.end(), [&](const GpuModel& m) { return m.target == target; });
  spec::GpuDesc desc;
  desc.name = model->name;
  desc.target = target;
  desc.multiprocessors = model->multiprocessors;
  desc.l2_bytes = model->l2_bytes;
  desc.read_gbps = model->read_gbps;
  return desc;
}

Setting resolve(const SettingRow& row, const Manifest& manifest, const Item* item,
                const Overrides& overrides) {
  const auto where = [&](int line) { return fmt::format("{}:{}", manifest.where, line); };
  Setting out{.scope = item == nullptr ? "bundle" : where(item->line),
              .key = std::string(row.key),
              .words = {},
              .from = {}};
  if (const auto given = overrides.find(row.key); given != overrides.end()) {
    out.words = given->second;
    out.from = row.flag;
    return out;
  }
  for (const auto* settings : {item != nullptr ? &item->settings : nullptr, &manifest.settings}) {
    const auto found = settings != nullptr ? settings->find(row.key) : manifest.settings.end();
    if (settings != nullptr && found != settings->end()) {
      out.words = found->second.words;
      out.from = where(found->second.line);
      return out;
    }
  }
  for (const std::string& variable : split_words(row.environment)) {
    if (const char* value = std::getenv(variable.c_str()); value != nullptr && value[0] != '\0') {
      out.words = row.arity == Arity::kList ? split_words(value) : Words{value};
      out.from = "$" + variable;
      return out;
    }
  }
  out.words = split_words(row.fallback);
  out.from = "default";
  return out;
}

// The settings of one item, or of the bundle, by key.
using Resolved = std::map<std::string, Setting, std::less<>>;

Resolved resolve_all(const Manifest& manifest, const Item* item, const Overrides& overrides, Plan* plan) {
  Resolved out;
  for (const SettingRow& row : kSettings) {
    if ((row.scope == Scope::kItem) == (item != nullptr)) {
      Setting setting = resolve(row, manifest, item, overrides);
      plan->settings.push_back(setting);
      out.emplace(row.key, std::move(setting));
    }
  }
  return out;
}

// A message that begins with where the wrong value came from.
Status wrong(const Setting& setting, const std::string& needed, const std::string& given) {
  return invalid_argument("{}: {}: needs {}, is {}", setting.from, setting.key, needed, given);
}

Status check_namespace(const Setting& setting) {
  if (setting.words.empty()) {
    return invalid_argument("namespace: the manifest needs one, or give --namespace: it begins every symbol");
  }
  const std::string& name = setting.words.front();
  const bool fits = name.size() <= 32 && name.front() >= 'a' && name.front() <= 'z' && name.back() != '_' &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
                    });
  if (!fits || name == "scalegemm") {
    return wrong(
        setting,
        "at most 32 of a-z, 0-9 and _, a letter first and no _ last, and not scalegemm, which is the "
        "ordinary library",
        name);
  }
  return ok_status();
}

Status read_bundle_settings(const Resolved& settings, Plan* plan) {
  const auto one = [&](std::string_view key) {
    const Words& words = settings.find(key)->second.words;
    return words.empty() ? std::string() : words.front();
  };
  SCALEGEMM_RETURN_IF_ERROR(check_namespace(settings.find("namespace")->second));
  plan->name_space = one("namespace");
  const Setting& libraries = settings.find("libraries")->second;
  for (const std::string& word : libraries.words) {
    if (word != "shared" && word != "static") {
      return wrong(libraries, "shared and static", word);
    }
  }
  plan->libraries = libraries.words;
  if (const std::string budget = one("size_budget"); !budget.empty()) {
    const auto bytes = parse_bytes(budget);
    if (!bytes.ok()) {
      return wrong(settings.find("size_budget")->second, "bytes such as 12 MB, 1500 kB or 2000000", budget);
    }
    plan->size_budget = *bytes;
  }
  plan->compiler = one("compiler");
  plan->nvrtc = one("nvrtc");
  plan->cache_dir = one("cache_dir");
  if (plan->cache_dir.empty()) {
    plan->cache_dir = store::default_folder();
  }
  plan->jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (const std::string jobs = one("jobs"); !jobs.empty()) {
    const auto [end, failure] = std::from_chars(jobs.data(), jobs.data() + jobs.size(), plan->jobs);
    if (failure != std::errc() || end != jobs.data() + jobs.size() || plan->jobs < 1 || plan->jobs > 256) {
      return wrong(settings.find("jobs")->second, "a whole number from 1 to 256", jobs);
    }
  }
  return ok_status();
}

void select(const KernelSpec& spec, const std::string& reason, Plan* plan) {
  const auto known = std::find_if(plan->kernels.begin(), plan->kernels.end(),
                                  [&](const Selected& selected) { return selected.spec == spec; });
  if (known == plan->kernels.end()) {
    plan->kernels.push_back({spec, spec::name(spec), {reason}});
  } else if (std::find(known->reasons.begin(), known->reasons.end(), reason) == known->reasons.end()) {
    known->reasons.push_back(reason);
  }
}

// Those that there are compilers for.
std::string usable_targets() {
  std::string list;
  for (const spec::TargetName& row : spec::kTargets) {
    if (row.is_cpu || spec::is_cuda(row.target)) {
      list += list.empty() ? "" : ", ";
      list += row.name;
    }
  }
  return list;
}

Result<std::vector<Target>> targets_of(const Setting& setting) {
  if (setting.words.empty()) {
    return invalid_argument(
        "{}: targets: needs some, of {}: in the item, for all items, as --target or in "
        "$SCALEGEMM_BUNDLE_TARGETS",
        setting.scope, usable_targets());
  }
  std::vector<Target> targets;
  for (const std::string& word : setting.words) {
    const auto target = spec::parse_target(word);
    if (!target.ok() || (!spec::is_cpu(*target) && !spec::is_cuda(*target))) {
      return wrong(setting, "some of " + usable_targets(), word);
    }
    targets.push_back(*target);
  }
  return targets;
}

// "acme.toml:4" of "/home/me/acme.toml:4": reasons are written into the bundle, which holds no path of a
// machine.
std::string_view place_of(std::string_view where) {
  return where.substr(where.rfind('/') + 1);
}

// One problem of an item.
struct Asked {
  spec::Problem problem;
  std::string reason;
};

Result<std::vector<Asked>> problems_of(const Item& item, const Resolved& settings, const std::string& where) {
  std::vector<Asked> out;
  const auto each = [&](std::string_view key, auto&& work) -> Status {
    for (const std::string& word : settings.find(key)->second.words) {
      SCALEGEMM_RETURN_IF_ERROR(work(settings.find(key)->second, word));
    }
    return ok_status();
  };
  const auto add_shapes = [&](spec::Problem p, const std::string& what) {
    for (const Shape& shape : item.shapes) {
      for (const int64_t m : samples(shape.m)) {
        for (const int64_t n : samples(shape.n)) {
          for (const int64_t k : samples(shape.k)) {
            p.m = m;
            p.n = n;
            p.k = k;
            out.push_back({p, fmt::format("{}: {} {}x{}x{}", place_of(where), what, m, n, k)});
          }
        }
      }
    }
  };
  for (const std::string& text : item.schemes) {
    const auto scheme = spec::parse_scheme(text);
    if (!scheme.ok()) {
      return invalid_argument("{}: schemes: {}", where, scheme.status().message());
    }
    SCALEGEMM_RETURN_IF_ERROR(
        each("layouts", [&](const Setting& layouts, const std::string& layout) -> Status {
          spec::Problem p;
          if (const Status applied = spec::apply(*scheme, layout, p); !applied.ok()) {
            return applied.with_context(layouts.from + ": layouts");
          }
          return each("outputs", [&](const Setting& outputs, const std::string& output) -> Status {
            const auto d = num::parse_dtype(output);
            if (!d) {
              return wrong(outputs, "types such as bf16", output);
            }
            p.d = *d;
            return each("accuracy", [&](const Setting& modes, const std::string& mode) -> Status {
              using spec::Accuracy;
              const auto all = {Accuracy::kPromoted, Accuracy::kFast, Accuracy::kExact};
              const auto found = std::find_if(all.begin(), all.end(),
                                              [&](Accuracy a) { return spec::to_string(a) == mode; });
              if (found == all.end()) {
                return wrong(modes, "promoted, fast or exact", mode);
              }
              p.accuracy = *found;
              return each("epilogues", [&](const Setting& epilogues, const std::string& epilogue) -> Status {
                if (epilogue != "plain" && epilogue != "fused") {
                  return wrong(epilogues, "plain or fused", epilogue);
                }
                p.epilogue = {};
                if (epilogue == "fused") {
                  p.epilogue.bias = num::DType::kBf16;
                }
                add_shapes(p, fmt::format("{} {} {} {} {}", text, layout, output, mode, epilogue));
                return ok_status();
              });
            });
          });
        }));
  }
  return out;
}

bool is_wanted(const KernelSpec& spec, const Words& pipelines) {
  return pipelines == Words{"any"} ||
         std::find(pipelines.begin(), pipelines.end(), spec::to_string(spec.pipeline)) != pipelines.end();
}

std::string reasons_of(const dispatch::Explanation& e) {
  std::string text;
  for (const spec::Decline& decline : e.declines) {
    text += "\n  " + spec::to_string(decline);
  }
  return text;
}

// On a GPU what dispatch chooses on the target's model, and what it falls back to.
Status select_gpu(const Asked& asked, Target target, const Words& pipelines, Plan* plan) {
  SCALEGEMM_ASSIGN_OR_RETURN(
      const dispatch::Explanation e,
      dispatch::explain(asked.problem, describe(target), {.shipped = &dispatch::TunedTable::shipped()}));
  const auto chosen =
      std::find_if(e.candidates.begin(), e.candidates.end(),
                   [&](const dispatch::Candidate& c) { return is_wanted(c.spec, pipelines); });
  if (chosen == e.candidates.end()) {
    return unsupported("{}: no kernel of {} and these pipelines takes it:{}", asked.reason,
                       spec::target_name(target), reasons_of(e));
  }
  for (const KernelSpec& spec : dispatch::with_fallbacks(chosen->spec, e, pipelines == Words{"any"})) {
    select(spec, spec == chosen->spec ? asked.reason : asked.reason + ", where TMA cannot address it", plan);
  }
  return ok_status();
}

// On CPUs every kernel of the targets that takes the problem: which one is best depends on rates that are
// measured where the bundle runs.
Status select_cpu(const Asked& asked, const std::vector<Target>& targets, const Words& pipelines,
                  Plan* plan) {
  bool any_target = false;
  bool any_kernel = false;
  std::string declines;
  for (const Target target : targets) {
    if (!spec::is_cpu(target)) {
      continue;
    }
    any_target = true;
    SCALEGEMM_ASSIGN_OR_RETURN(const dispatch::Explanation e,
                               dispatch::explain_target(asked.problem, target, dispatch::Backend::kBuilt));
    for (const dispatch::Candidate& candidate : e.candidates) {
      if (candidate.spec.target == target && is_wanted(candidate.spec, pipelines)) {
        select(candidate.spec, asked.reason, plan);
        any_kernel = true;
      }
    }
    declines += reasons_of(e);
  }
  if (any_target && !any_kernel) {
    return unsupported("{}: no kernel of the CPU targets and these pipelines takes it:{}", asked.reason,
                       declines);
  }
  return ok_status();
}

// Named kernels, but for those of targets that the command line leaves out.
Status select_names(const Item& item, const Overrides& overrides, const std::string& where, Plan* plan) {
  const auto only = overrides.find("targets");
  for (const std::string& name : item.names) {
    const auto spec = spec::parse(name);
    const Status legal = spec.ok() ? arch::legal(*spec) : spec.status();
    if (!legal.ok()) {
      return legal.with_context(where);
    }
    if (only != overrides.end()) {
      const std::string target(spec::target_name(spec->target));
      if (std::find(only->second.begin(), only->second.end(), target) == only->second.end()) {
        plan->left_out.push_back(name);
        continue;
      }
    }
    select(*spec, fmt::format("{}: by name", place_of(where)), plan);
  }
  return ok_status();
}

Status select_item(const Item& item, const Resolved& settings, const std::string& where, Plan* plan) {
  SCALEGEMM_ASSIGN_OR_RETURN(const auto targets, targets_of(settings.find("targets")->second));
  SCALEGEMM_ASSIGN_OR_RETURN(const auto problems, problems_of(item, settings, where));
  const Words& pipelines = settings.find("pipelines")->second.words;
  for (const Asked& asked : problems) {
    for (const Target target : targets) {
      if (spec::is_cuda(target)) {
        SCALEGEMM_RETURN_IF_ERROR(select_gpu(asked, target, pipelines, plan));
      }
    }
    SCALEGEMM_RETURN_IF_ERROR(select_cpu(asked, targets, pipelines, plan));
  }
  return ok_status();
}

}  // namespace

Result<int64_t> parse_bytes(std::string_view text) {
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const int64_t factor = unit.empty() || unit == "B" ? 1
                         : unit == "kB"              ? 1000
                         : unit == "MB"              ? 1000 * 1000
                         : unit == "GB"              ? 1000 * 1000 * 1000
                                                     : 0;
  if (failure != std::errc() || number < 1 || factor == 0 || number > INT64_MAX / factor) {
    return invalid_argument("needs bytes such as 12 MB, 1500 kB or 2000000, is {}", text);
  }
  return number * factor;
}

std::vector<int64_t> samples(const std::vector<Extent>& extents) {
  std::vector<int64_t> out;
  for (const Extent& extent : extents) {
    out.push_back(extent.first);
    for (int64_t power = 1; power < extent.last && power < int64_t{1} << 40; power *= 2) {
      if (power > extent.first) {
        out.push_back(power);
      }
    }
    out.push_back(extent.last);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Result<Plan> make_plan(const Manifest& manifest, const Overrides& overrides) {
  Plan plan;
  SCALEGEMM_RETURN_IF_ERROR(read_bundle_settings(resolve_all(manifest, nullptr, overrides, &plan), &plan));
  for (const Item& item : manifest.items) {
    const std::string where = fmt::format("{}:{}", manifest.where, item.line);
    if (!item.names.empty()) {
      SCALEGEMM_RETURN_IF_ERROR(select_names(item, overrides, where, &plan));
      continue;
    }
    const Resolved settings = resolve_all(manifest, &item, overrides, &plan);
    SCALEGEMM_RETURN_IF_ERROR(select_item(item, settings, where, &plan));
  }
  if (plan.kernels.empty()) {
    return invalid_argument("{}: selects no kernel", manifest.where);
  }
  return plan;
}

}  // namespace scalegemm::bundle
