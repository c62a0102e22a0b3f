#include "harness/gpu_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>

#include "device/cuda/events.h"
#include "harness/cublaslt.h"
#include "harness/proofs.h"

namespace scalegemm::harness {
namespace {

constexpr uint8_t kPoison = 0xFF;
constexpr size_t kMostCopies = 64;
constexpr int kFinalists = 3;
constexpr int64_t kUniqueRows = 512;  // drawn, the others repeat them: whole blocks of 128

void require(const Status& status) {
  if (!status.ok()) {
    throw Error(static_cast<scalegemm_status>(status.code()), status.message());
  }
}

// A few bytes on the device.
class Scratch {
 public:
  explicit Scratch(const Gpu& gpu) : gpu_(gpu) {
    const auto address = gpu->allocate(kBytes);
    require(address.status());
    address_ = *address;
  }
  ~Scratch() { (void)gpu_->release(address_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void fill() const {
    require(device::cuda::check(gpu_->driver().fill_async(address_, 0, kBytes, nullptr), "filling memory"));
  }

 private:
  static constexpr size_t kBytes = 16;
  const Gpu& gpu_;
  device::cuda::Address address_ = 0;
};

std::vector<std::vector<double>> rounds(const Gpu& gpu, std::span<const Candidate> calls, int warmup,
                                        int repeat) {
  const device::cuda::Current current(*gpu);
  require(current.status());
  device::cuda::EventPairs events(gpu->driver(), calls.size() * static_cast<size_t>(repeat));
  // Kernels that are launched for it (ours, cuBLASLt's) start while the kernel before them ends, across the
  // events between: then one's time holds part of the other's work. A fill between calls keeps them apart.
  const Scratch apart(gpu);
  for (int round = 0; round < warmup; ++round) {
    for (const Candidate& call : calls) {
      call();
    }
  }
  // Every round in another order: what ran before a call shows in its time (5 to 10 % of a few microseconds).
  std::vector<size_t> order(calls.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(1);
  for (int round = 0; round < repeat; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      const size_t pair = static_cast<size_t>(round) * calls.size() + i;
      apart.fill();
      events.start(pair);
      calls[i]();
      events.stop(pair);
    }
  }
  apart.fill();
  require(gpu->synchronize());
  std::vector<std::vector<double>> times(calls.size());
  for (int round = 0; round < repeat; ++round) {
    for (size_t i = 0; i < calls.size(); ++i) {
      times[i].push_back(events.microseconds(static_cast<size_t>(round) * calls.size() + i));
    }
  }
  return times;
}

std::vector<Timing> summaries(std::vector<std::vector<double>> times) {
  std::vector<Timing> timings;
  for (auto& of_one : times) {
    timings.push_back(summarize(std::move(of_one)));
  }
  return timings;
}

// The same operands under other kernels.
struct Operands {
  std::vector<std::unique_ptr<Instance>> copies;
  size_t next = 0;

  const scalegemm_run_args& take() {
    const scalegemm_run_args& args = copies[next]->arguments();
    next = (next + 1) % copies.size();
    return args;
  }
};

double host_time(const Plan& plan, const scalegemm_run_args& args, const Gpu& gpu) {
  std::vector<double> times;
  for (int i = 0; i < 51; ++i) {
    const auto start = std::chrono::steady_clock::now();
    plan.run(args);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    if (i % 8 == 7) {  // a full queue would block
      require(gpu->synchronize());
    }
  }
  require(gpu->synchronize());
  return summarize(std::move(times)).median_us;
}

// Runs of every operand set, captured into a graph and replayed: what a run costs in a model's graph, where
// launches are prepared and a run may begin while the one before it ends.
double graph_time(const Plan& plan, Operands& operands, const Gpu& gpu) {
  const device::cuda::Current current(*gpu);
  require(current.status());
  const device::cuda::Driver& d = gpu->driver();
  const auto ok = [](device::cuda::Error error, const char* what) {
    require(device::cuda::check(error, what));
  };
  const size_t runs = std::max<size_t>(16, operands.copies.size());
  // Freed also where a call throws; a capture that was begun is ended then.
  struct Capture {
    const device::cuda::Driver& d;
    device::cuda::Stream stream = nullptr;
    device::cuda::Graph graph = nullptr;
    device::cuda::GraphExec replay = nullptr;
    bool open = false;
    ~Capture() {
      if (open) {
        d.capture_end(stream, &graph);
      }
      if (replay != nullptr) {
        d.graph_exec_destroy(replay);
      }
      if (graph != nullptr) {
        d.graph_destroy(graph);
      }
      if (stream != nullptr) {
        d.stream_destroy(stream);
      }
    }
  } capture{d, nullptr, nullptr, nullptr, false};
  ok(d.stream_create(&capture.stream, 1), "making a stream");
  ok(d.capture_begin(capture.stream, 1), "beginning a capture");
  capture.open = true;
  for (size_t i = 0; i < runs; ++i) {
    scalegemm_run_args args = operands.take();
    args.stream = capture.stream;
    plan.run(args);
  }
  capture.open = false;
  ok(d.capture_end(capture.stream, &capture.graph), "ending a capture");
  ok(d.graph_instantiate(&capture.replay, capture.graph, 0), "making a graph");
  constexpr size_t kReplays = 7;
  device::cuda::EventPairs events(d, kReplays);
  std::vector<double> times;
  for (size_t i = 0; i < kReplays; ++i) {
    events.start(i, capture.stream);
    ok(d.graph_launch(capture.replay, capture.stream), "replaying a graph");
    events.stop(i, capture.stream);
  }
  ok(d.stream_synchronize(capture.stream), "waiting for a graph");
  for (size_t i = 1; i < kReplays; ++i) {  // the first uploads the graph
    times.push_back(events.microseconds(i) / static_cast<double>(runs));
  }
  return summarize(std::move(times)).median_us;
}

// Plans of every candidate that can be made; the others are reported.
std::vector<Plan> make_plans(const Runtime& runtime, const scalegemm_problem& problem,
                             const GpuBenchOptions& options) {
  std::vector<Plan> plans;
  std::vector<std::string> names = options.kernels;
  if (names.empty()) {
    names.push_back(options.choice.kernel);
  }
  for (const std::string& name : names) {
    PlanChoice choice = options.choice;
    choice.kernel = name;
    try {
      plans.push_back(make_plan(runtime, problem, choice));
    } catch (const Error& error) {
      if (options.kernels.empty()) {
        throw;
      }
      options.report(fmt::format("left out: {}", error.what()));
    }
  }
  return plans;
}

// A run that may fault or hang. One that fails has poisoned the context, so it ends the process.
void try_once(Trials& trials, const Plan& plan, const scalegemm_run_args& args, const Gpu& gpu) {
  trials.begin(plan.kernel());
  try {
    plan.run(args);
    require(gpu->synchronize());
  } catch (const Error& error) {
    trials.fail(error.what());
  }
  trials.end();
}

// Indices of the fastest, best first.
std::vector<size_t> fastest(const std::vector<Timing>& timings, size_t count) {
  std::vector<size_t> order(timings.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t x, size_t y) { return timings[x].median_us < timings[y].median_us; });
  order.resize(std::min(order.size(), count));
  return order;
}

// Does this kernel give the right result on this shape? The reason when it does not.
std::string wrong(const Runtime& runtime, const std::shared_ptr<CaseData>& data, const std::string& kernel,
                  const GpuBenchOptions& options) {
  PlanChoice choice = options.choice;
  if (!options.kernels.empty()) {
    choice.kernel = kernel;  // else the choice as it is, with what stands behind it
  }
  Instance instance(runtime, data, choice, kPoison);
  const ProofResult proof = check_once(instance, options.most_products);
  return proof.passed ? "" : proof.detail;
}

struct PeerRun {
  std::string name;
  Cublaslt library;
  int best = 0;
};

// Each peer with the best of its candidates.
std::vector<PeerRun> prepare_peers(const Gpu& gpu, const scalegemm_problem& problem, Operands& operands,
                                   GpuBenchResult& result) {
  std::vector<PeerRun> peers;
  for (const std::string& mode : cublaslt_modes(problem)) {
    PeerRun peer{mode, {}, 0};
    const std::string problem_text = peer.library.prepare(mode, problem, operands.take(), gpu);
    std::vector<Candidate> calls;
    std::vector<int> usable;
    for (int i = 0; problem_text.empty() && i < peer.library.candidates(); ++i) {
      if (peer.library.run(i, operands.take()) && gpu->synchronize().ok()) {
        usable.push_back(i);
        calls.emplace_back([&peer, i, &operands] { peer.library.run(i, operands.take()); });
      }
    }
    if (usable.empty()) {
      result.peers.push_back({mode, {}, problem_text.empty() ? "it fails" : problem_text});
      continue;
    }
    const auto timings = summaries(rounds(gpu, calls, 2, 10));
    peer.best = usable[fastest(timings, 1).front()];
    peers.push_back(std::move(peer));
  }
  return peers;
}

}  // namespace

std::vector<Timing> time_on_gpu(const Gpu& gpu, std::span<const Candidate> calls,
                                const TimingOptions& options) {
  const auto first = summaries(rounds(gpu, calls, 2, 3));
  double all = 0;
  for (const Timing& timing : first) {
    all += timing.median_us;
  }
  const double affordable = options.budget_s * 1e6 * static_cast<double>(calls.size()) / std::max(all, 1.0);
  const int repeat = std::clamp(static_cast<int>(affordable), std::min(20, options.repeat), options.repeat);
  const int warmup = std::min(options.warmup, repeat / 2);
  return summaries(rounds(gpu, calls, warmup, repeat));
}

GpuBenchResult bench_on_gpu(const Runtime& runtime, const Case& c, const GpuBenchOptions& options) {
  GpuBenchResult result;
  result.c = c;
  try {
    Case filled = c;
    filled.unique_rows = kUniqueRows;
    const auto data = std::make_shared<CaseData>(make_case_data(filled));
    const Gpu gpu = open_gpu(options.choice.device);
    std::vector<Plan> plans = make_plans(runtime, data->problem, options);
    if (plans.empty()) {
      result.problem = "no kernel could be made";
      return result;
    }
    Operands operands;
    // The copies serve every plan: their workspace is that of the plan that wants most.
    PlanChoice first = options.choice;
    if (!options.kernels.empty()) {
      first.kernel = std::max_element(plans.begin(), plans.end(), [](const Plan& x, const Plan& y) {
                       return x.workspace_bytes() < y.workspace_bytes();
                     })->kernel();
    }
    operands.copies.push_back(std::make_unique<Instance>(runtime, data, first, kPoison));
    const double bytes = static_cast<double>(operands.copies.front()->traffic_bytes());
    const double cold = 2 * static_cast<double>(gpu->properties().l2_bytes);
    const auto copies = static_cast<size_t>(cold / bytes) + 2;
    while (operands.copies.size() < std::min(copies, kMostCopies)) {
      operands.copies.push_back(std::make_unique<Instance>(runtime, data, first, kPoison));
    }
    const auto call_of = [&operands](const Plan& plan) {
      return Candidate([&plan, &operands] { plan.run(operands.take()); });
    };
    if (options.trials != nullptr) {
      for (const Plan& plan : plans) {
        try_once(*options.trials, plan, operands.take(), gpu);
      }
    }
    std::vector<size_t> order = {0};
    if (plans.size() > 1) {
      std::vector<Candidate> calls;
      for (const Plan& plan : plans) {
        calls.push_back(call_of(plan));
      }
      order = fastest(summaries(rounds(gpu, calls, 2, bytes > 1e9 ? 3 : 9)), plans.size());
    }
    // Finalists are verified before their times count.
    std::vector<size_t> finalists;
    for (size_t i = 0; i < order.size() && finalists.size() < kFinalists; ++i) {
      const std::string kernel = plans[order[i]].kernel();
      const std::string reason = wrong(runtime, data, kernel, options);
      if (reason.empty()) {
        finalists.push_back(order[i]);
      } else {
        options.report(fmt::format("wrong: {}: {}", kernel, reason));
        result.problem = reason;
      }
    }
    if (finalists.empty()) {
      return result;
    }
    std::vector<PeerRun> peers;
    if (options.peers) {
      peers = prepare_peers(gpu, data->problem, operands, result);
    }
    std::vector<Candidate> calls;
    for (const size_t i : finalists) {
      calls.push_back(call_of(plans[i]));
    }
    for (PeerRun& peer : peers) {
      calls.emplace_back([&peer, &operands] { peer.library.run(peer.best, operands.take()); });
    }
    const std::vector<Timing> timings = time_on_gpu(gpu, calls, options.timing);
    const std::vector<Timing> ours(timings.begin(),
                                   timings.begin() + static_cast<std::ptrdiff_t>(finalists.size()));
    const size_t best = fastest(ours, 1).front();
    const Plan& plan = plans[finalists[best]];
    result.kernel = plan.kernel();
    result.timing = ours[best];
    result.host_us = host_time(plan, operands.take(), gpu);
    result.graph_us = graph_time(plan, operands, gpu);
    result.verified = true;
    result.problem.clear();
    result.bytes = bytes;
    result.operations = 2.0 * static_cast<double>(c.batch) * static_cast<double>(c.m) *
                        static_cast<double>(c.n) * static_cast<double>(c.k);
    if (compute_ceiling(result.kernel, options.ceilings) > 0) {
      result.share_of_ceiling = harness::share_of_ceiling(
          {result.kernel, result.operations, result.bytes, result.timing.median_us}, options.ceilings);
    }
    for (size_t i = 0; i < peers.size(); ++i) {
      result.peers.push_back({peers[i].name, timings[finalists.size() + i], ""});
    }
  } catch (const Error& error) {
    result.verified = false;
    result.problem = error.what();
  }
  return result;
}

}  // namespace scalegemm::harness
