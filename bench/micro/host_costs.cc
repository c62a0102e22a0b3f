// What the host pays around the arithmetic: a run, a plan, a query, a kernel's name, a decision.
//
//   build/release/bin/micro --benchmark_filter=run
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "harness/case.h"
#include "harness/instance.h"
#include "scalegemm/scalegemm.hpp"
#include "spec/kernel_spec.h"

namespace scalegemm {
namespace {

constexpr const char* kSchemes[] = {"none:a=f32", "rowcol", "mxfp4", "bquant:a=int8,g=32"};

// One runtime for all: its rates are measured and its kernels loaded before anything is timed.
const Runtime& runtime() {
  static const Runtime kRuntime;
  return kRuntime;
}

std::string scheme_of(benchmark::State& state) {
  const std::string scheme = kSchemes[state.range(0)];
  state.SetLabel(scheme);
  return scheme;
}

scalegemm_problem problem_of(const std::string& scheme, int64_t m) {
  scalegemm_problem problem = make_problem(scheme, "rcr", m, 4096, 4096);
  problem.b_packing = SCALEGEMM_PACKED;
  return problem;
}

// scalegemm_run of a plan for 1 x 1 x 2 on one thread: argument checks and the way to the kernel.
void run_least(benchmark::State& state) {
  harness::Case c;
  c.scheme = scheme_of(state);
  c.m = c.n = 1;
  c.k = 2;
  c.packing = SCALEGEMM_PACKED;
  harness::Instance instance(runtime(), std::make_shared<harness::CaseData>(harness::make_case_data(c)),
                             {.threads = 1, .kernel = {}}, 0xFF);
  for (auto _ : state) {
    instance.run_again();
  }
}
BENCHMARK(run_least)->DenseRange(0, 3);

// A plan whose kernel is loaded already.
void create_plan(benchmark::State& state) {
  const scalegemm_problem problem = problem_of(scheme_of(state), 16);
  const Plan first(runtime(), problem);
  for (auto _ : state) {
    const Plan plan(runtime(), problem);
    benchmark::DoNotOptimize(plan.get());
  }
}
BENCHMARK(create_plan)->DenseRange(0, 3);

void query(benchmark::State& state) {
  const scalegemm_problem problem = problem_of(scheme_of(state), 16);
  const Plan first(runtime(), problem);
  for (auto _ : state) {
    benchmark::DoNotOptimize(runtime().query(problem).supported);
  }
}
BENCHMARK(query)->DenseRange(0, 3);

void explain(benchmark::State& state) {
  const scalegemm_problem problem = problem_of(scheme_of(state), 16);
  for (auto _ : state) {
    benchmark::DoNotOptimize(runtime().explain(problem, nullptr, 0));
  }
}
BENCHMARK(explain)->DenseRange(0, 3);

void parse_name(benchmark::State& state) {
  const std::string name = Plan(runtime(), problem_of(scheme_of(state), 16)).kernel();
  for (auto _ : state) {
    benchmark::DoNotOptimize(spec::parse(name).ok());
  }
}
BENCHMARK(parse_name)->DenseRange(0, 3);

void format_name(benchmark::State& state) {
  const Result<spec::KernelSpec> kernel =
      spec::parse(Plan(runtime(), problem_of(scheme_of(state), 16)).kernel());
  for (auto _ : state) {
    benchmark::DoNotOptimize(spec::name(*kernel));
  }
}
BENCHMARK(format_name)->DenseRange(0, 3);

}  // namespace
}  // namespace scalegemm

BENCHMARK_MAIN();
