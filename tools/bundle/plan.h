// What a bundle is to hold: the manifest's items with their settings resolved, and the kernels they select.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "manifest.h"
#include "spec/kernel_spec.h"

namespace scalegemm::bundle {

// Values of the command line by key of kSettings; they overrule everything else.
using Overrides = std::map<std::string, Words, std::less<>>;

// One setting as it counts: the command line before the manifest's item before the manifest before the
// environment before the default.
struct Setting {
  std::string scope;  // "bundle", or "FILE:LINE" of the item
  std::string key;
  Words words;
  std::string from;  // "--target", "FILE:LINE", "$CXX", "default"
};

struct Selected {
  spec::KernelSpec spec;
  std::string name;
  Words reasons;  // which item and problem asked for it, in the manifest's order; never empty
};

struct Plan {
  std::string name_space;
  Words libraries;          // of "shared" and "static"
  int64_t size_budget = 0;  // bytes of the shared library (else the static one); 0: none
  std::string compiler;     // program and arguments; empty: found
  std::string nvrtc;        // file; empty: found
  std::string cache_dir;    // empty: none
  int jobs = 1;
  std::vector<Setting> settings;
  std::vector<Selected> kernels;  // each once, in the manifest's order
  Words left_out;                 // named kernels whose target --target leaves out
};

// kInvalidArgument with the file and line for a value that means nothing and a kernel that does not exist,
// kUnsupported with every decline for a problem that no kernel of the item's targets takes.
Result<Plan> make_plan(const Manifest& manifest, const Overrides& overrides);

// "12 MB", "1500 kB" or "2000000": bytes, units of 1000.
Result<int64_t> parse_bytes(std::string_view text);

// The sizes at which a range is looked at: both ends and every power of two between.
std::vector<int64_t> samples(const std::vector<Extent>& extents);

}  // namespace scalegemm::bundle
