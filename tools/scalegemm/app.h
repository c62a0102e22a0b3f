// What the commands share: options, errors that name the fix, results as tables and JSON, progress, Ctrl-C.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/words.h"
#include "scalegemm/scalegemm.hpp"

namespace scalegemm::cli {

using Json = nlohmann::ordered_json;

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // the work failed, or a proof did
inline constexpr int kExitUsage = 2;    // the command line is wrong

// A command that cannot go on, with what the user can do about it.
class Failure : public std::runtime_error {
 public:
  Failure(int exit_code, const std::string& message, std::string fix)
      : std::runtime_error(message), exit_code_(exit_code), fix_(std::move(fix)) {}
  int exit_code() const { return exit_code_; }
  const std::string& fix() const { return fix_; }

 private:
  int exit_code_;
  std::string fix_;
};

// "argument: needed ...; given ...", exit code 2.
Failure usage_error(std::string_view argument, std::string_view needed, std::string_view given,
                    std::string_view fix);

// What to do about a failure that the library reports.
std::string advice(scalegemm_status status);

// Runs `work` on what a file holds: what the library calls a wrong argument there is a wrong file (exit code
// 1).
template <class Work>
auto with_contents_of(const std::string& path, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.status() != SCALEGEMM_INVALID_ARGUMENT) {
      throw;
    }
    throw Failure(kExitFailure, path + ": " + error.what(), "the file does not fit what was asked of it");
  }
}

// The parsed command line runs this and exits with its result.
struct App {
  CLI::App* root = nullptr;
  std::function<int()> action;
};

// ------------------------------------------------------------------------------------ option types

// Validators whose messages say what was needed and what was given.
CLI::Validator positive_integer();
CLI::Validator non_negative_integer();
CLI::Validator one_of(std::span<const harness::Word> words);
CLI::Validator one_of(std::span<const std::string_view> words);
// A file to write or read; refuses the empty name.
CLI::Validator file_name();
std::string list_of(std::span<const harness::Word> words);

// The value of a word that one_of() has let through.
int32_t value_of(std::span<const harness::Word> words, const std::string& word);

// --threads, --cpu-target, --cache-dir, --no-jit, and where kernels are chosen --tuned, --strict: the runtime
// of a command. Its warnings go to standard error.
struct RuntimeFlags {
  int32_t threads = 0;
  std::string cpu_target;
  std::string cache_dir;
  bool no_jit = false;
  std::string tuned;
  bool strict = false;

  void add_to(CLI::App& command);
  void add_tuned_to(CLI::App& command);
  Runtime make_runtime() const;
};

// --device, or --target for one that is not here: where a problem would run.
struct PlaceFlags {
  std::string device;
  std::string target;

  void add_to(CLI::App& command);
  // The device of scalegemm_plan_options; throws for a target that is unknown.
  const std::string& name() const;
};

// --json [FILE]: machine-readable results. Without FILE, or with "-", to standard output in place of the
// text.
struct JsonFlag {
  std::string path;

  void add_to(CLI::App& command);
  bool wanted() const { return !path.empty(); }
  bool replaces_text() const { return path == "-"; }
  void write(const Json& json) const;
};

// ---------------------------------------------------------------------------------------- output

// A table with aligned columns: text to the left, numbers to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "1.5 MB" and the like, powers of 1000.
std::string human_bytes(double bytes);
// Three significant digits, no exponent where that is readable.
std::string short_number(double value);

// One line on standard error that says how far a command is; shown on a terminal, or when forced.
class Progress {
 public:
  enum class Show : uint8_t { kOnTerminal, kAlways };
  Progress(Show show, int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Counts `done` of the total; `what` is being worked on now.
  void step(int64_t done, std::string_view what);
  // Takes the line away, before results are printed; so does the end of the object.
  void clear();

 private:
  bool terminal_;
  bool shown_;
  bool line_shown_ = false;
  int64_t total_;
  double started_;
};

// --progress, --quiet are per command that may take long.
struct ProgressFlag {
  bool always = false;
  void add_to(CLI::App& command);
  Progress::Show show() const { return always ? Progress::Show::kAlways : Progress::Show::kOnTerminal; }
};

// While one lives, the first Ctrl-C (or SIGTERM) only asks the command to stop; the second ends it at once.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  static bool requested();
};

// Runs a command: what it throws is reported on standard error and becomes the exit code.
int guarded(const std::function<int()>& action);

// -------------------------------------------------------------------------------------- commands

void add_info(App& app);
void add_schemes(App& app);
void add_quantize(App& app);
void add_pack(App& app);
void add_run(App& app);
void add_verify(App& app);
void add_bench(App& app);
void add_tune(App& app);
void add_kernels(App& app);
void add_build(App& app);
void add_explain(App& app);
void add_cache(App& app);
void add_doctor(App& app);
void add_inspect(App& app);
void add_convert(App& app);
void add_evaluate(App& app);
void add_accuracy(App& app);

}  // namespace scalegemm::cli
