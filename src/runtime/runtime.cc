#include "runtime/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>

#include "arch/cpu_family.h"
#include "arch/cuda_family.h"
#include "arch/legal.h"
#include "base/cpu_info.h"
#include "base/files.h"
#include "device/cpu/launch.h"
#include "device/cpu/probe.h"
#include "device/cuda/device.h"
#include "device/cuda/probe.h"
#include "dispatch/dispatch.h"
#include "gen/cuda_units.h"
#include "runtime/explain_json.h"
#include "runtime/kernel_loader.h"
#include "runtime/rates_file.h"
#include "spec/target.h"
#include "store/builtin.h"
#include "toolchain/host_compiler.h"
#include "toolchain/nvrtc.h"

namespace scalegemm::runtime {
namespace {

using spec::Target;

constexpr uint64_t kMaxTunedTable = uint64_t{64} << 20;
constexpr const char* kCpu = "cpu";

// A cap on the CPU target, and who gave it.
struct TargetCap {
  std::string name;  // empty: none
  std::string origin;
};

TargetCap target_cap(const RuntimeOptions& options) {
  const char* env = std::getenv("SCALEGEMM_CPU_TARGET");
  return !options.cpu_target.empty() || env == nullptr ? TargetCap{options.cpu_target, "cpu_target"}
                                                       : TargetCap{env, "SCALEGEMM_CPU_TARGET"};
}

// The targets of this processor up to the cap, best last.
Result<std::vector<Target>> allowed_targets(const base::CpuInfo& cpu, const TargetCap& cap) {
  std::optional<Target> last;
  if (!cap.name.empty()) {
    const Result<Target> target = spec::parse_cpu_target(cap.name);
    if (!target.ok()) {
      return target.status().with_context(cap.origin);
    }
    last = *target;
    if (!arch::runs_on(*last, cpu)) {
      return unsupported("{}: {} needs instructions that this processor ({}) lacks", cap.origin, cap.name,
                         cpu.model);
    }
  }
  std::vector<Target> targets;
  for (const spec::TargetName& row : spec::kTargets) {
    if (row.is_cpu && arch::runs_on(row.target, cpu) && (!last || row.target <= *last)) {
      targets.push_back(row.target);
    }
  }
  if (targets.empty()) {
    return make_error(Code::kNoDevice,
                      "cpu: {} has no AVX2, FMA and F16C, which every CPU kernel needs (x86-64-v3)",
                      cpu.model);
  }
  return targets;
}

std::string feature_text(const base::CpuInfo& cpu) {
  std::string text;
  for (int i = 0; i < static_cast<int>(base::CpuFeature::kCount); ++i) {
    const auto feature = static_cast<base::CpuFeature>(i);
    if (cpu.has(feature)) {
      text += text.empty() ? "" : " ";
      text += base::name(feature);
    }
  }
  return text;
}

DeviceInfo cpu_device(const base::CpuInfo& cpu, Target best) {
  DeviceInfo device;
  device.name = kCpu;
  device.model = cpu.model;
  device.target = spec::target_name(best);
  device.features = feature_text(cpu);
  device.cores = cpu.logical_cores;
  device.l1_bytes = static_cast<uint64_t>(cpu.l1d_bytes);
  device.l2_bytes = static_cast<uint64_t>(cpu.l2_bytes);
  device.l3_bytes = static_cast<uint64_t>(cpu.l3_bytes);
  device.memory_bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return device;
}

DeviceInfo cuda_device(const device::cuda::Device& gpu) {
  const device::cuda::Properties& p = gpu.properties();
  const auto target = gpu.target();
  DeviceInfo device;
  device.name = fmt::format("cuda:{}", gpu.ordinal());
  device.model = p.model;
  device.target = target ? std::string(spec::target_name(*target)) : "";
  device.features =
      fmt::format("compute capability {}.{}, at most {} MHz, driver for CUDA {}.{}", p.major, p.minor,
                  p.clock_khz / 1000, p.driver_version / 1000, p.driver_version % 1000 / 10);
  device.cores = p.multiprocessors;
  device.l2_bytes = p.l2_bytes;
  device.memory_bytes = p.memory_bytes;
  return device;
}

spec::GpuDesc describe_gpu(const device::cuda::Device& gpu, Target target) {
  const device::cuda::Properties& p = gpu.properties();
  spec::GpuDesc desc;
  desc.name = p.model;
  desc.target = target;
  desc.multiprocessors = p.multiprocessors;
  desc.shared_bytes = p.shared_bytes;
  desc.l2_bytes = static_cast<int64_t>(p.l2_bytes);
  return desc;
}

}  // namespace

struct Runtime::Impl {
  RuntimeOptions options;
  std::vector<DeviceInfo> devices;
  std::vector<Target> targets;
  std::shared_ptr<base::ThreadPool> pool;
  std::unique_ptr<KernelLoader> loader;
  std::optional<dispatch::TunedTable> tuned;
  spec::CpuDesc cpu;  // without rates until described
  std::once_flag described;

  std::vector<std::shared_ptr<device::cuda::Device>> gpus;
  Status no_gpu;  // why there is none

  const spec::CpuDesc& describe();
  // The GPU of that name ("cuda" is the first).
  Result<std::shared_ptr<device::cuda::Device>> gpu(const std::string& name) const;
  Result<Target> gpu_target(const device::cuda::Device& device) const;
  Result<std::unique_ptr<const Executable>> executable(const dispatch::Explanation& explanation,
                                                       const spec::KernelSpec& kernel,
                                                       const PlanOptions& options);
  dispatch::Options dispatch_options() const {
    return {.tuned = tuned ? &*tuned : nullptr,
            .shipped = &dispatch::TunedTable::shipped(),
            .strictness = options.strict ? dispatch::Strictness::kStrict : dispatch::Strictness::kLenient,
            .available = available()};
  }
  // What a bundle holds; empty, so everything, in the ordinary library.
  std::function<bool(const spec::KernelSpec&)> available() const {
    if (store::bundle_name() == nullptr) {
      return {};
    }
    return [this](const spec::KernelSpec& kernel) {
      const auto source = gen::generate(kernel);
      return source.ok() && loader->is_built_in(*source);
    };
  }
  int threads(const PlanOptions& plan) const {
    return plan.threads == 0 ? pool->threads() : std::min(plan.threads, pool->threads());
  }
  Result<spec::Problem> resolve(const spec::Problem& problem, const PlanOptions& options);
  Result<dispatch::Explanation> candidates(const spec::Problem& problem, const PlanOptions& options);
  dispatch::Explanation with_warnings(dispatch::Explanation explanation) const;
  // Where nothing can be compiled for the target, only what is built in can run: the rest leaves the list,
  // with a note. A list of which nothing is built in stays: loading its first kernel says what is missing.
  dispatch::Explanation only_available(dispatch::Explanation explanation, Target target);
  Result<spec::KernelSpec> choose(const dispatch::Explanation& explanation, const PlanOptions& options) const;
};

Result<std::shared_ptr<device::cuda::Device>> Runtime::Impl::gpu(const std::string& name) const {
  if (name.starts_with("hip")) {
    return make_error(Code::kNotBuilt, "device: {}: this library is built for CPUs and CUDA", name);
  }
  if (!name.starts_with("cuda")) {
    return make_error(Code::kNoDevice, "device: needed \"cpu\" or \"cuda:0\", got \"{}\"", name);
  }
  SCALEGEMM_RETURN_IF_ERROR(no_gpu.with_context("device " + name));
  for (const auto& device : gpus) {
    if (name == "cuda" || name == fmt::format("cuda:{}", device->ordinal())) {
      return device;
    }
  }
  return make_error(Code::kNoDevice, "device: needed cuda:0 to cuda:{}, got \"{}\"", gpus.size() - 1, name);
}

Result<Target> Runtime::Impl::gpu_target(const device::cuda::Device& device) const {
  if (const auto target = device.target()) {
    return *target;
  }
  const device::cuda::Properties& p = device.properties();
  return make_error(
      Code::kNotBuilt,
      "device cuda:{}: {} has compute capability {}.{}, and this library has kernels for 8.0 to 9.0",
      device.ordinal(), p.model, p.major, p.minor);
}

// On a GPU the chosen kernel, and behind it those that take strides and pointers that TMA cannot address.
Result<std::unique_ptr<const Executable>> Runtime::Impl::executable(const dispatch::Explanation& e,
                                                                    const spec::KernelSpec& kernel,
                                                                    const PlanOptions& o) {
  if (spec::is_cpu(kernel.target)) {
    SCALEGEMM_ASSIGN_OR_RETURN(CpuCode code, loader->load(kernel));
    return std::unique_ptr<const Executable>(
        std::make_unique<CpuExecutable>(std::move(code), runtime::describe(e.problem), pool, threads(o)));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const auto device, gpu(o.device));
  const spec::Problem& p = e.problem;
  std::vector<CudaRoute> routes;
  bool copies = false;
  for (const spec::KernelSpec& wanted : dispatch::with_fallbacks(kernel, e, o.kernel.empty())) {
    auto code = loader->load(wanted, device);
    if (!code.ok() && routes.empty()) {
      return code.status();
    }
    if (!code.ok()) {
      continue;  // one to fall back to may be missing: a run that needs it says what is unaddressable
    }
    const arch::Relayout relayout = arch::relayout_for(wanted, p);
    CudaRoute route{*std::move(code), {}};
    const SgGemm shape = runtime::describe(p);
    const auto reserve = [&](bool copied, device::cuda::Part part) {
      route.copy_bytes[static_cast<size_t>(part)] =
          copied ? device::cuda::Relayouter::bytes(shape, route.kernel->info(), part) : 0;
    };
    reserve(relayout.a, device::cuda::Part::kA);
    reserve(relayout.b, device::cuda::Part::kB);
    reserve(relayout.scale_a, device::cuda::Part::kScaleA);
    reserve(relayout.scale_b, device::cuda::Part::kScaleB);
    routes.push_back(std::move(route));
    copies |= relayout.any();
  }
  std::shared_ptr<const device::cuda::Relayouter> relayouter;
  if (copies) {
    SCALEGEMM_ASSIGN_OR_RETURN(const Target target, gpu_target(*device));
    SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource unit, gen::relayout_unit(target));
    SCALEGEMM_ASSIGN_OR_RETURN(auto module, loader->load_module(unit, device));
    SCALEGEMM_ASSIGN_OR_RETURN(relayouter, device::cuda::Relayouter::load(std::move(module), unit.symbol));
  }
  return std::unique_ptr<const Executable>(
      std::make_unique<CudaExecutable>(std::move(routes), std::move(relayouter)));
}

// Rates are measured at the first choice, once for a machine: the disk keeps them, so that every process
// chooses the same kernels.
const spec::CpuDesc& Runtime::Impl::describe() {
  std::call_once(described, [this] {
    const std::string path = rates_path(loader->store().folder(), cpu.name);
    std::vector<spec::TargetRates> known = read_rates(path);
    std::vector<spec::TargetRates> rates;
    for (const Target target : targets) {
      const auto it =
          std::find_if(known.begin(), known.end(), [&](const auto& r) { return r.target == target; });
      if (it != known.end()) {
        rates.push_back(*it);
      } else if (const auto probe = device::probe(target); probe.ok()) {
        rates.push_back({.target = target, .rates = probe->loaded});
        known.push_back(rates.back());
      } else {
        rates.push_back({.target = target, .rates = {}});
      }
    }
    cpu.targets = std::move(rates);
    // A cache that cannot be written only means measuring again.
    (void)write_rates(path, known);
  });
  return cpu;
}

// The layout that B comes in, where the problem leaves it open.
Result<spec::Problem> Runtime::Impl::resolve(const spec::Problem& problem, const PlanOptions& o) {
  spec::Problem out = problem;
  if (problem.b_packing == spec::Packing::kChosen) {
    if (!o.kernel.empty()) {
      SCALEGEMM_ASSIGN_OR_RETURN(const spec::KernelSpec kernel, spec::parse(o.kernel));
      out.b_packing = kernel.packed;
    } else {
      SCALEGEMM_ASSIGN_OR_RETURN(out.b_packing,
                                 dispatch::choose_packing(problem, describe(), {.available = available()}));
    }
  }
  return out;
}

Result<dispatch::Explanation> Runtime::Impl::candidates(const spec::Problem& problem, const PlanOptions& o) {
  if (o.device != kCpu) {
    SCALEGEMM_ASSIGN_OR_RETURN(const auto device, gpu(o.device));
    SCALEGEMM_ASSIGN_OR_RETURN(const Target target, gpu_target(*device));
    SCALEGEMM_ASSIGN_OR_RETURN(dispatch::Explanation out,
                               dispatch::explain(problem, describe_gpu(*device, target), dispatch_options()));
    return with_warnings(only_available(std::move(out), target));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const spec::Problem resolved, resolve(problem, o));
  spec::CpuDesc desc = describe();
  desc.cores = threads(o);
  SCALEGEMM_ASSIGN_OR_RETURN(dispatch::Explanation out,
                             dispatch::explain(resolved, desc, dispatch_options()));
  return with_warnings(std::move(out));
}

dispatch::Explanation Runtime::Impl::only_available(dispatch::Explanation e, Target target) {
  const Status compiles = loader->can_compile(target);
  if (compiles.ok() || e.candidates.empty()) {
    return e;
  }
  const auto is_built_in = [this](const dispatch::Candidate& candidate) {
    const auto source = gen::generate(candidate.spec);
    return source.ok() && loader->is_built_in(*source);
  };
  std::vector<dispatch::Candidate> built_in;
  std::copy_if(e.candidates.begin(), e.candidates.end(), std::back_inserter(built_in), is_built_in);
  if (!built_in.empty() && built_in.size() < e.candidates.size()) {
    e.notes.push_back(
        fmt::format("{} of {} kernels that take this problem are built in, others cannot be compiled: {}",
                    built_in.size(), e.candidates.size(), compiles.message()));
    if (built_in.front().spec != e.candidates.front().spec) {
      e.notes.push_back(fmt::format("{} would be better, but is not built in", e.candidates.front().name));
    }
    e.candidates = std::move(built_in);
  }
  return e;
}

dispatch::Explanation Runtime::Impl::with_warnings(dispatch::Explanation e) const {
  if (tuned) {
    e.notes.insert(e.notes.end(), tuned->warnings().begin(), tuned->warnings().end());
  }
  return e;
}

Result<spec::KernelSpec> Runtime::Impl::choose(const dispatch::Explanation& e, const PlanOptions& o) const {
  if (o.kernel.empty()) {
    if (!e.candidates.empty()) {
      return e.candidates.front().spec;
    }
    std::string reasons;
    for (const spec::Decline& decline : e.declines) {
      reasons += "\n  " + spec::to_string(decline);
    }
    return unsupported("no kernel of {} takes {}:{}", e.device, e.signature, reasons);
  }
  // Any legal kernel may be asked for, also one that dispatch does not list, such as another K block.
  SCALEGEMM_ASSIGN_OR_RETURN(const spec::KernelSpec wanted, spec::parse(o.kernel));
  bool runs = std::find(targets.begin(), targets.end(), wanted.target) != targets.end();
  if (o.device != kCpu) {
    SCALEGEMM_ASSIGN_OR_RETURN(const auto device, gpu(o.device));
    runs = wanted.target == device->target();
  }
  if (!runs) {
    return unsupported("kernel: {} is for {}, which {} does not run", o.kernel,
                       spec::target_name(wanted.target), e.device);
  }
  SCALEGEMM_RETURN_IF_ERROR(arch::legal(wanted));
  const auto decline = spec::is_cpu(wanted.target) ? arch::cpu_declines(wanted, e.problem)
                                                   : arch::gpu_declines(wanted, e.problem);
  if (decline) {
    return unsupported("kernel: {}: {}", o.kernel, spec::to_string(*decline));
  }
  return wanted;
}

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Runtime::~Runtime() = default;

Result<std::unique_ptr<Runtime>> Runtime::create(const RuntimeOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  const base::CpuInfo cpu = base::detect_cpu();
  SCALEGEMM_ASSIGN_OR_RETURN(impl->targets, allowed_targets(cpu, target_cap(options)));
  impl->devices = {cpu_device(cpu, impl->targets.back())};
  if (auto gpus = device::cuda::Device::all(); gpus.ok()) {
    impl->gpus = *std::move(gpus);
    for (const auto& gpu : impl->gpus) {
      impl->devices.push_back(cuda_device(*gpu));
    }
  } else {
    impl->no_gpu = gpus.status();
  }
  impl->pool = std::make_shared<base::ThreadPool>(options.threads == 0 ? cpu.logical_cores : options.threads);
  impl->loader =
      std::make_unique<KernelLoader>(options.cache_dir, options.jit ? Jit::kAllowed : Jit::kForbidden);
  impl->cpu.name = cpu.model;
  impl->cpu.cores = impl->pool->threads();
  impl->cpu.l1_bytes = cpu.l1d_bytes;
  impl->cpu.l2_bytes = cpu.l2_bytes;
  impl->cpu.l3_bytes = cpu.l3_bytes;
  if (!options.tuned_table.empty()) {
    SCALEGEMM_ASSIGN_OR_RETURN(const std::string csv, base::read_file(options.tuned_table, kMaxTunedTable));
    auto table = dispatch::TunedTable::parse(
        csv, options.strict ? dispatch::Strictness::kStrict : dispatch::Strictness::kLenient);
    if (!table.ok()) {
      return table.status().with_context(options.tuned_table);
    }
    impl->tuned = *std::move(table);
  }
  return std::unique_ptr<Runtime>(new Runtime(std::move(impl)));
}

const std::vector<DeviceInfo>& Runtime::devices() const {
  return impl_->devices;
}

Result<Support> Runtime::query(const spec::Problem& problem, const PlanOptions& options) {
  SCALEGEMM_ASSIGN_OR_RETURN(const dispatch::Explanation e, impl_->candidates(problem, options));
  Support support;
  const auto chosen = impl_->choose(e, options);
  if (!chosen.ok()) {
    if (chosen.status().code() != Code::kUnsupported) {
      return chosen.status();
    }
    support.reason = chosen.status().message();
    return support;
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource source, gen::generate(*chosen));
  support.supported = true;
  support.kernel = source.name;
  support.needs_compiler = !impl_->loader->is_built_in(source);
  support.reason = options.kernel.empty() ? "the best of the legal kernels" : "asked for by name";
  if (!support.needs_compiler && spec::is_cpu(chosen->target)) {
    SCALEGEMM_ASSIGN_OR_RETURN(const auto executable, impl_->executable(e, *chosen, options));
    support.workspace_bytes = executable->workspace_bytes();
  }
  return support;
}

Result<std::unique_ptr<Plan>> Runtime::plan(const spec::Problem& problem, const PlanOptions& options) {
  SCALEGEMM_ASSIGN_OR_RETURN(const dispatch::Explanation e, impl_->candidates(problem, options));
  SCALEGEMM_ASSIGN_OR_RETURN(const spec::KernelSpec kernel, impl_->choose(e, options));
  SCALEGEMM_ASSIGN_OR_RETURN(auto executable, impl_->executable(e, kernel, options));
  return std::make_unique<Plan>(e.problem, kernel, std::move(executable));
}

Result<std::string> Runtime::explain(const spec::Problem& problem, const PlanOptions& options,
                                     TextFormat format) {
  std::optional<dispatch::Explanation> e;
  const auto target = spec::parse_target(options.device);
  if (options.device != kCpu && target.ok()) {
    const auto backend = spec::is_cpu(*target) || spec::is_cuda(*target) ? dispatch::Backend::kBuilt
                                                                         : dispatch::Backend::kNotBuilt;
    SCALEGEMM_ASSIGN_OR_RETURN(e, dispatch::explain_target(problem, *target, backend));
  } else {
    SCALEGEMM_ASSIGN_OR_RETURN(e, impl_->candidates(problem, options));
  }
  return format == TextFormat::kJson ? to_json(*e) : dispatch::to_text(*e);
}

Result<std::unique_ptr<PackedMatrix>> Runtime::pack(const spec::Problem& problem, const PlanOptions& options,
                                                    const WeightTensors& weights) {
  if (options.device != kCpu) {
    SCALEGEMM_RETURN_IF_ERROR(impl_->gpu(options.device).status());
    return unsupported("pack: the kernels of {} take raw weights (b_packing SCALEGEMM_RAW)", options.device);
  }
  if (problem.b_packing == spec::Packing::kRaw) {
    return invalid_argument(
        "problem.b_packing: must be SCALEGEMM_PACKED or a packed layout, got SCALEGEMM_RAW");
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const spec::Problem resolved, impl_->resolve(problem, options));
  return PackedMatrix::pack(resolved, weights, *impl_->pool);
}

Result<std::unique_ptr<Quantizer>> Runtime::quantizer(const QuantizerDesc& desc, const PlanOptions& options) {
  SCALEGEMM_RETURN_IF_ERROR(check_quantizer(desc));
  if (!options.kernel.empty()) {
    return invalid_argument("options.kernel: must be null, as a quantizer has no choice of kernel, got {}",
                            options.kernel);
  }
  if (options.device == kCpu) {
    return std::make_unique<Quantizer>(desc, nullptr);
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const auto device, impl_->gpu(options.device));
  const gen::QuantizerConfig config = {.source = desc.source,
                                       .codes = desc.operand.type,
                                       .scale = desc.operand.scale->type,
                                       .group = desc.operand.scale->block_k};
  SCALEGEMM_ASSIGN_OR_RETURN(const Target target, impl_->gpu_target(*device));
  const auto unit = gen::quantizer_unit(config, target);
  if (!unit.ok()) {
    return unit.status().with_context("desc.operand");
  }
  SCALEGEMM_ASSIGN_OR_RETURN(auto module, impl_->loader->load_module(*unit, device));
  SCALEGEMM_ASSIGN_OR_RETURN(
      auto code, device::cuda::Quantizer::load(std::move(module), gen::quantizer_entries(config, *unit)));
  return std::make_unique<Quantizer>(desc, std::move(code));
}

Result<std::vector<KernelInfo>> Runtime::kernels(std::string_view filter) {
  std::vector<KernelInfo> list;
  for (const Target target : impl_->targets) {
    for (const spec::KernelSpec& kernel : arch::cpu_specs(target)) {
      SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource source, gen::generate(kernel));
      if (source.name.find(filter) == std::string::npos) {
        continue;
      }
      KernelInfo info{.name = source.name, .target = std::string(spec::target_name(target))};
      const auto* built_in = store::find_builtin(store::builtin_kernels(), source.source_id);
      info.built_in = built_in != nullptr;
      if (!info.built_in && store::bundle_name() != nullptr) {
        continue;  // nothing else ever runs here
      }
      if (const auto id = impl_->loader->id(source, kernel.target); id.ok()) {
        info.cached = impl_->loader->store().contains(*id);
        info.id = id->hex();
      }
      if (built_in != nullptr) {
        info.id = built_in->id.hex();
      }
      list.push_back(std::move(info));
    }
  }
  for (const store::BuiltinKernel& kernel : store::builtin_kernels()) {
    const auto spec = spec::parse(kernel.name);
    if (kernel.table == nullptr && spec.ok() &&
        std::string_view(kernel.name).find(filter) != std::string::npos) {
      list.push_back({.name = kernel.name,
                      .target = std::string(spec::target_name(spec->target)),
                      .id = kernel.id.hex(),
                      .built_in = true});
    }
  }
  return list;
}

Status Runtime::build_kernel(std::string_view name, BuildMode mode) {
  SCALEGEMM_ASSIGN_OR_RETURN(const spec::KernelSpec kernel, spec::parse(name));
  if (mode == BuildMode::kIfMissing) {
    SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource source, gen::generate(kernel));
    if (impl_->loader->is_built_in(source)) {
      return ok_status();
    }
  }
  return impl_->loader->build(kernel);
}

Result<std::string> Runtime::kernel_source(std::string_view name) const {
  SCALEGEMM_ASSIGN_OR_RETURN(const spec::KernelSpec kernel, spec::parse(name));
  SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource source, gen::generate(kernel));
  return source.text;
}

Result<std::vector<spec::Ceiling>> Runtime::measure_ceilings(std::string_view device_name, int threads) {
  if (threads < 0) {
    return invalid_argument("threads: must be 0 (the runtime's) or more, got {}", threads);
  }
  if (device_name != kCpu) {
    SCALEGEMM_ASSIGN_OR_RETURN(const auto gpu, impl_->gpu(std::string(device_name)));
    SCALEGEMM_ASSIGN_OR_RETURN(const Target target, impl_->gpu_target(*gpu));
    SCALEGEMM_ASSIGN_OR_RETURN(const gen::KernelSource unit, gen::probe_unit(target));
    SCALEGEMM_ASSIGN_OR_RETURN(const auto module, impl_->loader->load_module(unit, gpu));
    return device::cuda::measure_ceilings(*module, unit.symbol);
  }
  const int workers = threads == 0 ? impl_->pool->threads() : std::min(threads, impl_->pool->threads());
  SCALEGEMM_ASSIGN_OR_RETURN(const device::CpuProbe probe, device::probe_now(impl_->targets.back()));
  std::vector<spec::Ceiling> ceilings = {{"f32_fma", "GFLOP/s", probe.ceiling.f32_fma_gflops * workers},
                                         {"f32_fma_fed", "GFLOP/s", probe.loaded.f32_fma_gflops * workers},
                                         {"int8_dot", "GOP/s", probe.ceiling.i8dot_gops * workers},
                                         {"int8_dot_fed", "GOP/s", probe.loaded.i8dot_gops * workers}};
  if (probe.ceiling.bf16dp_gflops > 0) {
    ceilings.push_back({"bf16_dot", "GFLOP/s", probe.ceiling.bf16dp_gflops * workers});
  }

  // Well beyond the last cache, split over the threads.
  const int64_t bytes = std::max<int64_t>(int64_t{256} << 20, 4 * impl_->cpu.l3_bytes) / workers;
  std::vector<double> gbps(static_cast<size_t>(workers));
  impl_->pool->parallel_for(
      workers, 1,
      [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const auto rate = device::measure_read_gbps(bytes);
          gbps[static_cast<size_t>(i)] = rate.ok() ? *rate : 0;
        }
      },
      workers);
  ceilings.push_back({"read", "GB/s", std::accumulate(gbps.begin(), gbps.end(), 0.0)});

  constexpr int kLaunches = 2000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) {
    impl_->pool->parallel_for(
        workers, 1, [](int64_t, int64_t, int) {}, workers);
  }
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
  ceilings.push_back({"launch", "us", elapsed.count() / kLaunches});
  return ceilings;
}

CacheInfo Runtime::cache() const {
  const store::Store& store = impl_->loader->store();
  CacheInfo info{.path = store.folder()};
  if (const auto entries = store.list(); entries.ok()) {
    info.entries = static_cast<int64_t>(entries->size());
    for (const store::EntryInfo& entry : *entries) {
      info.bytes += entry.bytes;
    }
  }
  info.writable = store.check_writable().ok();
  return info;
}

Status Runtime::clear_cache() {
  const std::string rates = rates_path(impl_->loader->store().folder(), impl_->cpu.name);
  if (!rates.empty() && unlink(rates.c_str()) != 0 && errno != ENOENT) {
    return base::errno_status("removing", rates);
  }
  return impl_->loader->store().clear().status();
}

std::vector<std::string> Runtime::warnings() const {
  std::vector<std::string> list = impl_->loader->warnings();
  if (impl_->tuned) {
    list.insert(list.end(), impl_->tuned->warnings().begin(), impl_->tuned->warnings().end());
  }
  return list;
}

std::vector<ToolchainInfo> Runtime::toolchains() {
  std::vector<ToolchainInfo> list;
  if (store::bundle_name() != nullptr) {
    return list;
  }
  const auto add = [&](const char* name, const Result<std::unique_ptr<toolchain::Compiler>>& compiler) {
    ToolchainInfo info{.name = name};
    if (compiler.ok()) {
      info.version = (*compiler)->identity();
    } else {
      info.problem = compiler.status().message();
    }
    list.push_back(std::move(info));
  };
  add("host c++", toolchain::find_host_compiler());
  add("nvrtc", toolchain::find_nvrtc());
  return list;
}

}  // namespace scalegemm::runtime
