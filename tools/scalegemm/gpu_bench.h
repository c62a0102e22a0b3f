// bench and tune on a CUDA device.
#pragma once

#include <string>
#include <vector>

#include "app.h"
#include "harness/gpu_bench.h"

namespace scalegemm::cli {

struct GpuBench {
  std::string device;
  std::vector<harness::Case> cases;
  std::string csv;
  JsonFlag json;
  ProgressFlag progress;
  harness::GpuBenchOptions bench;
};

// Times every case, prints a table and writes CSV and JSON: a row a case and peer.
int bench_on_device(const Runtime& runtime, const GpuBench& options);

// Column names and a row a case and peer.
std::string results_csv(const std::vector<harness::GpuBenchResult>& results);
void print_results(const std::vector<harness::GpuBenchResult>& results);

// The header lines of a results file: device, driver, clocks, data, protocol, ceilings.
std::string results_header(const scalegemm_device_info& device, const harness::Ceilings& ceilings);

scalegemm_device_info find_device(const Runtime& runtime, const std::string& name);

}  // namespace scalegemm::cli
