#include "evaluate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "facts.h"

namespace scalegemm::cli {
namespace {

using harness::EvaluationResult;

// Sums over shapes of one scheme at one m: every weight of the model once.
struct Total {
  double microseconds = 0;
  double operations = 0;
};

// One scheme over the whole model.
struct Summary {
  std::string scheme;
  double bits = 0;  // weighted by values
  double bytes = 0;
  double signal = 0;
  double noise = 0;
  double worst_ratio = 0;
  std::map<int64_t, Total> by_m;
  std::vector<std::string> problems;
};

double decibels(double signal, double noise) {
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

double operations_of(const EvaluationResult& r) {
  return 2.0 * static_cast<double>(r.m) * static_cast<double>(r.n) * static_cast<double>(r.k);
}

double gops(const EvaluationResult& r) {
  return r.timing.median_us > 0 ? operations_of(r) / r.timing.median_us / 1e3 : 0;
}

void add(Summary& summary, const EvaluationResult& r, bool first_m) {
  if (!r.problem.empty()) {
    summary.problems.push_back(fmt::format("{} x {}, m {}: {}", r.n, r.k, r.m, r.problem));
  }
  if (!r.verified) {
    return;
  }
  summary.worst_ratio = std::max(summary.worst_ratio, r.worst_ratio);
  Total& total = summary.by_m[r.m];
  total.microseconds += r.timing.median_us * static_cast<double>(r.count);
  total.operations += operations_of(r) * static_cast<double>(r.count);
  if (first_m) {
    summary.bytes += r.packed_bytes;
    summary.bits += r.bits_per_weight * static_cast<double>(r.count * r.n * r.k);
    summary.signal += r.signal;
    summary.noise += r.noise;
  }
}

std::vector<Summary> summarize(const EvaluationReport& report) {
  std::vector<Summary> summaries;
  std::map<std::string, double> values;
  for (const EvaluationResult& r : report.results) {
    auto found = std::find_if(summaries.begin(), summaries.end(),
                              [&r](const Summary& s) { return s.scheme == r.scheme; });
    if (found == summaries.end()) {
      summaries.push_back({.scheme = r.scheme, .by_m = {}, .problems = {}});
      found = summaries.end() - 1;
    }
    const bool first_m = r.m == report.ms.front();
    add(*found, r, first_m);
    if (first_m && r.verified) {
      values[r.scheme] += static_cast<double>(r.count * r.n * r.k);
    }
  }
  for (Summary& summary : summaries) {
    summary.bits /= std::max(values[summary.scheme], 1.0);
  }
  return summaries;
}

// Speed of a total against the baseline's; 0 where either is missing.
double speedup(const Summary& summary, const Summary& baseline, int64_t m) {
  const auto mine = summary.by_m.find(m);
  const auto base = baseline.by_m.find(m);
  if (mine == summary.by_m.end() || base == baseline.by_m.end() || mine->second.microseconds == 0) {
    return 0;
  }
  return base->second.microseconds / base->second.operations * mine->second.operations /
         mine->second.microseconds;
}

double total_gops(const Summary& summary, int64_t m) {
  const auto total = summary.by_m.find(m);
  return total == summary.by_m.end() || total->second.microseconds == 0
             ? 0
             : total->second.operations / total->second.microseconds / 1e3;
}

// Published files hold no path of the machine that made them.
std::string base_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string decibel_text(double signal, double noise) {
  const double value = decibels(signal, noise);
  if (std::isfinite(value)) {
    return fmt::format("{:.1f}", value);
  }
  return value > 0 ? "exact" : "not finite";
}

void print_summary(const EvaluationReport& report) {
  std::vector<std::string> header = {"scheme", "bits/weight", "memory", "SQNR dB", "error/bound"};
  for (int64_t m : report.ms) {
    header.push_back(fmt::format("GOP/s m={}", m));
    header.emplace_back("x f32");
  }
  Table table(header);
  const std::vector<Summary> summaries = summarize(report);
  for (const Summary& s : summaries) {
    if (s.by_m.empty()) {
      table.add({s.scheme, "-", "-", "-", "-"});
      continue;
    }
    std::vector<std::string> row = {s.scheme, fmt::format("{:.2f}", s.bits), human_bytes(s.bytes),
                                    decibel_text(s.signal, s.noise), short_number(s.worst_ratio)};
    for (int64_t m : report.ms) {
      row.push_back(short_number(total_gops(s, m)));
      row.push_back(fmt::format("{:.2f}", speedup(s, summaries.front(), m)));
    }
    table.add(std::move(row));
  }
  table.print();
  for (const Summary& s : summaries) {
    for (const std::string& problem : s.problems) {
      fmt::print("{}: NOT verified: {}\n", s.scheme, problem);
    }
  }
}

void print_shape(const EvaluationReport& report, const EvaluatedShape& shape) {
  fmt::print("\nWeights of {} x {} ({} in the model, {} measured):\n", shape.n, shape.k, shape.count,
             shape.measured);
  Table table({"scheme", "m", "median us", "MAD us", "GOP/s", "SQNR dB", "error/bound", "kernel"});
  for (const EvaluationResult& r : report.results) {
    if (r.n == shape.n && r.k == shape.k) {
      table.add({r.scheme, std::to_string(r.m), short_number(r.timing.median_us),
                 short_number(r.timing.mad_us), short_number(gops(r)), decibel_text(r.signal, r.noise),
                 short_number(r.worst_ratio), r.problem.empty() ? r.kernel : r.problem});
    }
  }
  table.print();
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json json_of(const EvaluationResult& r) {
  return {{"scheme", r.scheme},
          {"n", r.n},
          {"k", r.k},
          {"count", r.count},
          {"m", r.m},
          {"kernel", r.kernel},
          {"bits_per_weight", r.bits_per_weight},
          {"memory_bytes", r.packed_bytes},
          {"sqnr_db", number(decibels(r.signal, r.noise))},
          {"worst_error_over_bound", r.worst_ratio},
          {"median_us", r.timing.median_us},
          {"mad_us", r.timing.mad_us},
          {"gops", gops(r)},
          {"verified", r.verified},
          {"problem", r.problem}};
}

}  // namespace

bool EvaluationReport::all_verified() const {
  return std::all_of(results.begin(), results.end(), [](const EvaluationResult& r) { return r.verified; });
}

void print(const EvaluationReport& report, Detail detail) {
  int64_t weights = 0;
  double values = 0;
  for (const EvaluatedShape& shape : report.shapes) {
    weights += shape.count;
    values += static_cast<double>(shape.count * shape.n * shape.k);
  }
  fmt::print("{}: {} weights of {} shapes, {:.1f} million values; {} on {}, {} thread{}\n", report.model,
             weights, report.shapes.size(), values / 1e6, report.device.target, report.device.model,
             report.threads, report.threads == 1 ? "" : "s");
  for (const std::string& text : report.left_out) {
    fmt::print("left out: {}\n", text);
  }
  fmt::print("\n");
  print_summary(report);
  if (detail == Detail::kByShape) {
    for (const EvaluatedShape& shape : report.shapes) {
      print_shape(report, shape);
    }
  }
  fmt::print(
      "\nGOP/s: every weight of the model once at that m. SQNR: outputs against those of f32 weights and "
      "activations.\nerror/bound: the largest error against the float64 oracle over its proved bound. {:.0f} "
      "s.\n",
      report.seconds);
  if (!report.complete) {
    fmt::print("Interrupted after {} of {} shapes: the table is partial.\n", report.shapes.size(),
               report.total_shapes);
  }
}

std::string csv_of(const EvaluationReport& report) {
  std::string csv =
      fmt::format("# model {}, device {}, target {}, threads {}, scalegemm {}{}\n", base_name(report.model),
                  report.device.model, report.device.target, report.threads, scalegemm_version(),
                  report.finished && !report.complete ? ", interrupted" : "");
  csv +=
      "scheme,n,k,count,m,kernel,bits_per_weight,memory_bytes,sqnr_db,worst_error_over_bound,median_us,mad_"
      "us,"
      "gops,verified\n";
  for (const EvaluationResult& r : report.results) {
    csv += fmt::format("\"{}\",{},{},{},{},{},{:.4f},{:.0f},{:.2f},{:.3g},{:.3f},{:.3f},{:.3f},{}\n",
                       r.scheme, r.n, r.k, r.count, r.m, r.kernel, r.bits_per_weight, r.packed_bytes,
                       decibels(r.signal, r.noise), r.worst_ratio, r.timing.median_us, r.timing.mad_us,
                       gops(r), r.verified ? "yes" : "no");
  }
  return csv;
}

Json json_of(const EvaluationReport& report) {
  Json json = {
      {"model", report.model},       {"version", scalegemm_version()}, {"device", json_of(report.device)},
      {"threads", report.threads},   {"complete", report.complete},    {"seconds", report.seconds},
      {"left_out", report.left_out}, {"shapes", Json::array()},        {"summary", Json::array()},
      {"results", Json::array()}};
  for (const EvaluatedShape& shape : report.shapes) {
    json["shapes"].push_back({{"n", shape.n},
                              {"k", shape.k},
                              {"count", shape.count},
                              {"measured", shape.measured},
                              {"given_activations", shape.given_activations}});
  }
  const std::vector<Summary> summaries = summarize(report);
  for (const Summary& s : summaries) {
    Json row = {{"scheme", s.scheme},
                {"bits_per_weight", s.bits},
                {"memory_bytes", s.bytes},
                {"sqnr_db", number(decibels(s.signal, s.noise))},
                {"worst_error_over_bound", s.worst_ratio},
                {"speed", Json::array()},
                {"problems", s.problems}};
    for (int64_t m : report.ms) {
      row["speed"].push_back(
          {{"m", m}, {"gops", total_gops(s, m)}, {"over_f32", speedup(s, summaries.front(), m)}});
    }
    json["summary"].push_back(std::move(row));
  }
  for (const EvaluationResult& result : report.results) {
    json["results"].push_back(json_of(result));
  }
  return json;
}

}  // namespace scalegemm::cli
