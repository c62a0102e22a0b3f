// Work on a device in a process of its own: a kernel that faults takes its context with it, and one that
// hangs takes its process. What was being tried then is left out, and the work starts again without it.
#pragma once

#include <functional>
#include <set>
#include <string>

namespace scalegemm::harness {

// Of the process that works.
class Trials {
 public:
  Trials(int pipe, const std::set<std::string>& left_out) : pipe_(pipe), left_out_(left_out) {}

  // What earlier processes fell over.
  bool left_out(const std::string& name) const { return left_out_.count(name) > 0; }
  // Until end(), `name` is to blame for whatever happens.
  void begin(const std::string& name);
  void end();
  bool under_way() const { return under_way_; }
  // The trial failed and nothing after it on this device can be trusted: ends this process.
  [[noreturn]] void fail(const std::string& why);

 private:
  int pipe_;
  const std::set<std::string>& left_out_;
  bool under_way_ = false;
};

struct TrialOptions {
  int patience_ms = 30'000;                                                    // for one trial
  std::function<void(const std::string&)> report = [](const std::string&) {};  // what is left out, and why
};

// Runs work(trials), which throws nothing, in a child process, again for each name that it falls over, and
// returns its result. Call it before the first thread and the first use of CUDA. Throws std::runtime_error
// when the child dies outside a trial, or falls over a name that is left out already.
int run_in_trials(const std::function<int(Trials&)>& work, const TrialOptions& options);

}  // namespace scalegemm::harness
