#include "linker.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/files.h"
#include "base/subprocess.h"
#include "elf_file.h"
#include "manifest.h"
#include "payload.h"

namespace scalegemm::bundle {
namespace {

using base::TempDir;
using build_builtin::BuiltKernel;

constexpr uint64_t kLargestLibrary = uint64_t{2} << 30;
constexpr std::string_view kPrefix = "scalegemm_";
constexpr std::string_view kUpperPrefix = "SCALEGEMM_";

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return out;
}

bool in_identifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The program and its arguments.
Result<Words> compiler_command(const std::string& asked) {
  Words tried = asked.empty() ? Words{"g++", "clang++", "c++"} : Words{asked};
  for (const std::string& text : tried) {
    Words command = base::find_program(text) ? Words{text} : split_words(text);
    const auto program = command.empty() ? std::nullopt : base::find_program(command.front());
    if (program) {
      command.front() = *program;
      return command;
    }
  }
  return make_error(Code::kNotBuilt,
                    "linking a bundle needs a C++ compiler, tried {}: install g++ or name one "
                    "(--compiler)",
                    fmt::join(tried, ", "));
}

Result<Words> tool(const std::string& name) {
  const auto program = base::find_program(name);
  if (!program) {
    return make_error(Code::kNotBuilt, "linking a bundle needs {}: install binutils", name);
  }
  return Words{*program};
}

// Runs a program in a folder, in which all files have the names that they have on every machine.
Status run_in(const std::string& folder, Words command, const Words& arguments) {
  command.insert(command.end(), arguments.begin(), arguments.end());
  const std::string program = command.front();
  SCALEGEMM_ASSIGN_OR_RETURN(const base::Finished done,
                             base::run({.argv = std::move(command),
                                        .working_folder = folder,
                                        .environment = {"LC_ALL=C", "TMPDIR=" + folder}}));
  if (!done.succeeded()) {
    return make_error(Code::kCompileFailed, "{} {} failed with exit code {}:\n{}", program,
                      fmt::join(arguments, " "), done.exit_code, done.output);
  }
  return ok_status();
}

// The functions of the C ABI, as the library exports them.
Result<Words> api_symbols() {
  const auto core = read_elf(core_object());
  if (!core.ok()) {
    return core.status().with_context("the library of bundles");
  }
  Words out;
  for (const ElfSymbol& symbol : core->symbols) {
    if (symbol.defined && symbol.global && !symbol.hidden && symbol.name.starts_with(kPrefix)) {
      out.push_back(symbol.name);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The names of global symbols that are defined, ordered, but for the version node of a shared library.
Words exported(const std::vector<ElfSymbol>& symbols, std::string_view version_node) {
  std::set<std::string> names;
  for (const ElfSymbol& symbol : symbols) {
    if (symbol.defined && symbol.global && symbol.name != version_node) {
      names.insert(symbol.name);
    }
  }
  return {names.begin(), names.end()};
}

Status check_exports(std::string_view what, const Words& found, const Words& wanted) {
  if (found == wanted) {
    return ok_status();
  }
  Words odd;
  std::set_symmetric_difference(found.begin(), found.end(), wanted.begin(), wanted.end(),
                                std::back_inserter(odd));
  return make_error(Code::kInternal, "{}: needs to export the C ABI and nothing else; wrong: {}", what,
                    fmt::join(odd, ", "));
}

// merged.o as weakened.o, whose unique symbols (constants in inline functions, as GCC makes them) are weak
// ones: objcopy makes no unique symbol local.
Status weaken_unique(const std::string& folder, const Words& objcopy) {
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string merged,
                             base::read_file(folder + "/merged.o", kLargestLibrary));
  SCALEGEMM_ASSIGN_OR_RETURN(const ElfFile elf, read_elf(merged));
  std::string unique;
  for (const ElfSymbol& symbol : elf.symbols) {
    unique += symbol.unique ? symbol.name + "\n" : "";
  }
  SCALEGEMM_RETURN_IF_ERROR(base::write_new_file(folder + "/unique", unique));
  return run_in(folder, objcopy, {"--weaken-symbols=unique", "merged.o", "weakened.o"});
}

std::string version_node(std::string_view name_space) {
  return upper(name_space) + "_0";
}

}  // namespace

std::string library_name(std::string_view name_space) {
  return fmt::format("lib{}_scalegemm", name_space);
}

std::string renamed(std::string_view symbol, std::string_view name_space) {
  if (symbol.starts_with(kPrefix)) {
    return fmt::format("{}_{}", name_space, symbol.substr(kPrefix.size()));
  }
  if (symbol.starts_with(kUpperPrefix)) {
    return fmt::format("{}_{}", upper(name_space), symbol.substr(kUpperPrefix.size()));
  }
  return std::string(symbol);
}

std::string renamed_header(std::string_view header, std::string_view name_space) {
  std::string out;
  for (size_t i = 0; i < header.size();) {
    size_t end = i;
    while (end < header.size() && in_identifier(header[end])) {
      ++end;
    }
    if (end == i) {
      out += header[i++];
      continue;
    }
    const std::string_view word = header.substr(i, end - i);
    const std::string_view rest = header.substr(end);
    const char before = i > 0 ? header[i - 1] : '\0';
    const bool names_room = word == "scalegemm" && (rest.starts_with("::") || rest.starts_with('/') ||
                                                    header.substr(0, i).ends_with("namespace "));
    if (names_room && before != '/') {
      out += name_space;
    } else {
      out += before == '$' ? std::string(word) : renamed(word, name_space);
    }
    i = end;
  }
  return out;
}

Result<Linked> link_object(const std::vector<BuiltKernel>& kernels, const LinkOptions& options) {
  SCALEGEMM_ASSIGN_OR_RETURN(const Words compiler, compiler_command(options.compiler));
  SCALEGEMM_ASSIGN_OR_RETURN(const Words objcopy, tool("objcopy"));
  SCALEGEMM_ASSIGN_OR_RETURN(const Words api, api_symbols());
  SCALEGEMM_ASSIGN_OR_RETURN(const TempDir dir, TempDir::make("scalegemm-bundle"));
  const std::string& folder = dir.path();
  const auto write = [&folder](const std::string& name, std::string_view content) {
    return base::write_new_file(fmt::format("{}/{}", folder, name), content);
  };

  Linked linked;
  std::string renames;
  for (const std::string& symbol : api) {
    linked.exports.push_back(renamed(symbol, options.name_space));
    renames += fmt::format("{} {}\n", symbol, linked.exports.back());
  }
  std::sort(linked.exports.begin(), linked.exports.end());
  SCALEGEMM_RETURN_IF_ERROR(build_builtin::write_objects(kernels, folder + "/objects"));
  SCALEGEMM_RETURN_IF_ERROR(write("core.o", core_object()));
  SCALEGEMM_RETURN_IF_ERROR(
      write("registry.S", build_builtin::registry_text(kernels, "objects", options.name_space)));
  SCALEGEMM_RETURN_IF_ERROR(write("renames", renames));
  SCALEGEMM_RETURN_IF_ERROR(write("exports", fmt::format("{}\n", fmt::join(linked.exports, "\n"))));

  SCALEGEMM_RETURN_IF_ERROR(run_in(folder, compiler, {"-c", "registry.S", "-o", "registry.o"}));
  // Groups are resolved: a group that two bundles of a program share would be kept from one of them only.
  Words merge = {"-r", "-nostdlib", "-Wl,--force-group-allocation", "-o", "merged.o", "core.o", "registry.o"};
  for (const BuiltKernel& kernel : kernels) {
    if (spec::is_cpu(kernel.target)) {
      merge.push_back("objects/" + build_builtin::object_name(kernel));
    }
  }
  SCALEGEMM_RETURN_IF_ERROR(run_in(folder, compiler, merge));
  SCALEGEMM_RETURN_IF_ERROR(weaken_unique(folder, objcopy));
  SCALEGEMM_RETURN_IF_ERROR(run_in(folder, objcopy,
                                   {"--redefine-syms=renames", "--keep-global-symbols=exports",
                                    "--strip-unneeded", "weakened.o", "bundle.o"}));
  SCALEGEMM_ASSIGN_OR_RETURN(linked.object, base::read_file(folder + "/bundle.o", kLargestLibrary));
  SCALEGEMM_ASSIGN_OR_RETURN(const ElfFile object, read_elf(linked.object));
  SCALEGEMM_RETURN_IF_ERROR(
      check_exports("the static library", exported(object.symbols, ""), linked.exports));
  return linked;
}

Result<std::string> link_shared(const Linked& linked, const LinkOptions& options) {
  SCALEGEMM_ASSIGN_OR_RETURN(const Words compiler, compiler_command(options.compiler));
  SCALEGEMM_ASSIGN_OR_RETURN(const TempDir dir, TempDir::make("scalegemm-bundle"));
  const std::string node = version_node(options.name_space);
  const std::string name = library_name(options.name_space) + ".so";
  const std::string map = fmt::format("{} {{\n  global:\n    {};\n  local:\n    *;\n}};\n", node,
                                      fmt::join(linked.exports, ";\n    "));
  SCALEGEMM_RETURN_IF_ERROR(base::write_new_file(dir.path() + "/bundle.o", linked.object));
  SCALEGEMM_RETURN_IF_ERROR(base::write_new_file(dir.path() + "/exports.map", map));
  SCALEGEMM_RETURN_IF_ERROR(run_in(dir.path(), compiler,
                                   {"-shared", "-o", name, "bundle.o", "-Wl,--version-script=exports.map",
                                    "-Wl,-soname," + name, "-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,relro",
                                    "-Wl,--build-id=none", "-Wl,-s", "-pthread", "-ldl"}));
  SCALEGEMM_ASSIGN_OR_RETURN(std::string library,
                             base::read_file(fmt::format("{}/{}", dir.path(), name), kLargestLibrary));
  SCALEGEMM_ASSIGN_OR_RETURN(const ElfFile elf, read_elf(library));
  SCALEGEMM_RETURN_IF_ERROR(check_exports(name, exported(elf.dynamic_symbols, node), linked.exports));
  return library;
}

Result<std::string> make_archive(const Linked& linked, const LinkOptions& options) {
  SCALEGEMM_ASSIGN_OR_RETURN(const Words archiver, tool("ar"));
  SCALEGEMM_ASSIGN_OR_RETURN(const TempDir dir, TempDir::make("scalegemm-bundle"));
  const std::string object = options.name_space + "_scalegemm.o";
  SCALEGEMM_RETURN_IF_ERROR(base::write_new_file(fmt::format("{}/{}", dir.path(), object), linked.object));
  SCALEGEMM_RETURN_IF_ERROR(
      run_in(dir.path(), archiver, {"rcsD", "bundle.a", object}));  // D: no times, no ids
  return base::read_file(dir.path() + "/bundle.a", kLargestLibrary);
}

}  // namespace scalegemm::bundle
