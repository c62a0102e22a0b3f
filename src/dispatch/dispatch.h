// Dispatch: which kernels take a problem, in which order, and why the others do not.
//
// Every legal kernel of the device's targets is either a candidate with a predicted time or a decline with
// the rule it breaks. The tuned table moves its choice to the front. Nothing here builds, loads or runs
// anything, and nothing is chosen silently: what was ignored is in `notes`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "dispatch/cost.h"
#include "dispatch/tuned.h"
#include "spec/decline.h"
#include "spec/device_desc.h"
#include "spec/kernel_spec.h"
#include "spec/problem.h"

namespace scalegemm::dispatch {

struct Candidate {
  spec::KernelSpec spec;
  std::string name;
  std::optional<Cost> cost;        // empty where there is no device to predict a time for
  std::optional<double> tuned_us;  // measured: the tuned table names it for this problem
};

struct Explanation {
  spec::Problem problem;  // b_packing is never kChosen: it is the layout that was chosen
  std::string signature;
  std::string device;                   // its name, or the target's where there is no device
  std::vector<Candidate> candidates;    // best first; empty: nothing takes the problem
  std::vector<spec::Decline> declines;  // in the order of the tables
  std::vector<std::string> notes;       // what a person should know: ignored tuned rows, missing back ends
};

struct Options {
  const TunedTable* tuned = nullptr;             // the user's; not owned
  const TunedTable* shipped = nullptr;           // the library's own, behind the user's; not owned
  Strictness strictness = Strictness::kLenient;  // strict: a tuned kernel that cannot be used is an error
  // Kernels that can be had, where only some can: the others are declined. Empty: all.
  std::function<bool(const spec::KernelSpec&)> available = {};
};

// Candidates on a CPU. Fails on an invalid problem, a description without targets, and in strict mode.
// A batch-invariant problem is ranked as if M were kRankRows, so the choice is the same for every M.
Result<Explanation> explain(const spec::Problem& problem, const spec::CpuDesc& cpu,
                            const Options& options = {});

// Candidates on a CUDA device; kernels there take raw B, so kChosen is kRaw.
Result<Explanation> explain(const spec::Problem& problem, const spec::GpuDesc& gpu,
                            const Options& options = {});

// The best candidate; kUnsupported with every decline in the message when there is none.
Result<Candidate> choose(const spec::Problem& problem, const spec::CpuDesc& cpu, const Options& options = {});

// The layout that weights should be packed in on this CPU: that of the kernel that is best at kRankRows rows,
// whatever the problem's M and b_packing are. Of the options, `available` counts.
Result<spec::Packing> choose_packing(const spec::Problem& problem, const spec::CpuDesc& cpu,
                                     const Options& options = {});
inline constexpr int64_t kRankRows = 128;

// The chosen kernel, then (where `allowed`) those that take what it may be unable to address at a run: a TMA
// kernel is followed by the best one with strided scales, where there is one, and by the best of the mma
// family.
std::vector<spec::KernelSpec> with_fallbacks(const spec::KernelSpec& chosen, const Explanation& explanation,
                                             bool allowed);

enum class Backend : uint8_t { kBuilt, kNotBuilt };

// Candidates of a target without a device: legal specs from the tables of src/arch, ordered by padded work
// and operand traffic (no times), and every decline. `backend` says whether the library can run them.
Result<Explanation> explain_target(const spec::Problem& problem, spec::Target target, Backend backend);

// Many lines for people: chosen, the first runners-up with predicted times, every decline, notes.
std::string to_text(const Explanation& explanation);

}  // namespace scalegemm::dispatch
