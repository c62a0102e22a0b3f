// Links a bundle: the library, kernels and their registry, with every symbol of the C ABI renamed and every
// other one made local.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "builder.h"

namespace scalegemm::bundle {

struct LinkOptions {
  std::string name_space;
  std::string compiler;  // program and arguments; empty: found. It drives the assembler and the linker
};

struct Linked {
  std::string object;                // one relocatable object: what the static library holds
  std::vector<std::string> exports;  // its global symbols: "<namespace>_..." each, ordered
};

// The bundle as one object that defines the exports and no other global symbol. Holds no path, time or name
// of this machine: the same inputs give the same bytes.
Result<Linked> link_object(const std::vector<build_builtin::BuiltKernel>& kernels,
                           const LinkOptions& options);

// The libraries of such an object. The shared one exports the same symbols and nothing else (checked), and
// has no undefined symbol that its libraries do not have.
Result<std::string> link_shared(const Linked& linked, const LinkOptions& options);
Result<std::string> make_archive(const Linked& linked, const LinkOptions& options);

// "lib<namespace>_scalegemm", without an ending.
std::string library_name(std::string_view name_space);

// "scalegemm_run" -> "acme_run"; "SCALEGEMM_OK" -> "ACME_OK". What begins with neither stays.
std::string renamed(std::string_view symbol, std::string_view name_space);

// A header of the library with the names of a bundle: identifiers as renamed() has them, the C++ namespace,
// and the folder in includes. Names of environment variables ("$SCALEGEMM_...") and strings in the text stay.
std::string renamed_header(std::string_view header, std::string_view name_space);

}  // namespace scalegemm::bundle
