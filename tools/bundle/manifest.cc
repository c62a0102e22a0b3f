#include "manifest.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/files.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace scalegemm::bundle {
namespace {

int line_of(const toml::node& node) {
  return static_cast<int>(node.source().begin.line);
}

// Reads one file: every message begins with its name and a line.
class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  template <class... Args>
  Status error(int line, fmt::format_string<Args...> text, Args&&... args) const {
    return invalid_argument("{}:{}: {}", where_, line, fmt::format(text, std::forward<Args>(args)...));
  }

  Result<Words> words(std::string_view key, const toml::node& node) const {
    const toml::array* list = node.as_array();
    if (list == nullptr || list->empty()) {
      return error(line_of(node), "{}: needs a list of strings that is not empty", key);
    }
    Words out;
    for (const toml::node& item : *list) {
      const auto word = item.value_exact<std::string>();
      if (!word || word->empty()) {
        return error(line_of(item), "{}: needs strings that are not empty", key);
      }
      out.push_back(*word);
    }
    return out;
  }

  Result<Value> setting(const SettingRow& row, const toml::node& node) const {
    Value value{.words = {}, .line = line_of(node)};
    if (row.arity == Arity::kList) {
      SCALEGEMM_ASSIGN_OR_RETURN(value.words, words(row.key, node));
      return value;
    }
    const auto text = node.value_exact<std::string>();
    if (!text || text->empty()) {
      return error(value.line, "{}: needs a string that is not empty", row.key);
    }
    value.words = {*text};
    return value;
  }

  // 16, or "1..4096".
  Result<Extent> extent(std::string_view key, const toml::node& node) const {
    const auto wrong = [&] {
      return error(line_of(node), "{}: needs a whole number of 1 or more, or a range such as \"1..4096\"",
                   key);
    };
    if (const auto number = node.value_exact<int64_t>()) {
      return *number >= 1 ? Result<Extent>(Extent{*number, *number}) : wrong();
    }
    const auto text = node.value_exact<std::string>();
    const size_t dots = text ? text->find("..") : std::string::npos;
    if (dots == std::string::npos) {
      return wrong();
    }
    const auto number_in = [](std::string_view part) -> std::optional<int64_t> {
      int64_t value = 0;
      const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), value);
      const bool whole = failure == std::errc() && end == part.data() + part.size();
      return whole ? std::optional(value) : std::nullopt;
    };
    const auto first = number_in(std::string_view(*text).substr(0, dots));
    const auto last = number_in(std::string_view(*text).substr(dots + 2));
    return first && last && *first >= 1 && *last >= *first ? Result<Extent>(Extent{*first, *last}) : wrong();
  }

  // An extent or a list of them.
  Result<std::vector<Extent>> extents(std::string_view key, const toml::node& node) const {
    std::vector<Extent> out;
    if (const toml::array* list = node.as_array(); list != nullptr && !list->empty()) {
      for (const toml::node& one : *list) {
        SCALEGEMM_ASSIGN_OR_RETURN(const Extent value, extent(key, one));
        out.push_back(value);
      }
      return out;
    }
    SCALEGEMM_ASSIGN_OR_RETURN(const Extent value, extent(key, node));
    out.push_back(value);
    return out;
  }

  Result<std::vector<Shape>> shapes(const toml::node& node) const {
    const toml::array* list = node.as_array();
    std::vector<Shape> out;
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const toml::node& one = (*list)[i];
      const toml::table* table = one.as_table();
      if (table == nullptr) {
        break;
      }
      Shape shape{.m = {}, .n = {}, .k = {}, .line = line_of(one)};
      for (const auto& [key, value] : *table) {
        std::vector<Extent>* to = key == "m"   ? &shape.m
                                  : key == "n" ? &shape.n
                                  : key == "k" ? &shape.k
                                               : nullptr;
        if (to == nullptr) {
          return error(line_of(value), "shapes: unknown key {}; known are m, n and k", key.str());
        }
        SCALEGEMM_ASSIGN_OR_RETURN(*to, extents(key.str(), value));
      }
      if (shape.m.empty() || shape.n.empty() || shape.k.empty()) {
        return error(shape.line, "shapes: needs m, n and k");
      }
      out.push_back(std::move(shape));
    }
    if (list == nullptr || list->empty() || out.size() != list->size()) {
      return error(line_of(node), "shapes: needs a list such as [{{m = \"1..4096\", n = 4096, k = 7168}}]");
    }
    return out;
  }

  Result<Item> item(const toml::table& table) const {
    Item out;
    out.line = line_of(table);
    for (const auto& [key, value] : table) {
      if (key == "schemes") {
        SCALEGEMM_ASSIGN_OR_RETURN(out.schemes, words(key.str(), value));
      } else if (key == "names") {
        SCALEGEMM_ASSIGN_OR_RETURN(out.names, words(key.str(), value));
      } else if (key == "shapes") {
        SCALEGEMM_ASSIGN_OR_RETURN(out.shapes, shapes(value));
      } else if (const SettingRow* row = find_setting(key.str());
                 row != nullptr && row->scope == Scope::kItem) {
        SCALEGEMM_ASSIGN_OR_RETURN(Value setting_value, setting(*row, value));
        out.settings.emplace(key.str(), std::move(setting_value));
      } else {
        return error(line_of(value), "unknown key {} of an item; known are schemes, shapes, names, {}",
                     key.str(), known(Scope::kItem));
      }
    }
    if (out.schemes.empty() == out.names.empty()) {
      return error(out.line, "an item needs either schemes and shapes, or names");
    }
    if (out.names.empty() && out.shapes.empty()) {
      return error(out.line, "an item with schemes needs shapes");
    }
    if (!out.names.empty() && (!out.shapes.empty() || !out.settings.empty())) {
      return error(out.line, "{}: does not go together with names, which say all of a kernel",
                   out.shapes.empty() ? out.settings.begin()->first : "shapes");
    }
    return out;
  }

  // The keys of a scope, for messages.
  static std::string known(Scope scope) {
    std::string list;
    for (const SettingRow& row : kSettings) {
      if (row.scope == scope) {
        list += list.empty() ? "" : ", ";
        list += row.key;
      }
    }
    return list;
  }

 private:
  const std::string& where_;
};

}  // namespace

const SettingRow* find_setting(std::string_view key) {
  const auto row =
      std::find_if(kSettings.begin(), kSettings.end(), [&](const SettingRow& r) { return r.key == key; });
  return row != kSettings.end() ? &*row : nullptr;
}

Words split_words(std::string_view text) {
  Words out;
  while (!text.empty()) {
    const size_t end = text.find_first_of(" ,");
    if (end != 0) {
      out.emplace_back(text.substr(0, end));
    }
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return out;
}

Result<Manifest> read_manifest(std::string_view text, const std::string& where) {
  const Reader reader(where);
  const toml::parse_result parsed = toml::parse(text, where);
  if (!parsed) {
    return reader.error(static_cast<int>(parsed.error().source().begin.line), "{}",
                        parsed.error().description());
  }
  Manifest out;
  out.where = where;
  out.text = text;
  for (const auto& [key, value] : parsed.table()) {
    if (key == "kernels") {
      const toml::array* list = value.as_array();
      for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
        const toml::table* table = (*list)[i].as_table();
        if (table == nullptr) {
          return reader.error(line_of((*list)[i]), "kernels: needs [[kernels]] tables");
        }
        SCALEGEMM_ASSIGN_OR_RETURN(Item item, reader.item(*table));
        out.items.push_back(std::move(item));
      }
      if (out.items.empty()) {
        return reader.error(line_of(value), "kernels: needs [[kernels]] tables");
      }
    } else if (const SettingRow* row = find_setting(key.str());
               row != nullptr && row->scope != Scope::kMachine) {
      SCALEGEMM_ASSIGN_OR_RETURN(Value setting, reader.setting(*row, value));
      out.settings.emplace(key.str(), std::move(setting));
    } else {
      return reader.error(line_of(value), "unknown key {}; known are kernels, {}, {}", key.str(),
                          Reader::known(Scope::kBundle), Reader::known(Scope::kItem));
    }
  }
  if (out.items.empty()) {
    return reader.error(1, "needs at least one [[kernels]] item");
  }
  return out;
}

Result<Manifest> load_manifest(const std::string& path) {
  constexpr uint64_t kLargest = uint64_t{1} << 20;
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, kLargest));
  return read_manifest(text, path);
}

}  // namespace scalegemm::bundle
