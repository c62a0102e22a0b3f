#include "package.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"
#include "cuda/abi.h"
#include "elf_file.h"
#include "payload.h"

namespace scalegemm::bundle {
namespace {

using build_builtin::BuiltKernel;
using Json = nlohmann::ordered_json;

bool has(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string digest(std::string_view bytes) {
  return "xxh3-128:" + base::hash128(bytes).hex();
}

// An imported target of one library; {} are those of the file.
std::string cmake_target(const std::string& target, std::string_view kind, const std::string& file,
                         std::string_view more) {
  return fmt::format(
      "if(NOT TARGET {0})\n"
      "  add_library({0} {1} IMPORTED)\n"
      "  set_target_properties({0} PROPERTIES\n"
      "    IMPORTED_LOCATION \"${{_root}}/lib/{2}\"\n"
      "    INTERFACE_INCLUDE_DIRECTORIES \"${{_root}}/include\"{3})\n"
      "endif()\n",
      target, kind, file, more);
}

std::string cmake_config(const Plan& plan, const Words& targets) {
  const std::string& ns = plan.name_space;
  const std::string package = ns + "_scalegemm";
  const bool shared = has(plan.libraries, "shared");
  std::string out = fmt::format(
      "# {0}: a bundle of scalegemm. Made by `scalegemm build`.\n"
      "#   find_package({0} REQUIRED COMPONENTS <targets that must be in it>)\n"
      "#   target_link_libraries(program PRIVATE {1}::scalegemm)\n"
      "set({0}_TARGETS {2})\n"
      "foreach(_target IN LISTS {0}_FIND_COMPONENTS)\n"
      "  if(_target IN_LIST {0}_TARGETS)\n"
      "    set({0}_${{_target}}_FOUND TRUE)\n"
      "  elseif({0}_FIND_REQUIRED_${{_target}})\n"
      "    set({0}_FOUND FALSE)\n"
      "    set({0}_NOT_FOUND_MESSAGE \"the bundle has no kernels for ${{_target}}, only for {3}: add the "
      "target to its "
      "manifest and build it again\")\n"
      "    return()\n"
      "  endif()\n"
      "endforeach()\n"
      "include(CMakeFindDependencyMacro)\n"
      "find_dependency(Threads)\n"
      "get_filename_component(_root \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" ABSOLUTE)\n",
      package, ns, fmt::join(targets, " "), fmt::join(targets, ", "));
  const std::string file = library_name(ns);
  constexpr std::string_view kStatic =
      "\n    IMPORTED_LINK_INTERFACE_LANGUAGES CXX"
      "\n    INTERFACE_LINK_LIBRARIES \"Threads::Threads;${CMAKE_DL_LIBS}\"";
  if (shared) {
    out += cmake_target(ns + "::scalegemm", "SHARED", file + ".so",
                        fmt::format("\n    IMPORTED_SONAME {}.so", file));
  }
  if (has(plan.libraries, "static")) {
    out += cmake_target(ns + "::scalegemm_static", "STATIC", file + ".a", kStatic);
    if (!shared) {
      out += cmake_target(ns + "::scalegemm", "STATIC", file + ".a", kStatic);
    }
  }
  return out + "unset(_root)\nunset(_target)\n";
}

std::string cmake_version() {
  return fmt::format(
      "set(PACKAGE_VERSION {})\n"
      "if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)\n"
      "  set(PACKAGE_VERSION_COMPATIBLE FALSE)\n"
      "else()\n"
      "  set(PACKAGE_VERSION_COMPATIBLE TRUE)\n"
      "  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n"
      "    set(PACKAGE_VERSION_EXACT TRUE)\n"
      "  endif()\n"
      "endif()\n",
      library_version());
}

std::string pkg_config(const Plan& plan, const Words& targets) {
  const std::string& ns = plan.name_space;
  return fmt::format(
      "prefix=${{pcfiledir}}/../..\n"
      "Name: {0}_scalegemm\n"
      "Description: block-scaled matrix multiplication, kernels for {1}\n"
      "Version: {2}\n"
      "Cflags: -I${{prefix}}/include\n"
      "Libs: -L${{prefix}}/lib -l{0}_scalegemm\n"
      "Libs.private: -lstdc++ -lm -lpthread -ldl\n",
      ns, fmt::join(targets, ", "), library_version());
}

// What the code object of a kernel says that it needs.
Result<Json> resources(const BuiltKernel& kernel) {
  Json out = Json::object();
  if (!spec::is_cuda(kernel.target)) {
    return out;
  }
  const auto cubin = read_elf(*kernel.code);
  if (!cubin.ok()) {
    return cubin.status().with_context(kernel.name);
  }
  out["registers"] = Json::object();
  for (const EntryRegisters& entry : cubin_registers(*cubin)) {
    out["registers"][entry.entry] = entry.registers;
  }
  for (const ElfSymbol& symbol : cubin->symbols) {
    SgCudaInfo info;
    if (symbol.name != kernel.symbol + "_info" || symbol.section >= cubin->sections.size()) {
      continue;
    }
    const std::string_view bytes = cubin->sections[symbol.section].bytes;
    if (symbol.size == sizeof info && symbol.value <= bytes.size() &&
        bytes.size() - symbol.value >= sizeof info) {
      std::memcpy(&info, bytes.data() + symbol.value, sizeof info);
      out["threads"] = info.threads;
      out["shared_bytes"] = info.shared_bytes;
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> targets_of(const std::vector<BuiltKernel>& kernels) {
  Words out;
  for (const spec::TargetName& row : spec::kTargets) {
    if (std::any_of(kernels.begin(), kernels.end(),
                    [&](const BuiltKernel& kernel) { return kernel.target == row.target; })) {
      out.emplace_back(row.name);
    }
  }
  return out;
}

std::vector<OutputText> package_files(const Plan& plan, const std::vector<BuiltKernel>& kernels) {
  const std::string& ns = plan.name_space;
  const Words targets = targets_of(kernels);
  const std::string cmake = fmt::format("lib/cmake/{0}_scalegemm/{0}_scalegemm-config", ns);
  return {
      {fmt::format("include/{}/scalegemm.h", ns), renamed_header(c_header(), ns)},
      {fmt::format("include/{}/scalegemm.hpp", ns), renamed_header(cpp_header(), ns)},
      {cmake + ".cmake", cmake_config(plan, targets)},
      {cmake + "-version.cmake", cmake_version()},
      {fmt::format("lib/pkgconfig/{}_scalegemm.pc", ns), pkg_config(plan, targets)},
  };
}

Result<std::string> manifest_json(const Plan& plan, std::string_view manifest_text,
                                  const std::vector<build_builtin::Unit>& units,
                                  const std::vector<BuiltKernel>& kernels, const Linked& linked,
                                  const std::vector<OutputText>& files) {
  Json out = {{"format", 1},
              {"namespace", plan.name_space},
              {"version", library_version()},
              {"manifest", digest(manifest_text)},
              {"library", digest(core_object())},
              {"targets", targets_of(kernels)},
              {"compilers", Json::array()},
              {"sources", Json::object()},
              {"kernels", Json::array()},
              {"exports", linked.exports},
              {"files", Json::array()}};
  std::map<std::string, const Words*> reasons;
  for (const Selected& selected : plan.kernels) {
    reasons.emplace(selected.name, &selected.reasons);
  }
  std::map<std::string, std::string> sources;
  for (const build_builtin::Unit& unit : units) {
    for (const base::SourceFile& file : unit.source.includes) {
      sources.emplace(file.path, digest(file.content));
    }
  }
  out["sources"] = sources;
  std::vector<std::pair<std::string, Words>> compilers;
  for (const BuiltKernel& kernel : kernels) {
    const std::pair compiler(kernel.compiler, kernel.flags);
    auto known = std::find(compilers.begin(), compilers.end(), compiler);
    if (known == compilers.end()) {
      known = compilers.insert(known, compiler);
      out["compilers"].push_back(
          {{"identity", kernel.compiler},
           {"target", spec::target_name(kernel.target)},
           {"flags", kernel.flags},
           {"flags_digest", digest(fmt::format("{}", fmt::join(kernel.flags, "\n")))}});
    }
    SCALEGEMM_ASSIGN_OR_RETURN(const Json needs, resources(kernel));
    const auto why = reasons.find(kernel.name);
    out["kernels"].push_back({{"name", kernel.name},
                              {"symbol", kernel.symbol},
                              {"target", spec::target_name(kernel.target)},
                              {"id", kernel.id.hex()},
                              {"source_id", kernel.source_id.hex()},
                              {"compiler", known - compilers.begin()},
                              {"code_bytes", kernel.code->size()},
                              {"code", digest(*kernel.code)},
                              {"resources", needs},
                              {"selected_by", why != reasons.end() ? Json(*why->second) : Json::array()}});
  }
  for (const OutputText& file : files) {
    out["files"].push_back(
        {{"path", file.path}, {"bytes", file.content.size()}, {"digest", digest(file.content)}});
  }
  return out.dump(2) + "\n";
}

}  // namespace scalegemm::bundle
