#include "app.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>
#include <string>

#include "harness/case.h"
#include "harness/files.h"

namespace scalegemm::cli {
namespace {

// Empty when `text` is an integer of at least `least`.
std::string check_integer(const std::string& text, int64_t least, std::string_view what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    return fmt::format("needed {} below 2^63; given {}", what, text);
  }
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    return fmt::format("needed {}; given {}", what, text);
  }
  return "";
}

}  // namespace

Failure usage_error(std::string_view argument, std::string_view needed, std::string_view given,
                    std::string_view fix) {
  return {kExitUsage, fmt::format("{}: needed {}; given {}", argument, needed, given), std::string(fix)};
}

std::string advice(scalegemm_status status) {
  switch (status) {
    case SCALEGEMM_INVALID_ARGUMENT:
      return "change that argument; scalegemm COMMAND --help explains the options, scalegemm schemes the "
             "schemes";
    case SCALEGEMM_UNSUPPORTED:
      return "scalegemm explain with the same problem shows what each kernel declined";
    case SCALEGEMM_NOT_BUILT:
    case SCALEGEMM_COMPILE_FAILED:
      return "scalegemm doctor checks the compiler; scalegemm kernels lists what needs none";
    case SCALEGEMM_NO_DEVICE:
      return "scalegemm info lists the devices of this machine";
    case SCALEGEMM_OUT_OF_MEMORY:
      return "use a smaller problem";
    case SCALEGEMM_IO_ERROR:
      return "check that the path exists and that its permissions and free space allow it";
    case SCALEGEMM_CORRUPT_DATA:
      return "the file is damaged or not of this kind: fetch or write it again";
    default:
      return "this is a bug; please report it with the command line";
  }
}

CLI::Validator positive_integer() {
  return {[](std::string& text) { return check_integer(text, 1, "a positive integer"); }, "POSITIVE"};
}

CLI::Validator non_negative_integer() {
  return {[](std::string& text) { return check_integer(text, 0, "an integer of at least 0"); }, "NUMBER"};
}

std::string list_of(std::span<const harness::Word> words) {
  std::string list;
  for (const harness::Word& row : words) {
    list += list.empty() ? "" : ", ";
    list += row.word;
  }
  return list;
}

CLI::Validator file_name() {
  return {[](std::string& text) { return text.empty() ? "needed a file name; given an empty one" : ""; },
          "FILE"};
}

CLI::Validator one_of(std::span<const harness::Word> words) {
  return {[words](std::string& text) {
            return harness::value_of(words, text)
                       ? ""
                       : fmt::format("needed one of {}; given {}", list_of(words), text);
          },
          ""};
}

CLI::Validator one_of(std::span<const std::string_view> words) {
  return {[words](std::string& text) {
            for (std::string_view word : words) {
              if (word == text) {
                return std::string();
              }
            }
            return fmt::format("needed one of {}; given {}", fmt::join(words, ", "), text);
          },
          ""};
}

int32_t value_of(std::span<const harness::Word> words, const std::string& word) {
  return harness::value_of(words, word).value_or(0);
}

void RuntimeFlags::add_to(CLI::App& command) {
  command.add_option("--threads", threads, "Threads of the CPU device; 0: one a core")
      ->check(non_negative_integer())
      ->capture_default_str();
  command.add_option("--cpu-target", cpu_target, "Cap on the instruction set, such as x86-64-v3");
  command.add_option("--cache-dir", cache_dir, "Folder of compiled kernels (default: $SCALEGEMM_CACHE_DIR)");
  command.add_flag("--no-jit", no_jit, "Never compile a kernel; use the built-in ones");
}

void RuntimeFlags::add_tuned_to(CLI::App& command) {
  CLI::Option* table =
      command.add_option("--tuned", tuned, "Tuned table: measured choices that overrule the dispatcher's")
          ->check(file_name());
  command.add_flag("--strict", strict, "Fail where the tuned table names an unknown kernel")->needs(table);
}

Runtime RuntimeFlags::make_runtime() const {
  auto options = make<scalegemm_runtime_options>();
  options.threads = threads;
  options.jit = no_jit ? -1 : 0;
  options.cache_dir = cache_dir.empty() ? nullptr : cache_dir.c_str();
  options.cpu_target = cpu_target.empty() ? nullptr : cpu_target.c_str();
  options.tuned_table = tuned.empty() ? nullptr : tuned.c_str();
  options.strict = strict ? 1 : 0;
  try {
    Runtime runtime(options);
    std::istringstream warnings(runtime.warnings());
    for (std::string line; std::getline(warnings, line);) {
      fmt::print(stderr, "warning: {}\n", line);
    }
    return runtime;
  } catch (const Error& error) {
    if (error.status() != SCALEGEMM_UNSUPPORTED) {
      throw;
    }
    throw Failure(kExitFailure, error.what(),
                  tuned.empty() ? "ask for another --cpu-target; scalegemm info shows that of this machine"
                                : "mend or remove that line, or leave --strict out");
  }
}

void PlaceFlags::add_to(CLI::App& command) {
  CLI::Option* option = command.add_option("--device", device, "Device: cpu, cuda:0")->default_val("cpu");
  command.add_option("--target", target, "A target without a device here, such as sm_90a or gfx950")
      ->excludes(option);
}

const std::string& PlaceFlags::name() const {
  const std::vector<std::string> known = harness::known_targets();
  if (!target.empty() && std::find(known.begin(), known.end(), target) == known.end()) {
    throw usage_error("--target", fmt::format("one of {}", fmt::join(known, ", ")), target,
                      "leave --target out to ask for the device of this machine");
  }
  return target.empty() ? device : target;
}

void JsonFlag::add_to(CLI::App& command) {
  const CLI::Option* option =
      command
          .add_option("--json", path, "Write the results as JSON to FILE, or to standard output without FILE")
          ->type_name("[FILE]")
          ->expected(0, 1)
          ->default_str("-");
  // CLI11 shows no empty word to the validator of an option that may have none.
  command.parse_complete_callback([this, option] {
    if (option->count() > 0 && path.empty()) {
      throw CLI::ValidationError("--json", "needed a file name; given an empty one");
    }
  });
}

void JsonFlag::write(const Json& json) const {
  if (!wanted()) {
    return;
  }
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (replaces_text()) {
    fmt::print("{}", text);
  } else {
    harness::write_file(path, text);
  }
}

void ProgressFlag::add_to(CLI::App& command) {
  command.add_flag("--progress", always, "Show progress on standard error also when it is no terminal");
}

}  // namespace scalegemm::cli
