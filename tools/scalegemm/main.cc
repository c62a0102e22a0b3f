// scalegemm: the command line. Each command is a file cmd_<name>.cc; this one parses, runs and reports
// failure.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "app.h"

namespace scalegemm::cli {
namespace {

void report(const std::string& message, const std::string& fix) {
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", message);
  if (!fix.empty()) {
    fmt::print(stderr, "fix:   {}\n", fix);
  }
}

// CLI11 only says that some command is needed when the first word is none.
std::string unknown_command(const CLI::App& root, int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "nothing";
  const bool is_option = argc > 1 && !word.empty() && word[0] == '-';
  std::vector<std::string> known;
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(command->get_name());
  }
  const bool is_command = std::find(known.begin(), known.end(), word) != known.end();
  return is_option || is_command
             ? ""
             : fmt::format("command: needed one of {}; given {}", fmt::join(known, ", "), word);
}

std::string help_hint(const CLI::App& root) {
  const auto chosen = root.get_subcommands();
  return chosen.empty() ? "scalegemm --help lists the commands"
                        : fmt::format("scalegemm {} --help lists its options", chosen.front()->get_name());
}

// What is still buffered must reach standard output: a full disk is a failure, not an empty file.
int finish(int exit_code) {
  if (std::ferror(stdout) == 0) {
    errno = 0;  // else it is that of the write that failed
  }
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) {
    return exit_code;
  }
  fmt::print(stderr, "error: standard output: could not be written whole: {}\n",
             std::strerror(errno != 0 ? errno : EIO));
  fmt::print(stderr, "fix:   write to a disk with space, or close no pipe before the end\n");
  return kExitFailure;
}

}  // namespace

int guarded(const std::function<int()>& action) {
  try {
    return action();
  } catch (const Failure& failure) {
    report(failure.what(), failure.fix());
    return failure.exit_code();
  } catch (const Error& error) {
    report(error.what(), advice(error.status()));
    return error.status() == SCALEGEMM_INVALID_ARGUMENT ? kExitUsage : kExitFailure;
  } catch (const std::bad_alloc&) {
    report("out of memory", "use a smaller problem, or --max-shapes with evaluate");
    return kExitFailure;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) {
      throw;
    }
    errno = error.code().value();  // finish() says it
    return kExitFailure;
  } catch (const std::exception& error) {
    report(error.what(), "this is a bug; please report it with the command line");
    return kExitFailure;
  }
}

namespace {

int main_of(int argc, char** argv) {
  CLI::App root(
      "Block-scaled matrix multiplication for low-precision weights: any scheme, any shape.\n"
      "Every command takes --help. Exit code: 0 success, 1 failure, 2 wrong command line.");
  root.name("scalegemm");
  root.set_version_flag("--version", std::string("scalegemm ") + scalegemm_version());
  root.require_subcommand(1);
  App app{&root, {}};
  add_info(app);
  add_schemes(app);
  add_quantize(app);
  add_pack(app);
  add_run(app);
  add_verify(app);
  add_bench(app);
  add_tune(app);
  add_kernels(app);
  add_build(app);
  add_explain(app);
  add_cache(app);
  add_doctor(app);
  add_inspect(app);
  add_convert(app);
  add_evaluate(app);
  add_accuracy(app);
  if (const std::string unknown = unknown_command(root, argc, argv); !unknown.empty()) {
    report(unknown, help_hint(root));
    return kExitUsage;
  }
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return finish(root.exit(success));  // --help and --version
  } catch (const CLI::ParseError& error) {
    report(error.what(), help_hint(root));
    return kExitUsage;
  }
  return finish(guarded(app.action));
}

}  // namespace
}  // namespace scalegemm::cli

int main(int argc, char** argv) {
  return scalegemm::cli::main_of(argc, argv);
}
