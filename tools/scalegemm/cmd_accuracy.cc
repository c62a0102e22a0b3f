// scalegemm accuracy: the measured error of each accuracy mode against K.
#include <fmt/format.h>

#include <memory>

#include "app.h"
#include "gpu_bench.h"
#include "harness/accuracy.h"
#include "harness/files.h"

namespace scalegemm::cli {
namespace {

constexpr int64_t kRows = 256;  // M and N

struct Options {
  RuntimeFlags runtime;
  JsonFlag json;
  ProgressFlag progress;
  std::string device = "cpu";
  std::vector<int64_t> ks = {128, 256, 1024, 4096, 16384, 65536};
  std::string csv;
};

// What is measured at each K.
constexpr struct {
  const char* scheme;
  int32_t accuracy;
} kModes[] = {{"rowcol", SCALEGEMM_FAST},
              {"rowcol", SCALEGEMM_PROMOTED},
              {"rowcol", SCALEGEMM_EXACT},
              {"abquant:bn=128", SCALEGEMM_PROMOTED}};

constexpr struct {
  harness::Fill fill;
  const char* name;
} kData[] = {{harness::Fill::kRandom, "normal"}, {harness::Fill::kOnes, "ones"}};

struct Row {
  const char* data;
  harness::AccuracyResult result;
};

std::string accuracy_word(const harness::Case& c) {
  return std::string(harness::word_of(harness::kAccuracies, c.accuracy));
}

// "-27:12 -26:300": errors in [2^-27, 2^-26), and so on.
std::string histogram_text(const std::map<int, int64_t>& histogram) {
  std::string text;
  for (const auto& [exponent, count] : histogram) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", exponent, count);
  }
  return text;
}

std::string csv_of(const std::vector<Row>& rows, const scalegemm_device_info& device) {
  std::string csv = fmt::format(
      "# device {}, {}; scalegemm {}\n"
      "# D in f32; error: |d - exact| / sum over K of |a b|, against float64, of sampled rows and columns;\n"
      "# data through the quantisers: normal values, or every value 1; histogram: e:elements whose error is "
      "in\n"
      "# [2^e, 2^(e + 1)); those in none have an error of 0\n"
      "scheme,accuracy,data,m,n,k,kernel,max_error,rms_error,elements,histogram,verified\n",
      device.model, device.features, scalegemm_version());
  for (const auto& [data, r] : rows) {
    csv += fmt::format("\"{}\",{},{},{},{},{},{},{:.3e},{:.3e},{},{},{}\n", r.c.scheme, accuracy_word(r.c),
                       data, r.c.m, r.c.n, r.c.k, r.kernel, r.errors.max, r.errors.rms, r.errors.elements,
                       histogram_text(r.errors.histogram), r.verified ? "yes" : "no");
  }
  return csv;
}

Json json_of(const Row& row) {
  const harness::AccuracyResult& r = row.result;
  Json histogram = Json::array();
  for (const auto& [exponent, count] : r.errors.histogram) {
    histogram.push_back({exponent, count});
  }
  return {{"scheme", r.c.scheme},
          {"accuracy", accuracy_word(r.c)},
          {"data", row.data},
          {"m", r.c.m},
          {"n", r.c.n},
          {"k", r.c.k},
          {"kernel", r.kernel},
          {"max_error", r.errors.max},
          {"rms_error", r.errors.rms},
          {"elements", r.errors.elements},
          {"histogram", histogram},
          {"verified", r.verified},
          {"problem", r.problem}};
}

void print(const std::vector<Row>& rows) {
  Table table({"scheme", "accuracy", "data", "k", "max error", "RMS error", "verified"});
  for (const auto& [data, r] : rows) {
    table.add({r.c.scheme, accuracy_word(r.c), data, std::to_string(r.c.k),
               fmt::format("{:.1e}", r.errors.max), fmt::format("{:.1e}", r.errors.rms),
               r.verified ? "yes" : "NO: " + r.problem});
  }
  table.print();
}

int run(const Options& options) {
  harness::require_writable(options.json.path);
  harness::require_writable(options.csv);
  const Runtime runtime = options.runtime.make_runtime();
  const scalegemm_device_info device = find_device(runtime, options.device);
  Progress progress(options.progress.show(),
                    static_cast<int64_t>(std::size(kData) * std::size(kModes) * options.ks.size()));
  const Interrupt interrupt;
  std::vector<Row> rows;
  bool verified = true;
  for (const auto& [fill, data] : kData) {
    for (const auto& [scheme, accuracy] : kModes) {
      for (const int64_t k : options.ks) {
        if (Interrupt::requested()) {
          return kExitFailure;
        }
        harness::Case c;
        c.scheme = scheme;
        c.m = c.n = kRows;
        c.k = k;
        c.accuracy = accuracy;
        c.fill = fill;
        c.strides = harness::Strides::kAligned;  // what the TMA kernels take
        c.scale_order = harness::ScaleOrder::kLines;
        progress.step(static_cast<int64_t>(rows.size()), fmt::format("{} {} k={}", data, scheme, k));
        rows.push_back(
            {data, harness::measure_accuracy(runtime, c, {options.runtime.threads, "", options.device})});
        verified = verified && rows.back().result.verified;
      }
    }
  }
  progress.clear();
  Json json = {{"version", scalegemm_version()}, {"device", device.model}, {"results", Json::array()}};
  for (const Row& row : rows) {
    json["results"].push_back(json_of(row));
  }
  if (!options.json.replaces_text()) {
    print(rows);
  }
  options.json.write(json);
  if (!options.csv.empty()) {
    harness::write_file(options.csv, csv_of(rows, device));
  }
  return verified ? kExitOk : kExitFailure;
}

}  // namespace

void add_accuracy(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.root->add_subcommand("accuracy", "Measure the error of each accuracy mode of e4m3 against K");
  command->add_option("--device", options->device, "Device: cpu, cuda:0")->capture_default_str();
  command->add_option("--k", options->ks, "Values of K; may be repeated")
      ->allow_extra_args(false)
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--csv", options->csv, "Write the results as CSV to this file")->check(file_name());
  options->runtime.add_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
