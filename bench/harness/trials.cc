#include "harness/trials.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace scalegemm::harness {
namespace {

// Messages of the child, a line each: a letter and a text without line breaks.
constexpr char kBegin = 'b', kEnd = 'e', kFailed = 'f';

void send(int pipe, char kind, std::string text) {
  for (char& c : text) {
    c = c == '\n' ? ' ' : c;
  }
  const std::string line = kind + text + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::write(pipe, line.data() + sent, line.size() - sent);
    if (n < 0 && errno != EINTR) {
      return;  // the parent is gone: nobody is left to tell
    }
    sent += n > 0 ? static_cast<size_t>(n) : 0;
  }
}

[[noreturn]] void fail_with_errno(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

// What the parent knows of a child.
struct Child {
  pid_t pid = -1;
  int pipe = -1;
  std::string trial;  // under way; empty: none
  std::string why;    // of a failed trial, in the child's words

  void hear(const std::string& line) {
    switch (line[0]) {
      case kBegin:
        trial = line.substr(1);
        break;
      case kEnd:
        trial.clear();
        break;
      default:
        why = line.substr(1);
    }
  }

  // Reads until the child closes the pipe; false when one trial takes longer than patience.
  bool listen(int patience_ms) {
    using Clock = std::chrono::steady_clock;
    std::string text;
    auto heard = Clock::now();
    for (;;) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - heard).count();
      const auto left = static_cast<int>(patience_ms - waited);
      if (!trial.empty() && left <= 0) {
        return false;
      }
      pollfd ready = {pipe, POLLIN, 0};
      if (::poll(&ready, 1, trial.empty() ? -1 : left) <= 0) {
        continue;  // interrupted, or out of patience
      }
      char buffer[4096];
      const ssize_t n = ::read(pipe, buffer, sizeof buffer);
      if (n == 0 || (n < 0 && errno != EINTR)) {
        return true;
      }
      text.append(buffer, n > 0 ? static_cast<size_t>(n) : 0);
      for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
        hear(text.substr(0, end));
        text.erase(0, end + 1);
        heard = Clock::now();
      }
    }
  }
  int wait() const {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0) {
      if (errno != EINTR) {
        fail_with_errno("waiting for the process that tries kernels");
      }
    }
    return status;
  }
};

// The parent lets the child answer Ctrl-C, which both of them get.
class IgnoreInterrupt {
 public:
  IgnoreInterrupt() : old_(std::signal(SIGINT, SIG_IGN)) {}
  ~IgnoreInterrupt() { std::signal(SIGINT, old_); }
  IgnoreInterrupt(const IgnoreInterrupt&) = delete;
  IgnoreInterrupt& operator=(const IgnoreInterrupt&) = delete;

 private:
  void (*old_)(int);
};

Child start(const std::function<int(Trials&)>& work, const std::set<std::string>& left_out) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    fail_with_errno("a pipe to the process that tries kernels");
  }
  std::fflush(nullptr);  // or both would print it
  const pid_t pid = ::fork();
  if (pid < 0) {
    fail_with_errno("a process that tries kernels");
  }
  if (pid != 0) {
    ::close(ends[1]);
    return {pid, ends[0], "", ""};
  }
  ::close(ends[0]);
  Trials trials(ends[1], left_out);
  const int result = work(trials);
  std::fflush(nullptr);
  std::_Exit(result);
}

}  // namespace

void Trials::begin(const std::string& name) {
  under_way_ = true;
  send(pipe_, kBegin, name);
}

void Trials::end() {
  under_way_ = false;
  send(pipe_, kEnd, "");
}

void Trials::fail(const std::string& why) {
  send(pipe_, kFailed, why);
  std::fflush(nullptr);
  std::_Exit(EXIT_FAILURE);
}

int run_in_trials(const std::function<int(Trials&)>& work, const TrialOptions& options) {
  std::set<std::string> left_out;
  for (;;) {
    Child child = start(work, left_out);
    const IgnoreInterrupt ignore;
    const bool patient = child.listen(options.patience_ms);
    if (!patient) {
      ::kill(child.pid, SIGKILL);
    }
    ::close(child.pipe);
    const int status = child.wait();
    if (patient && WIFEXITED(status) && child.trial.empty() && child.why.empty()) {
      return WEXITSTATUS(status);
    }
    const std::string why = !patient ? fmt::format("no end after {} s", options.patience_ms / 1000.0)
                            : !child.why.empty() ? child.why
                            : WIFSIGNALED(status)
                                ? fmt::format("the process died of signal {}", WTERMSIG(status))
                                : fmt::format("the process ended with {}", WEXITSTATUS(status));
    if (child.trial.empty() || !left_out.insert(child.trial).second) {
      throw std::runtime_error(why);
    }
    options.report(fmt::format("left out: {}: {}", child.trial, why));
  }
}

}  // namespace scalegemm::harness
