// scalegemm bench: times of every shape and scheme, verified before timed, with the ceilings of the same run.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <set>
#include <tuple>

#include "app.h"
#include "facts.h"
#include "gpu_bench.h"
#include "harness/bench.h"
#include "harness/files.h"

namespace scalegemm::cli {
namespace {

struct Options {
  RuntimeFlags runtime;
  JsonFlag json;
  ProgressFlag progress;
  std::string suite;
  std::string csv;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  std::vector<std::string> schemes = {"none:a=f32"};
  std::string layout = "rcr";
  std::string out_type = "f32";
  std::string packing = "packed";
  std::string kernel;
  std::string device = "cpu";
  bool dense = false;
  std::string accuracy = "promoted";
  std::string peer = "none";
  std::string quantize = "none";
  harness::BenchOptions bench;
};

std::vector<harness::Case> shapes_of(const Options& options) {
  if (!options.suite.empty()) {
    return harness::read_suite(options.suite);
  }
  const int64_t sizes[] = {options.m, options.n, options.k};
  if (std::count(std::begin(sizes), std::end(sizes), 0) > 0) {
    throw usage_error("shape", "--suite FILE.csv, or all of --m, --n and --k",
                      fmt::format("--m {} --n {} --k {}", options.m, options.n, options.k),
                      "scalegemm bench --suite bench/suites/cpu12.csv --scheme mxfp4");
  }
  harness::Case c;
  c.name = fmt::format("{}x{}x{}", options.m, options.n, options.k);
  c.m = options.m;
  c.n = options.n;
  c.k = options.k;
  return {c};
}

struct Session {
  scalegemm_device_info device{};
  int32_t threads = 0;
  harness::CeilingPair ceilings;
  std::vector<harness::BenchResult> results;
  bool complete = true;
};

Json json_of(const harness::BenchResult& r, const harness::CeilingPair& ceilings) {
  const bool timed = r.timing.repeats > 0;
  const auto share = timed ? ceilings.share(r.work) : std::nullopt;
  Json json = {{"name", r.c.name},
               {"m", r.c.m},
               {"n", r.c.n},
               {"k", r.c.k},
               {"scheme", r.c.scheme},
               {"kernel", r.work.kernel},
               {"median_us", r.timing.median_us},
               {"mad_us", r.timing.mad_us},
               {"best_us", r.timing.best_us},
               {"host_us", r.host_us},
               {"repeats", r.timing.repeats},
               {"gops", timed ? r.work.gops() : 0},
               {"gbps", timed ? r.work.gbps() : 0},
               {"share_of_ceiling", share ? Json(*share) : Json(nullptr)},
               {"cold", r.cold},
               {"verified", r.verified}};
  if (!r.problem.empty()) {
    json["problem"] = r.problem;
  }
  return json;
}

std::string csv_of(const Session& session) {
  std::string csv = fmt::format("# device {}, target {}, threads {}, scalegemm {}\n", session.device.model,
                                session.device.target, session.threads, scalegemm_version());
  csv +=
      "name,m,n,k,scheme,kernel,median_us,mad_us,best_us,host_us,gops,gbps,share_of_ceiling,cold,verified\n";
  for (const harness::BenchResult& r : session.results) {
    const bool timed = r.timing.repeats > 0;
    const auto share = timed ? session.ceilings.share(r.work) : std::nullopt;
    csv += fmt::format("{},{},{},{},\"{}\",{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{},{}\n", r.c.name,
                       r.c.m, r.c.n, r.c.k, r.c.scheme, r.work.kernel, r.timing.median_us, r.timing.mad_us,
                       r.timing.best_us, r.host_us, timed ? r.work.gops() : 0, timed ? r.work.gbps() : 0,
                       share ? fmt::format("{:.4f}", *share) : "", r.cold ? "yes" : "no",
                       r.verified ? "yes" : "no");
  }
  return csv;
}

void print_table(const Session& session) {
  Table table({"shape", "m", "n", "k", "scheme", "median us", "MAD us", "host us", "GOP/s", "GB/s",
               "of ceiling", "verified"});
  for (const harness::BenchResult& r : session.results) {
    std::vector<std::string> row = {r.c.name, std::to_string(r.c.m), std::to_string(r.c.n),
                                    std::to_string(r.c.k), r.c.scheme};
    if (r.timing.repeats == 0) {
      row.insert(row.end(), {"-", "-", "-", "-", "-", "-", r.problem});
    } else {
      const auto share = session.ceilings.share(r.work);
      row.insert(row.end(), {short_number(r.timing.median_us), short_number(r.timing.mad_us),
                             r.host_us > 0 ? short_number(r.host_us) : "-", short_number(r.work.gops()),
                             short_number(r.work.gbps()), share ? fmt::format("{:.0f} %", 100 * *share) : "-",
                             r.verified ? "yes" : "NO: " + r.problem});
    }
    table.add(std::move(row));
  }
  table.print();
}

void print(const Session& session) {
  print_table(session);
  const harness::Ceilings& c = session.ceilings.before;
  const auto rate = [&c](const char* name) { return short_number(harness::rate_of(c, name)); };
  fmt::print("\nCeilings of this run ({} thread{}): f32 FMA {} GFLOP/s, int8 dot {} GOP/s, read {} GB/s.{}\n",
             session.threads, session.threads == 1 ? "" : "s", rate("f32_fma"), rate("int8_dot"),
             rate("read"), session.complete ? "" : " Interrupted: results are partial.");
  if (const auto moved = session.ceilings.moved(); !moved.empty()) {
    fmt::print(
        "Between the start and the end they moved by more than {:.0f} % ({}): rows that depend on them\n"
        "have no share of the ceiling. Leave the machine alone and run again.\n",
        100 * harness::kMoved, fmt::join(moved, ", "));
  }
}

void write_results(const Options& options, const Session& session) {
  Json json = {{"version", scalegemm_version()},
               {"time", static_cast<int64_t>(std::time(nullptr))},
               {"device", cli::json_of(session.device)},
               {"ceilings", cli::json_of(session.ceilings.before, session.device.name, session.threads)},
               {"ceilings_after", cli::json_of(session.ceilings.after, session.device.name, session.threads)},
               {"moved", session.ceilings.moved()},
               {"complete", session.complete},
               {"results", Json::array()}};
  for (const harness::BenchResult& result : session.results) {
    json["results"].push_back(json_of(result, session.ceilings));
  }
  options.json.write(json);
  if (!options.csv.empty()) {
    harness::write_file(options.csv, csv_of(session));
  }
}

// One shape in every scheme.
std::vector<harness::Case> cases_of(const Options& options, const harness::Case& shape,
                                    const std::vector<std::string>& schemes) {
  std::vector<harness::Case> cases;
  for (const std::string& scheme : schemes) {
    cases.push_back(shape);
    cases.back().scheme = scheme;
    cases.back().layout = options.layout;
    cases.back().d_dtype = value_of(harness::kOutputTypes, options.out_type);
    cases.back().packing = value_of(harness::kPackings, options.packing);
    cases.back().accuracy = value_of(harness::kAccuracies, options.accuracy);
    if (options.device != "cpu") {  // as its quantisers write them, weights as they are
      cases.back().packing = SCALEGEMM_RAW;
      if (!options.dense) {
        cases.back().strides = harness::Strides::kAligned;
        cases.back().scale_order = harness::ScaleOrder::kLines;
      }
    }
  }
  return cases;
}

// N means nothing to a quantiser of A.
void keep_one_of_each_a(std::vector<harness::Case>* cases) {
  std::set<std::tuple<int64_t, int64_t, std::string>> seen;
  std::erase_if(*cases, [&](const harness::Case& c) { return !seen.emplace(c.m, c.k, c.scheme).second; });
}

int run(const Options& options) {
  const std::vector<harness::Case> shapes = shapes_of(options);
  const std::vector<std::string> schemes = harness::resolve_schemes(options.schemes);
  if (options.quantize != "none" && options.device == "cpu") {
    throw usage_error("--quantize", "a GPU, whose quantisers it times", "--device cpu",
                      "add --device cuda:0");
  }
  harness::require_writable(options.json.path);
  harness::require_writable(options.csv);
  const Runtime runtime = options.runtime.make_runtime();
  if (options.device != "cpu") {
    GpuBench gpu;
    gpu.device = options.device;
    gpu.csv = options.csv;
    gpu.json = options.json;
    gpu.progress = options.progress;
    for (const harness::Case& shape : shapes) {
      for (harness::Case& c : cases_of(options, shape, schemes)) {
        gpu.cases.push_back(std::move(c));
      }
    }
    gpu.bench.timing = options.bench.timing;
    gpu.bench.choice = {options.runtime.threads, options.kernel, options.device};
    gpu.bench.peers = options.peer == "cublaslt";
    if (const int32_t source = value_of(harness::kVectorTypes, options.quantize);
        source != SCALEGEMM_DTYPE_NONE) {
      keep_one_of_each_a(&gpu.cases);
      return bench_quantizers_on_device(runtime, gpu, source);
    }
    return bench_on_device(runtime, gpu);
  }
  Session session;
  session.device = runtime.devices().front();
  session.threads = options.runtime.threads == 0 ? session.device.cores : options.runtime.threads;
  harness::BenchOptions bench = options.bench;
  bench.choice = {options.runtime.threads, options.kernel};
  if (session.device.l3_bytes > 0) {  // a virtual machine may hide it
    bench.last_cache_bytes = session.device.l3_bytes;
  }
  const Interrupt interrupt;
  const auto steps = static_cast<int64_t>(shapes.size());
  Progress progress(options.progress.show(), steps);
  progress.step(0, "measuring the ceilings");
  session.ceilings.before = runtime.measure_ceilings(session.device.name, session.threads);
  for (size_t i = 0; i < shapes.size() && session.complete; ++i) {
    progress.step(static_cast<int64_t>(i), shapes[i].name);
    for (harness::BenchResult& result :
         harness::bench_shape(runtime, cases_of(options, shapes[i], schemes), bench)) {
      session.results.push_back(std::move(result));
    }
    session.complete = !Interrupt::requested() || i + 1 == shapes.size();
  }
  progress.step(steps, "measuring the ceilings again");
  session.ceilings.after = runtime.measure_ceilings(session.device.name, session.threads);
  progress.clear();
  if (!options.json.replaces_text()) {
    print(session);
  }
  write_results(options, session);
  const bool verified =
      std::all_of(session.results.begin(), session.results.end(), [](const auto& r) { return r.verified; });
  return verified && session.complete ? kExitOk : kExitFailure;
}

}  // namespace

void add_bench(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.root->add_subcommand("bench", "Time shapes and schemes, each verified before it is timed");
  CLI::Option* suite =
      command->add_option("--suite", options->suite, "CSV with the columns name,m,n,k")->check(file_name());
  for (const auto& [name, target] :
       {std::pair{"--m", &options->m}, {"--n", &options->n}, {"--k", &options->k}}) {
    command->add_option(name, *target, "Size of one shape")->check(positive_integer())->excludes(suite);
  }
  command->add_option("--scheme", options->schemes, "Schemes, or all; may be repeated")
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--layout", options->layout, "Layouts of A, B, D")
      ->check(one_of(harness::kLayouts))
      ->capture_default_str();
  command->add_option("--out-type", options->out_type, "Type of D: " + list_of(harness::kOutputTypes))
      ->check(one_of(harness::kOutputTypes))
      ->capture_default_str();
  command->add_option("--packing", options->packing, "How B is given: " + list_of(harness::kPackings))
      ->check(one_of(harness::kPackings))
      ->capture_default_str();
  command->add_option("--kernel", options->kernel, "A kernel name instead of the dispatcher's choice");
  command->add_option("--device", options->device, "Device: cpu, cuda:0")->capture_default_str();
  command->add_flag("--dense", options->dense,
                    "On a GPU: rows and scale lines exactly as long as they are, not padded to 16 bytes");
  command->add_option("--accuracy", options->accuracy, "Sums: " + list_of(harness::kAccuracies))
      ->check(one_of(harness::kAccuracies))
      ->capture_default_str();
  command
      ->add_option("--peer", options->peer, "Time this library too, interleaved (on CUDA): none or cublaslt")
      ->check(CLI::IsMember({"none", "cublaslt"}))
      ->capture_default_str();
  command
      ->add_option(
          "--quantize", options->quantize,
          "Time the quantiser of A (M x K) from this type instead, beside a copy of as many bytes (on "
          "CUDA): " +
              list_of(harness::kVectorTypes))
      ->check(one_of(harness::kVectorTypes))
      ->capture_default_str();
  command->add_option("--repeat", options->bench.timing.repeat, "Timed runs at most")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--warmup", options->bench.timing.warmup, "Untimed runs at most")
      ->check(non_negative_integer())
      ->capture_default_str();
  command->add_option("--budget", options->bench.timing.budget_s, "Seconds for each shape and scheme")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--warm", options->bench.warm,
                    "Reuse one copy of the operands instead of rotating cold ones");
  command->add_option("--csv", options->csv, "Write the results as CSV to this file")->check(file_name());
  options->runtime.add_to(*command);
  options->runtime.add_tuned_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
