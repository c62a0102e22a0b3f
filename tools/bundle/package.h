// The text files of a bundle: what CMake, pkg-config and people read.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "builder.h"
#include "linker.h"
#include "plan.h"

namespace scalegemm::bundle {

// A file of a bundle, by its path in the bundle's folder.
struct OutputText {
  std::string path;
  std::string content;
};

// The targets that the kernels are for, in the order of spec::kTargets.
std::vector<std::string> targets_of(const std::vector<build_builtin::BuiltKernel>& kernels);

// Headers, CMake package and pkg-config file.
std::vector<OutputText> package_files(const Plan& plan,
                                      const std::vector<build_builtin::BuiltKernel>& kernels);

// manifest.json: what the bundle was made of and what is in it. `files` are all other files of the bundle.
Result<std::string> manifest_json(const Plan& plan, std::string_view manifest_text,
                                  const std::vector<build_builtin::Unit>& units,
                                  const std::vector<build_builtin::BuiltKernel>& kernels,
                                  const Linked& linked, const std::vector<OutputText>& files);

}  // namespace scalegemm::bundle
