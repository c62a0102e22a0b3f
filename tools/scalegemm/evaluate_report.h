// What scalegemm evaluate reports: a table to decide from, CSV and JSON.
#pragma once

#include <string>
#include <vector>

#include "app.h"
#include "harness/evaluation.h"

namespace scalegemm::cli {

struct EvaluatedShape {
  int64_t n = 0;
  int64_t k = 0;
  int64_t count = 0;     // weights of that shape in the model
  int64_t measured = 0;  // of which were measured
  bool given_activations = false;
};

struct EvaluationReport {
  std::string model;
  scalegemm_device_info device{};
  int32_t threads = 0;
  std::vector<std::string> schemes;
  std::vector<int64_t> ms;
  std::vector<EvaluatedShape> shapes;
  size_t total_shapes = 0;
  std::vector<std::string> left_out;
  std::vector<harness::EvaluationResult> results;
  bool finished = false;  // nothing more will come
  bool complete = false;  // and nothing is missing
  double seconds = 0;

  bool all_verified() const;
};

enum class Detail : uint8_t { kSummary, kByShape };

void print(const EvaluationReport& report, Detail detail);
std::string csv_of(const EvaluationReport& report);
Json json_of(const EvaluationReport& report);

}  // namespace scalegemm::cli
