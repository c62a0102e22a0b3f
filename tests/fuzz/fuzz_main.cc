// The main program of every fuzzer here: fuzz_NAME --seconds N --seed S [--target NAME]
//
// Gives mutated inputs to the targets of the program (kTargets of its own file). For one seed the sequence of
// inputs is always the same; --seconds only says where it ends. Inputs that are accepted, or refused with a
// message of a new form (digits and quoted text aside), join the corpus, so that changes build on each other.
//
// A crash, a broken promise (require) or a hang saves the input as fuzz-TARGET.bin in the working folder.
// Under the sanitizers set ASAN_OPTIONS=abort_on_error=1 for the same.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "fuzz/mutate.h"
#include "fuzz/target.h"

namespace scalegemm::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kHangSeconds = 20;
constexpr size_t kMaxCorpus = 512;
constexpr size_t kTurn = 200;  // inputs before the next target has its turn

// What the signal handler saves; it may call only async-signal-safe functions.
struct InFlight {
  std::array<char, 64> file{};
  const char* data = nullptr;
  size_t size = 0;
};
InFlight in_flight;

void save_and_die(int signal) {
  const int fd = ::open(in_flight.file.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd >= 0 && ::write(fd, in_flight.data, in_flight.size) >= 0) {
    constexpr std::string_view kNote = "fuzz: failed; the input is saved as ";
    (void)!::write(STDERR_FILENO, kNote.data(), kNote.size());
    (void)!::write(STDERR_FILENO, in_flight.file.data(), std::strlen(in_flight.file.data()));
    (void)!::write(STDERR_FILENO, "\n", 1);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// A message with what varies taken out: digits, what is between two ', and all from the first " to the last.
std::string form_of(const std::string& message) {
  const size_t first = message.find('"');
  const size_t last = message.rfind('"');
  std::string form;
  bool quoted = false;
  for (size_t i = 0; i < message.size(); ++i) {
    const char c = message[i];
    quoted ^= c == '\'';
    if (!quoted && (c < '0' || c > '9') && (first == std::string::npos || i <= first || i > last)) {
      form += c;
    }
  }
  return form;
}

class Campaign {
 public:
  Campaign(Target target, uint64_t seed) : target_(std::move(target)), random_(seed), corpus_(target_.seeds) {
    for (const std::string& input : target_.seeds) {
      accepted_ += run(input).empty() ? 1 : 0;
    }
    require(accepted_ > 0, "a seed is accepted");
  }

  void turn() {
    for (size_t i = 0; i < kTurn; ++i) {
      const std::string& other = corpus_[random_.below(corpus_.size())];
      std::string input = mutate(corpus_[random_.below(corpus_.size())], other, target_.dictionary, random_);
      const Verdict verdict = run(input);
      ++runs_;
      accepted_ += verdict.empty() ? 1 : 0;
      if (forms_.insert(form_of(verdict)).second || (verdict.empty() && random_.below(16) == 0)) {
        keep(std::move(input));
      }
    }
  }

  void report() const {
    std::printf("%-12s %12zu inputs, %10zu accepted, %4zu kinds of answer\n",
                std::string(target_.name).c_str(), runs_, accepted_, forms_.size());
  }

 private:
  Verdict run(const std::string& input) {
    // An exact copy on the heap, so that a read past the end is seen by the address sanitizer.
    const std::vector<char> exact(input.begin(), input.end());
    std::snprintf(in_flight.file.data(), in_flight.file.size(), "fuzz-%.*s.bin",
                  static_cast<int>(target_.name.size()), target_.name.data());
    in_flight.data = exact.data();
    in_flight.size = exact.size();
    ::alarm(kHangSeconds);
    Verdict verdict = target_.run({exact.data(), exact.size()});
    ::alarm(0);
    return verdict;
  }

  void keep(std::string input) {
    if (corpus_.size() < kMaxCorpus) {
      corpus_.push_back(std::move(input));
    } else {
      // The seeds stay.
      const size_t at = target_.seeds.size() + random_.below(kMaxCorpus - target_.seeds.size());
      corpus_[at] = std::move(input);
    }
  }

  Target target_;
  Random random_;
  std::vector<std::string> corpus_;
  std::set<std::string> forms_;
  size_t runs_ = 0;
  size_t accepted_ = 0;
};

struct Options {
  unsigned long seconds = 10;
  unsigned long seed = 1;
  std::string target;
};

bool parse_number(const char* text, unsigned long& value) {
  char* end = nullptr;
  value = std::strtoul(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0';
}

bool parse_options(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--target") {
      options.target = argv[i + 1];
    } else if (name == "--seconds" ? !parse_number(argv[i + 1], options.seconds)
                                   : name != "--seed" || !parse_number(argv[i + 1], options.seed)) {
      return false;
    }
  }
  return argc % 2 == 1;
}

int run(const Options& options) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) {
    std::signal(signal, save_and_die);
  }
  std::vector<Campaign> campaigns;
  for (const auto make : targets()) {
    Target target = make();
    if (options.target.empty() || options.target == target.name) {
      campaigns.emplace_back(std::move(target), options.seed);
    }
  }
  if (campaigns.empty()) {
    std::fprintf(stderr, "error: no target is called %s\n", options.target.c_str());
    return 2;
  }
  const auto end = Clock::now() + std::chrono::seconds(options.seconds);
  while (Clock::now() < end) {
    for (Campaign& campaign : campaigns) {
      campaign.turn();
    }
  }
  for (const Campaign& campaign : campaigns) {
    campaign.report();
  }
  return 0;
}

}  // namespace

void require(bool condition, std::string_view what) {
  if (!condition) {
    std::fprintf(stderr, "fuzz: this does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
    std::abort();
  }
}

}  // namespace scalegemm::fuzz

int main(int argc, char** argv) {
  scalegemm::fuzz::Options options;
  if (!scalegemm::fuzz::parse_options(argc, argv, options)) {
    std::fprintf(stderr, "usage: fuzz_NAME [--seconds N] [--seed S] [--target NAME]\n");
    return 2;
  }
  return scalegemm::fuzz::run(options);
}
