// bench and tune on a CUDA device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app.h"
#include "harness/gpu_bench.h"
#include "harness/quantize_bench.h"

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

// The same for the quantisers of A, from a source of this type, beside a copy on the device.
int bench_quantizers_on_device(const Runtime& runtime, const GpuBench& options, int32_t source_dtype);

// Column names and a row a case and peer.
std::string results_csv(const std::vector<harness::GpuBenchResult>& results);
void print_results(const std::vector<harness::GpuBenchResult>& results);
std::string results_csv(const std::vector<harness::QuantizeBenchResult>& results);
void print_results(const std::vector<harness::QuantizeBenchResult>& results);

inline constexpr std::string_view kGemmData = "normal values through the quantisers";
// The header lines of a results file: device, driver, clocks, data, protocol, ceilings where there are any.
std::string results_header(const scalegemm_device_info& device, std::string_view data,
                           const harness::Ceilings& ceilings);

scalegemm_device_info find_device(const Runtime& runtime, const std::string& name);

}  // namespace scalegemm::cli
