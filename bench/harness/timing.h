// How a time is taken: warmed up, repeated, candidates interleaved, median and MAD.
//
// All candidates of one shape run round-robin in one process, so that a slow spell of a shared machine hits
// them alike. A candidate whose median absolute deviation stays large is measured twice more alone, and the
// run of the middle median is kept.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace scalegemm::harness {

struct TimingOptions {
  int warmup = 50;        // untimed calls of each candidate
  int repeat = 100;       // timed calls of each candidate
  double budget_s = 2.0;  // for each candidate: both counts shrink to fit, repeat to no fewer than 5
};

struct Timing {
  double median_us = 0;
  double mad_us = 0;  // median absolute deviation from the median
  double best_us = 0;
  int repeats = 0;
};

// One call of the thing to be timed.
using Candidate = std::function<void()>;

// The statistics of raw times in microseconds; at least one.
Timing summarize(std::vector<double> times_us);

// One Timing a candidate, in order. An exception of a candidate passes through.
std::vector<Timing> time_interleaved(std::span<const Candidate> candidates, const TimingOptions& options);

}  // namespace scalegemm::harness
