// harness/trials.h with children that crash, hang and fail, as kernels make them do on a device.
#include "harness/trials.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace scalegemm::harness {
namespace {

using Do = void (*)(Trials&);

struct Step {
  const char* name;
  Do run;
};

const Do kGood = [](Trials&) {};
const Do kCrash = [](Trials&) { ::raise(SIGKILL); };
const Do kHang = [](Trials&) { ::pause(); };
const Do kExit = [](Trials&) { std::_Exit(0); };
const Do kFail = [](Trials& trials) { trials.fail("an illegal\naddress"); };

// Tries the steps one after the other; the result is the number of those that came to their end.
int try_all(const std::vector<Step>& steps, std::vector<std::string>* reports) {
  TrialOptions options;
  options.patience_ms = 300;
  options.report = [reports](const std::string& line) { reports->push_back(line); };
  return run_in_trials(
      [&steps](Trials& trials) {
        int done = 0;
        for (const Step& step : steps) {
          if (trials.left_out(step.name)) {
            continue;
          }
          trials.begin(step.name);
          step.run(trials);
          trials.end();
          ++done;
        }
        return done;
      },
      options);
}

TEST(Trials, ReturnTheResultOfTheWork) {
  std::vector<std::string> reports;
  EXPECT_EQ(try_all({{"a", kGood}, {"b", kGood}}, &reports), 2);
  EXPECT_TRUE(reports.empty());
}

TEST(Trials, GoOnWithoutWhatBroughtTheWorkDown) {
  std::vector<std::string> reports;
  EXPECT_EQ(
      try_all(
          {{"a", kGood}, {"b", kCrash}, {"c", kGood}, {"d", kFail}, {"e", kHang}, {"f", kExit}, {"g", kGood}},
          &reports),
      3);
  EXPECT_EQ(reports, (std::vector<std::string>{
                         "left out: b: the process died of signal 9", "left out: d: an illegal address",
                         "left out: e: no end after 0.3 s", "left out: f: the process ended with 0"}));
}

TEST(Trials, PatienceIsForOneTrial) {
  std::vector<std::string> reports;
  const Do slow = [](Trials&) { ::usleep(120'000); };
  EXPECT_EQ(try_all({{"a", slow}, {"b", slow}, {"c", slow}, {"d", slow}}, &reports), 4);
  EXPECT_TRUE(reports.empty());
}

TEST(Trials, ADeathOutsideATrialIsAnError) {
  EXPECT_THROW(run_in_trials(
                   [](Trials& trials) -> int {
                     trials.begin("a");
                     trials.end();
                     std::abort();
                   },
                   {}),
               std::runtime_error);
}

TEST(Trials, ANameThatIsTriedAgainThoughLeftOutIsAnError) {
  EXPECT_THROW(run_in_trials(
                   [](Trials& trials) -> int {
                     trials.begin("a");
                     std::_Exit(1);
                   },
                   {}),
               std::runtime_error);
}

}  // namespace
}  // namespace scalegemm::harness
