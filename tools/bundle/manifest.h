// Reads the manifest of a bundle (docs/bundles.md): TOML, checked key by key.
//
//   namespace = "acme"                      settings of the bundle, and of all items that do not say
//   otherwise targets = ["sm_90a", "x86-64-v3"]
//
//   [[kernels]]                             an item: kernels for problems
//   schemes = ["rowcol", "abquant:bn=128"]
//   shapes = [{m = "1..4096", n = 4096, k = 7168}]
//
//   [[kernels]]                             an item: kernels by name
//   names = ["gemm_..."]
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace scalegemm::bundle {

using Words = std::vector<std::string>;

enum class Scope : uint8_t {
  kItem,     // of every item; the manifest may set it for all items, and in an item
  kBundle,   // of the bundle; the manifest may set it
  kMachine,  // of the machine that builds: not the manifest's business
};

enum class Arity : uint8_t { kOne, kList };

// One setting: where it may be set, and what it is when nobody sets it.
struct SettingRow {
  std::string_view key;  // in the manifest
  Scope scope;
  Arity arity;
  std::string_view flag;         // of `scalegemm build`; empty: none
  std::string_view environment;  // variables, the first that is set counts; separated by a space
  std::string_view fallback;     // words separated by a space; empty: none
};

inline constexpr std::array<SettingRow, 13> kSettings = {{
    {"namespace", Scope::kBundle, Arity::kOne, "--namespace", "", ""},
    {"libraries", Scope::kBundle, Arity::kList, "--library", "", "shared static"},
    {"size_budget", Scope::kBundle, Arity::kOne, "--size-budget", "SCALEGEMM_BUNDLE_SIZE_BUDGET", ""},
    {"compiler", Scope::kMachine, Arity::kOne, "--compiler", "SCALEGEMM_CXX CXX", ""},
    {"nvrtc", Scope::kMachine, Arity::kOne, "--nvrtc", "SCALEGEMM_NVRTC", ""},
    {"cache_dir", Scope::kMachine, Arity::kOne, "--cache-dir", "SCALEGEMM_CACHE_DIR", ""},
    {"jobs", Scope::kMachine, Arity::kOne, "--jobs", "SCALEGEMM_BUNDLE_JOBS", ""},
    {"targets", Scope::kItem, Arity::kList, "--target", "SCALEGEMM_BUNDLE_TARGETS", ""},
    {"accuracy", Scope::kItem, Arity::kList, "--accuracy", "", "promoted"},
    {"outputs", Scope::kItem, Arity::kList, "--out-type", "", "bf16"},
    {"layouts", Scope::kItem, Arity::kList, "--layout", "", "rcr"},
    {"epilogues", Scope::kItem, Arity::kList, "--epilogue", "", "plain"},
    {"pipelines", Scope::kItem, Arity::kList, "--pipeline", "", "any"},
}};

const SettingRow* find_setting(std::string_view key);

struct Value {
  Words words;
  int line = 0;  // in the manifest
};

// A size that a problem may have, with both ends.
struct Extent {
  int64_t first = 0;
  int64_t last = 0;
};

// Every m with every n with every k.
struct Shape {
  std::vector<Extent> m, n, k;
  int line = 0;
};

struct Item {
  int line = 0;
  Words schemes;              // or
  Words names;                // of kernels; never both
  std::vector<Shape> shapes;  // with schemes
  std::map<std::string, Value, std::less<>> settings;
};

struct Manifest {
  std::string where;  // the file, for messages
  std::string text;
  std::map<std::string, Value, std::less<>> settings;
  std::vector<Item> items;
};

// kInvalidArgument as "FILE:LINE: ..." for text that is no TOML, an unknown key, a value of another type, and
// an item that lacks what it needs. Says nothing about whether schemes, targets and kernels exist.
Result<Manifest> read_manifest(std::string_view text, const std::string& where);

// The same of a file.
Result<Manifest> load_manifest(const std::string& path);

// Items of a text separated by spaces or commas.
Words split_words(std::string_view text);

}  // namespace scalegemm::bundle
