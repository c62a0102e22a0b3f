// scalegemm bench: times of every shape and scheme, verified before timed, with the ceilings of the same run.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "app.h"
#include "facts.h"
#include "harness/bench.h"

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

Json json_of(const harness::BenchResult& r) {
  Json json = {{"name", r.c.name},
               {"m", r.c.m},
               {"n", r.c.n},
               {"k", r.c.k},
               {"scheme", r.c.scheme},
               {"kernel", r.kernel},
               {"median_us", r.timing.median_us},
               {"mad_us", r.timing.mad_us},
               {"best_us", r.timing.best_us},
               {"repeats", r.timing.repeats},
               {"gops", r.rates.gops},
               {"gbps", r.rates.gbps},
               {"share_of_ceiling", r.rates.share_of_ceiling},
               {"cold", r.cold},
               {"verified", r.verified}};
  if (!r.problem.empty()) {
    json["problem"] = r.problem;
  }
  return json;
}

std::string csv_of(const std::vector<harness::BenchResult>& results, const scalegemm_device_info& device,
                   int32_t threads) {
  std::string csv = fmt::format("# device {}, target {}, threads {}, scalegemm {}\n", device.model,
                                device.target, threads, scalegemm_version());
  csv += "name,m,n,k,scheme,kernel,median_us,mad_us,best_us,gops,gbps,share_of_ceiling,cold,verified\n";
  for (const harness::BenchResult& r : results) {
    csv += fmt::format("{},{},{},{},\"{}\",{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.4f},{},{}\n", r.c.name,
                       r.c.m, r.c.n, r.c.k, r.c.scheme, r.kernel, r.timing.median_us, r.timing.mad_us,
                       r.timing.best_us, r.rates.gops, r.rates.gbps, r.rates.share_of_ceiling,
                       r.cold ? "yes" : "no", r.verified ? "yes" : "no");
  }
  return csv;
}

void print(const std::vector<harness::BenchResult>& results) {
  Table table(
      {"shape", "m", "n", "k", "scheme", "median us", "MAD us", "GOP/s", "GB/s", "of ceiling", "verified"});
  for (const harness::BenchResult& r : results) {
    const auto size = [](int64_t x) { return std::to_string(x); };
    if (r.timing.repeats == 0) {
      table.add(
          {r.c.name, size(r.c.m), size(r.c.n), size(r.c.k), r.c.scheme, "-", "-", "-", "-", "-", r.problem});
      continue;
    }
    table.add({r.c.name, size(r.c.m), size(r.c.n), size(r.c.k), r.c.scheme, short_number(r.timing.median_us),
               short_number(r.timing.mad_us), short_number(r.rates.gops), short_number(r.rates.gbps),
               fmt::format("{:.0f} %", 100 * r.rates.share_of_ceiling),
               r.verified ? "yes" : "NO: " + r.problem});
  }
  table.print();
}

struct Session {
  scalegemm_device_info device;
  int32_t threads;
  scalegemm_ceilings ceilings;
};

void write_results(const Options& options, const Session& session,
                   const std::vector<harness::BenchResult>& results, bool complete) {
  Json json = {{"version", scalegemm_version()},
               {"time", static_cast<int64_t>(std::time(nullptr))},
               {"device", cli::json_of(session.device)},
               {"ceilings", cli::json_of(session.ceilings, session.threads)},
               {"complete", complete},
               {"results", Json::array()}};
  for (const harness::BenchResult& result : results) {
    json["results"].push_back(json_of(result));
  }
  options.json.write(json);
  if (!options.csv.empty()) {
    write_file(options.csv, csv_of(results, session.device, session.threads));
  }
}

int run(const Options& options) {
  const std::vector<harness::Case> shapes = shapes_of(options);
  const std::vector<std::string> schemes = harness::resolve_schemes(options.schemes);
  require_writable(options.json.path);
  require_writable(options.csv);
  const Runtime runtime = options.runtime.make_runtime();
  Session session{runtime.devices().front(), options.runtime.threads, {}};
  session.threads = session.threads == 0 ? session.device.cores : session.threads;
  session.ceilings = runtime.measure_ceilings(session.device.name, session.threads);
  const Interrupt interrupt;
  Progress progress(options.progress.show(), static_cast<int64_t>(shapes.size()));
  std::vector<harness::BenchResult> results;
  bool complete = true;
  for (size_t i = 0; i < shapes.size() && complete; ++i) {
    progress.step(static_cast<int64_t>(i), shapes[i].name);
    std::vector<harness::Case> cases;
    for (const std::string& scheme : schemes) {
      cases.push_back(shapes[i]);
      cases.back().scheme = scheme;
      cases.back().layout = options.layout;
      cases.back().d_dtype = value_of(harness::kOutputTypes, options.out_type);
      cases.back().packing = value_of(harness::kPackings, options.packing);
    }
    harness::BenchOptions bench = options.bench;
    bench.choice = {options.runtime.threads, options.kernel};
    bench.ceilings = session.ceilings;
    if (session.device.l3_bytes > 0) {  // a virtual machine may hide it
      bench.last_cache_bytes = session.device.l3_bytes;
    }
    for (harness::BenchResult& result : harness::bench_shape(runtime, cases, bench)) {
      results.push_back(std::move(result));
    }
    complete = !Interrupt::requested() || i + 1 == shapes.size();
  }
  if (!options.json.replaces_text()) {
    print(results);
    const bool alone = session.threads == 1;
    fmt::print(
        "\nCeilings of this run ({} thread{}): f32 FMA {} GFLOP/s, int8 dot {} GOP/s, read {} GB/s.{}\n",
        session.threads, alone ? "" : "s", short_number(session.ceilings.f32_fma_gflops),
        short_number(session.ceilings.int8_dot_gops), short_number(session.ceilings.read_gbps),
        complete ? "" : " Interrupted: results are partial.");
  }
  write_results(options, session, results, complete);
  const bool verified = std::all_of(results.begin(), results.end(), [](const auto& r) { return r.verified; });
  return verified && complete ? kExitOk : kExitFailure;
}

}  // namespace

void add_bench(App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.root->add_subcommand("bench", "Time shapes and schemes, each verified before it is timed");
  CLI::Option* suite = command->add_option("--suite", options->suite, "CSV with the columns name,m,n,k");
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
  command->add_option("--csv", options->csv, "Write the results as CSV to this file");
  options->runtime.add_to(*command);
  options->progress.add_to(*command);
  options->json.add_to(*command);
  command->callback([&app, options] { app.action = [options] { return run(*options); }; });
}

}  // namespace scalegemm::cli
