#include "harness/timing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

namespace scalegemm::harness {
namespace {

constexpr int kFewest = 5;            // repeats below which a median says nothing
constexpr double kLargeSpread = 0.1;  // MAD over median that asks for another measurement
constexpr double kWarmupShare = 0.25;

double time_once(const Candidate& candidate) {
  const auto start = std::chrono::steady_clock::now();
  candidate();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Counts {
  int warmup = 0;
  int repeat = kFewest;
};

Counts counts_for(double first_us, const TimingOptions& options) {
  const double calls = options.budget_s * 1e6 / std::max(first_us, 0.1);
  const auto fit = [calls](double share, int most) {
    return static_cast<int>(std::min(calls * share, static_cast<double>(most)));
  };
  return {fit(kWarmupShare, options.warmup), std::max(fit(1 - kWarmupShare, options.repeat), kFewest)};
}

Timing time_alone(const Candidate& candidate, int repeat) {
  std::vector<double> times;
  for (int i = 0; i < repeat; ++i) {
    times.push_back(time_once(candidate));
  }
  return summarize(std::move(times));
}

Timing settle(const Candidate& candidate, const Timing& first) {
  if (first.mad_us <= kLargeSpread * first.median_us) {
    return first;
  }
  std::array<Timing, 3> runs = {first, time_alone(candidate, first.repeats),
                                time_alone(candidate, first.repeats)};
  std::sort(runs.begin(), runs.end(),
            [](const Timing& x, const Timing& y) { return x.median_us < y.median_us; });
  return runs[1];
}

}  // namespace

Timing summarize(std::vector<double> times_us) {
  Timing timing;
  timing.repeats = static_cast<int>(times_us.size());
  timing.best_us = *std::min_element(times_us.begin(), times_us.end());
  timing.median_us = median_of(times_us);
  for (double& time : times_us) {
    time = std::abs(time - timing.median_us);
  }
  timing.mad_us = median_of(times_us);
  return timing;
}

std::vector<Timing> time_interleaved(std::span<const Candidate> candidates, const TimingOptions& options) {
  std::vector<Counts> counts;
  for (const Candidate& candidate : candidates) {
    time_once(candidate);  // pages, code and threads are there afterwards
    counts.push_back(counts_for(time_once(candidate), options));
    for (int i = 0; i < counts.back().warmup; ++i) {
      candidate();
    }
  }
  std::vector<std::vector<double>> times(candidates.size());
  for (int round = 0; round < options.repeat || round < kFewest; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (round < counts[i].repeat) {
        times[i].push_back(time_once(candidates[i]));
      }
    }
  }
  std::vector<Timing> timings;
  for (size_t i = 0; i < candidates.size(); ++i) {
    timings.push_back(settle(candidates[i], summarize(std::move(times[i]))));
  }
  return timings;
}

}  // namespace scalegemm::harness
