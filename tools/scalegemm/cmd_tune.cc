// scalegemm tune: times every legal kernel of a CUDA device on shapes, and writes what was fastest.
//
// The table (src/dispatch/tuned.h) overrules the cost model of dispatch. A table that exists is added to:
// shapes that it has are skipped, unless the code of their kernel has changed since, so that an interrupted
// run goes on where it stopped. So does a run whose
// process a kernel brought down, without that kernel (harness/trials.h).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "app.h"
#include "facts.h"
#include "gpu_bench.h"
#include "harness/files.h"

namespace scalegemm::cli {
namespace {

constexpr const char* kHeader = "target,device,problem,m_bucket,n,k,kernel,us,mad_us,kernel_id\n";
constexpr int64_t kMostBucket = 8192;

struct Options {
  RuntimeFlags runtime;
  ProgressFlag progress;
  std::string device = "cuda:0";
  std::string suite;
  std::string scheme = "rowcol";
  std::string out_type = "bf16";
  std::string accuracy = "promoted";
  std::string table;
  std::string csv;
  std::string peer = "none";
  int candidates = 64;
};

struct Shape {
  harness::Case c;
  std::string signature;
  std::vector<std::string> kernels;  // as dispatch ranks them
};

int64_t bucket_of(int64_t m) {
  return std::min(kMostBucket, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(m))));
}

std::string key_of(const scalegemm_device_info& device, const Shape& shape) {
  std::string model = device.model;
  model.erase(std::remove(model.begin(), model.end(), ','), model.end());
  return fmt::format("{},{},{},{},{},{},", device.target, model, shape.signature, bucket_of(shape.c.m),
                     shape.c.n, shape.c.k);
}

// The line of the table that begins with `key`, without its end; empty: none.
std::string row_of(const std::string& table, const std::string& key) {
  const size_t at = ("\n" + table).find("\n" + key);
  return at == std::string::npos ? "" : table.substr(at, table.find('\n', at) - at);
}

// The id of a kernel's code here; empty: not known without a compiler.
std::string id_of(const Runtime& runtime, const std::string& name) {
  struct Wanted {
    const std::string& name;
    std::string id;
  } wanted{name, ""};
  const auto visit = [](const scalegemm_kernel_info* info, void* user) -> int32_t {
    auto& w = *static_cast<Wanted*>(user);
    if (w.name != info->name) {
      return 0;
    }
    w.id = info->id;
    return 1;
  };
  check(scalegemm_kernels(runtime.get(), name.c_str(), visit, &wanted));
  return wanted.id;
}

// Was the row measured with this kernel's present code, as far as one can tell?
bool is_fresh(const Runtime& runtime, const std::string& row) {
  std::vector<std::string> fields(1);
  for (const char c : row) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  constexpr size_t kKernel = 6, kId = 9;
  const std::string id = fields.size() > kId ? fields[kId] : "";
  const std::string now = id.empty() ? "" : id_of(runtime, fields[kKernel]);
  return id.empty() || now.empty() || id == now;
}

Shape explain_shape(const Runtime& runtime, const Options& options, harness::Case c) {
  c.scheme = options.scheme;
  c.d_dtype = value_of(harness::kOutputTypes, options.out_type);
  c.accuracy = value_of(harness::kAccuracies, options.accuracy);
  c.packing = SCALEGEMM_RAW;
  c.strides = harness::Strides::kAligned;
  c.scale_order = harness::ScaleOrder::kLines;
  auto plan = make<scalegemm_plan_options>();
  plan.device = options.device.c_str();
  const Json why = Json::parse(runtime.explain(harness::problem_of(c), &plan, 1));
  Shape shape{c, why["problem"]["signature"].get<std::string>(), {}};
  for (const auto& candidate : why["candidates"]) {
    const auto name = candidate["kernel"].get<std::string>();
    if (static_cast<int>(shape.kernels.size()) < options.candidates) {
      shape.kernels.push_back(name);
    }
  }
  return shape;
}

// Compiles all of them, a thread a core, and returns those that could be. Failures are said once.
std::set<std::string> compile_all(const Runtime& runtime, const std::set<std::string>& names,
                                  Progress& progress) {
  const std::vector<std::string> list(names.begin(), names.end());
  std::atomic<size_t> next{0};
  std::vector<std::string> problems(list.size());
  std::vector<std::thread> threads;
  const unsigned workers = std::max(1u, std::thread::hardware_concurrency());
  for (unsigned t = 0; t < workers; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < list.size(); i = next++) {
        if (scalegemm_kernel_build(runtime.get(), list[i].c_str(), 0) != SCALEGEMM_OK) {
          problems[i] = scalegemm_last_error();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  progress.clear();
  std::set<std::string> good;
  for (size_t i = 0; i < list.size(); ++i) {
    if (problems[i].empty()) {
      good.insert(list[i]);
    } else {
      fmt::print(stderr, "left out: {}\n", problems[i].substr(0, problems[i].find('\n')));
    }
  }
  return good;
}

// Among shapes of equal N and K a larger M must not be faster: its kernel takes the smaller M as well. The
// kernel of a larger, faster M that this shape should try; empty where there is none.
std::string better_elsewhere(const std::vector<harness::GpuBenchResult>& results,
                             const harness::GpuBenchResult& small) {
  const harness::GpuBenchResult* best = &small;
  for (const auto& large : results) {
    if (small.verified && large.verified && small.c.n == large.c.n && small.c.k == large.c.k &&
        small.c.m < large.c.m && large.timing.median_us < 0.97 * best->timing.median_us &&
        large.kernel != small.kernel) {
      best = &large;
    }
  }
  return best == &small ? "" : best->kernel;
}

int tune(const Options& options, const std::vector<harness::Case>& cases, harness::Trials& trials) {
  const Runtime runtime = options.runtime.make_runtime();
  const scalegemm_device_info device = find_device(runtime, options.device);
  std::string table;
  if (std::ifstream old(options.table); old) {
    table.assign(std::istreambuf_iterator<char>(old), {});
  }
  if (table.empty()) {
    table = kHeader;
  }
  std::vector<Shape> shapes;
  std::set<std::string> names;
  for (const harness::Case& c : cases) {
    Shape shape = explain_shape(runtime, options, c);
    if (const std::string row = row_of(table, key_of(device, shape));
        !row.empty() && is_fresh(runtime, row)) {
      continue;
    }
    names.insert(shape.kernels.begin(), shape.kernels.end());
    shapes.push_back(std::move(shape));
  }
  Progress progress(options.progress.show(), static_cast<int64_t>(shapes.size()));
  progress.step(0, fmt::format("compiling {} kernels", names.size()));
  std::erase_if(names, [&trials](const std::string& name) { return trials.left_out(name); });
  const std::set<std::string> good = compile_all(runtime, names, progress);

  const auto add_row = [&](const Shape& shape, const harness::GpuBenchResult& best) {
    if (!best.verified) {
      return;
    }
    const std::string key = key_of(device, shape);
    if (const std::string old = row_of(table, key); !old.empty()) {
      table.erase(table.find(old), old.size() + 1);
    }
    table += fmt::format("{}{},{:.2f},{:.2f},{}\n", key, best.kernel, best.timing.median_us,
                         best.timing.mad_us, id_of(runtime, best.kernel));
    harness::write_file(options.table, table);
  };

  const Interrupt interrupt;
  const harness::Ceilings ceilings = runtime.measure_ceilings(device.name, 0);
  std::vector<harness::GpuBenchResult> results;
  bool verified = true;
  const auto measure = [&](const Shape& shape, const std::vector<std::string>& kernels) {
    harness::GpuBenchOptions bench;
    bench.choice = {options.runtime.threads, "", options.device};
    bench.kernels = kernels;
    bench.trials = &trials;
    bench.ceilings = ceilings;
    bench.peers = options.peer == "cublaslt";
    bench.report = [&progress](const std::string& line) {
      progress.clear();
      fmt::print(stderr, "{}\n", line);
    };
    return harness::bench_on_gpu(runtime, shape.c, bench);
  };
  const auto keep = [&](size_t i) {
    add_row(shapes[i], results[i]);
    if (!options.csv.empty()) {
      harness::write_file(options.csv, results_header(device, kGemmData, ceilings) + results_csv(results));
    }
  };
  for (size_t i = 0; i < shapes.size() && !Interrupt::requested(); ++i) {
    Shape& shape = shapes[i];
    progress.step(static_cast<int64_t>(i), fmt::format("{}: {} kernels", shape.c.name, shape.kernels.size()));
    std::erase_if(shape.kernels, [&good](const std::string& name) { return good.count(name) == 0; });
    results.push_back(measure(shape, shape.kernels));
    verified = verified && results.back().verified;
    keep(i);
  }
  // Once more where a larger M was faster: its kernel beside this shape's own.
  for (size_t i = 0; i < results.size() && !Interrupt::requested(); ++i) {
    const std::string other = better_elsewhere(results, results[i]);
    if (other.empty()) {
      continue;
    }
    progress.step(static_cast<int64_t>(i), fmt::format("{}: a larger M is faster", shapes[i].c.name));
    harness::GpuBenchResult again = measure(shapes[i], {results[i].kernel, other});
    if (again.verified) {
      results[i] = std::move(again);
      keep(i);
    }
  }
  progress.clear();
  print_results(results);
  return verified && !Interrupt::requested() ? kExitOk : kExitFailure;
}

int run(const Options& options) {
  const std::vector<harness::Case> cases = harness::read_suite(options.suite);
  harness::require_writable(options.table);
  harness::require_writable(options.csv);
  harness::TrialOptions trials;
  trials.report = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  return harness::run_in_trials(
      [&](harness::Trials& child) { return guarded([&] { return tune(options, cases, child); }); }, trials);
}

}  // namespace

void add_tune(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.root->add_subcommand(
      "tune", "Time every kernel of a CUDA device on shapes and write the fastest as a tuned table");
  command->add_option("--device", options->device, "Device: cuda:0")->capture_default_str();
  command->add_option("--suite", options->suite, "CSV with the columns name,m,n,k")->required();
  command->add_option("--scheme", options->scheme, "A scheme")->capture_default_str();
  command->add_option("--out-type", options->out_type, "Type of D: " + list_of(harness::kOutputTypes))
      ->check(one_of(harness::kOutputTypes))
      ->capture_default_str();
  command->add_option("--accuracy", options->accuracy, "Sums: " + list_of(harness::kAccuracies))
      ->check(one_of(harness::kAccuracies))
      ->capture_default_str();
  command->add_option("--table", options->table, "The tuned table to write or add to")->required();
  command->add_option("--csv", options->csv, "Also write the times of the fastest as CSV");
  command->add_option("--candidates", options->candidates, "Kernels a shape at most, as dispatch ranks them")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--peer", options->peer, "Time this library too, interleaved: none or cublaslt")
      ->check(CLI::IsMember({"none", "cublaslt"}))
      ->capture_default_str();
  options->runtime.add_to(*command);
  options->progress.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
