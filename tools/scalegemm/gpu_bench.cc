#include "gpu_bench.h"

#include <fmt/format.h>

#include <functional>

#include "facts.h"
#include "harness/files.h"

namespace scalegemm::cli {
namespace {

constexpr const char* kColumns =
    "name,m,n,k,scheme,kernel,median_us,mad_us,tflops,gbps,share_of_ceiling,peer,peer_us,ratio,verified\n";

double tflops(const harness::GpuBenchResult& r) {
  return r.operations / r.timing.median_us / 1e6;
}
double gbps(const harness::GpuBenchResult& r) {
  return r.bytes / r.timing.median_us / 1e3;
}

std::string share(const harness::GpuBenchResult& r) {
  return r.share_of_ceiling > 0 ? fmt::format("{:.3f}", r.share_of_ceiling) : "";
}

std::string csv_rows(const harness::GpuBenchResult& r) {
  if (!r.verified) {
    return fmt::format("# {} {}x{}x{} {}: {}\n", r.c.name, r.c.m, r.c.n, r.c.k, r.c.scheme, r.problem);
  }
  const std::string ours =
      fmt::format("{},{},{},{},\"{}\",{},{:.2f},{:.2f},{:.1f},{:.0f},{},", r.c.name, r.c.m, r.c.n, r.c.k,
                  r.c.scheme, r.kernel, r.timing.median_us, r.timing.mad_us, tflops(r), gbps(r), share(r));
  std::string rows;
  for (const harness::PeerResult& peer : r.peers) {
    rows += peer.problem.empty()
                ? fmt::format("{}{},{:.2f},{:.3f},yes\n", ours, peer.name, peer.timing.median_us,
                              peer.timing.median_us / r.timing.median_us)
                : fmt::format("{}{},,,yes\n", ours, peer.name);
  }
  return rows.empty() ? ours + ",,,yes\n" : rows;
}

Json json_of(const harness::GpuBenchResult& r) {
  Json json = {{"name", r.c.name},
               {"m", r.c.m},
               {"n", r.c.n},
               {"k", r.c.k},
               {"scheme", r.c.scheme},
               {"kernel", r.kernel},
               {"median_us", r.timing.median_us},
               {"mad_us", r.timing.mad_us},
               {"host_us", r.host_us},
               {"graph_us", r.graph_us},
               {"verified", r.verified},
               {"peers", Json::array()}};
  if (!r.problem.empty()) {
    json["problem"] = r.problem;
  }
  if (r.verified) {
    json["tflops"] = tflops(r);
    json["gbps"] = gbps(r);
    json["share_of_ceiling"] = r.share_of_ceiling > 0 ? Json(r.share_of_ceiling) : Json(nullptr);
  }
  for (const harness::PeerResult& peer : r.peers) {
    Json entry = {{"name", peer.name}};
    if (peer.problem.empty()) {
      entry["median_us"] = peer.timing.median_us;
      entry["ratio"] = peer.timing.median_us / r.timing.median_us;
    } else {
      entry["problem"] = peer.problem;
    }
    json["peers"].push_back(entry);
  }
  return json;
}

void add_rows(Table& table, const harness::GpuBenchResult& r) {
  std::vector<std::string> row = {r.c.name, std::to_string(r.c.m), std::to_string(r.c.n),
                                  std::to_string(r.c.k), r.c.scheme};
  if (!r.verified) {
    row.insert(row.end(), {"-", "-", "-", "-", "-", r.problem, "-"});
    table.add(std::move(row));
    return;
  }
  std::string peers;
  std::string ratios;
  for (const harness::PeerResult& peer : r.peers) {
    const char* comma = peers.empty() ? "" : ", ";
    peers += comma + peer.name;
    ratios +=
        comma + (peer.problem.empty() ? fmt::format("{:.2f}", peer.timing.median_us / r.timing.median_us)
                                      : std::string("-"));
  }
  row.insert(row.end(), {fmt::format("{:.2f}", r.timing.median_us), fmt::format("{:.1f}", tflops(r)),
                         short_number(gbps(r)),
                         r.share_of_ceiling > 0 ? fmt::format("{:.0f} %", 100 * r.share_of_ceiling) : "-",
                         fmt::format("{:.1f}", r.host_us), fmt::format("{:.2f}", r.graph_us),
                         peers.empty() ? "-" : peers, ratios.empty() ? "-" : ratios});
  table.add(std::move(row));
}

// ---- quantisers ----

double gbps(const harness::QuantizeBenchResult& r) {
  return r.bytes / r.timing.median_us / 1e3;
}
double share_of_copy(const harness::QuantizeBenchResult& r) {
  return r.copy.median_us / r.timing.median_us;
}

Json json_of(const harness::QuantizeBenchResult& r) {
  Json json = {{"name", r.c.name},
               {"m", r.c.m},
               {"k", r.c.k},
               {"scheme", r.c.scheme},
               {"source", word_of(harness::kTypes, r.source_dtype)},
               {"verified", r.verified}};
  if (!r.verified) {
    json["problem"] = r.problem;
    return json;
  }
  json["median_us"] = r.timing.median_us;
  json["mad_us"] = r.timing.mad_us;
  json["gbps"] = gbps(r);
  json["copy_us"] = r.copy.median_us;
  json["share_of_copy"] = share_of_copy(r);
  return json;
}

// Makes the result of every case, prints a table and writes CSV and JSON.
template <class Result>
int bench_cases(const Runtime& runtime, const GpuBench& options, const std::string& header,
                const std::function<Result(const harness::Case&)>& bench, const Json& ceilings) {
  const scalegemm_device_info device = find_device(runtime, options.device);
  const Interrupt interrupt;
  Progress progress(options.progress.show(), static_cast<int64_t>(options.cases.size()));
  std::vector<Result> results;
  Json json = {{"version", scalegemm_version()}, {"device", device.model}, {"results", Json::array()}};
  if (!ceilings.empty()) {
    json["ceilings"] = ceilings;
  }
  bool verified = true;
  bool complete = true;
  for (size_t i = 0; i < options.cases.size() && complete; ++i) {
    const harness::Case& c = options.cases[i];
    progress.step(static_cast<int64_t>(i), fmt::format("{} {}", c.name, c.scheme));
    results.push_back(bench(c));
    verified = verified && results.back().verified;
    json["results"].push_back(json_of(results.back()));
    if (!options.csv.empty()) {  // what there is so far outlives an interruption
      harness::write_file(options.csv, header + results_csv(results));
    }
    complete = !Interrupt::requested() || i + 1 == options.cases.size();
  }
  progress.clear();
  if (!options.json.replaces_text()) {
    print_results(results);
  }
  json["complete"] = complete;
  options.json.write(json);
  return verified && complete ? kExitOk : kExitFailure;
}

}  // namespace

std::string results_csv(const std::vector<harness::GpuBenchResult>& results) {
  std::string csv = kColumns;
  for (const harness::GpuBenchResult& result : results) {
    csv += csv_rows(result);
  }
  return csv;
}

void print_results(const std::vector<harness::GpuBenchResult>& results) {
  Table table({"shape", "m", "n", "k", "scheme", "median us", "TFLOP/s", "GB/s", "of ceiling", "host us",
               "graph us", "peer", "peer / ours"});
  for (const harness::GpuBenchResult& result : results) {
    add_rows(table, result);
  }
  table.print();
}

std::string results_csv(const std::vector<harness::QuantizeBenchResult>& results) {
  std::string csv =
      "name,m,k,scheme,source,median_us,mad_us,gbps,copy_us,copy_mad_us,share_of_copy,verified\n";
  for (const harness::QuantizeBenchResult& r : results) {
    csv += r.verified
               ? fmt::format("{},{},{},\"{}\",{},{:.2f},{:.2f},{:.0f},{:.2f},{:.2f},{:.3f},yes\n", r.c.name,
                             r.c.m, r.c.k, r.c.scheme, word_of(harness::kTypes, r.source_dtype),
                             r.timing.median_us, r.timing.mad_us, gbps(r), r.copy.median_us, r.copy.mad_us,
                             share_of_copy(r))
               : fmt::format("# {} {}x{} {}: {}\n", r.c.name, r.c.m, r.c.k, r.c.scheme, r.problem);
  }
  return csv;
}

void print_results(const std::vector<harness::QuantizeBenchResult>& results) {
  Table table({"shape", "m", "k", "scheme", "median us", "GB/s", "copy us", "of copy"});
  for (const harness::QuantizeBenchResult& r : results) {
    std::vector<std::string> row = {r.c.name, std::to_string(r.c.m), std::to_string(r.c.k), r.c.scheme};
    if (r.verified) {
      row.insert(row.end(),
                 {fmt::format("{:.2f}", r.timing.median_us), short_number(gbps(r)),
                  fmt::format("{:.2f}", r.copy.median_us), fmt::format("{:.0f} %", 100 * share_of_copy(r))});
    } else {
      row.insert(row.end(), {"-", "-", "-", r.problem});
    }
    table.add(std::move(row));
  }
  table.print();
}

scalegemm_device_info find_device(const Runtime& runtime, const std::string& name) {
  for (const scalegemm_device_info& device : runtime.devices()) {
    if (device.name == name || (name == "cuda" && std::string(device.name) == "cuda:0")) {
      return device;
    }
  }
  // The library knows why it is not there.
  auto options = make<scalegemm_plan_options>();
  options.device = name.c_str();
  runtime.explain(make_problem("none", "rcr", 16, 16, 16), &options, 0);
  throw Error(SCALEGEMM_NO_DEVICE,
              fmt::format("device: needed one that scalegemm info lists; given {}", name));
}

std::string results_header(const scalegemm_device_info& device, std::string_view data,
                           const harness::Ceilings& ceilings) {
  std::string header = fmt::format(
      "# device {}, {} multiprocessors, {}; clocks not locked; scalegemm {}\n"
      "# data: {}; cold L2 (operand sets rotate over 2x the cache); events "
      "around each\n"
      "# call, launch included; ours and the peer interleaved in one process; median and MAD; verified in "
      "the same run\n",
      device.model, device.cores, device.features, scalegemm_version(), data);
  if (ceilings.empty()) {
    return header;
  }
  header +=
      "# share_of_ceiling: the larger of operations / matrix rate and the cold read of the bytes, over the "
      "median; measured just before:\n";
  std::string reads;
  for (const Ceiling& c : ceilings) {
    if (c.name == "read") {
      const auto bytes = static_cast<double>(c.bytes);
      reads += fmt::format(", {:g} MB {:.1f} us", bytes / 1e6, bytes / (c.value * 1e3));
    } else if (c.name == "launch") {
      reads += fmt::format("# launch {:.1f} us; cold read", c.value);
    } else if (c.name.ends_with("_normal")) {
      header += fmt::format("# {} {:.0f} {}\n", c.name, c.value, c.unit);
    }
  }
  return header + reads + "\n";
}

int bench_on_device(const Runtime& runtime, const GpuBench& options) {
  const scalegemm_device_info device = find_device(runtime, options.device);
  harness::GpuBenchOptions bench = options.bench;
  bench.ceilings = runtime.measure_ceilings(device.name, 0);
  const std::string header = results_header(device, kGemmData, bench.ceilings);
  return bench_cases<harness::GpuBenchResult>(
      runtime, options, header,
      [&](const harness::Case& c) { return harness::bench_on_gpu(runtime, c, bench); },
      json_of(bench.ceilings, device.name, 0));
}

int bench_quantizers_on_device(const Runtime& runtime, const GpuBench& options, int32_t source_dtype) {
  const std::string header =
      results_header(find_device(runtime, options.device), "normal values; e8m0 scales by floor", {});
  return bench_cases<harness::QuantizeBenchResult>(runtime, options, header,
                                                   [&](const harness::Case& c) {
                                                     return harness::bench_quantizer(runtime, c, source_dtype,
                                                                                     options.bench);
                                                   },
                                                   {});
}

}  // namespace scalegemm::cli
