#include "device/cuda/probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>

#include "cuda/probe_abi.h"
#include "device/cuda/events.h"
#include "num/convert.h"
#include "num/dtype.h"

namespace scalegemm::device::cuda {
namespace {

constexpr std::array<uint64_t, 10> kReadBytes = {2'000'000,   4'000'000,    8'000'000,   16'000'000,
                                                 33'500'000,  58'700'000,   117'000'000, 234'000'000,
                                                 470'000'000, 2'000'000'000};
constexpr uint64_t kFlushBytes = 256'000'000;  // beyond any L2
constexpr int kWarmup = 3, kRepeat = 21;
constexpr double kMatrixOperations = 0x1p43;  // of a launch: some milliseconds, as power settles in

struct Matrix {
  const char* name;
  num::DType type;
  int n;
};
#define SG_ROW(symbol, name, type, n, promoted) Matrix{#name, num::DType::type, n},
constexpr Matrix kMatrices[] = {SG_PROBE_MATRIX(SG_ROW, )};
#undef SG_ROW

// Memory of the device that is released with the object.
class Memory {
 public:
  static Result<Memory> make(const Device& device, uint64_t bytes) {
    SCALEGEMM_ASSIGN_OR_RETURN(const Address address, device.allocate(bytes));
    return Memory(device, address);
  }
  ~Memory() {
    if (address_ != 0) {
      (void)device_->release(address_);
    }
  }
  Memory(Memory&& other) noexcept : device_(other.device_), address_(std::exchange(other.address_, 0)) {}
  Memory& operator=(Memory&&) = delete;
  Address address() const { return address_; }
  void* data() const { return reinterpret_cast<void*>(address_); }

 private:
  Memory(const Device& device, Address address) : device_(&device), address_(address) {}
  const Device* device_;
  Address address_;
};

// Median time of `call`, each behind `before`, which is not timed. Both enqueue.
Result<double> time_us(const Device& device, const std::function<Status()>& before,
                       const std::function<Status()>& call) {
  EventPairs events(device.driver(), kRepeat);
  for (int i = -kWarmup; i < kRepeat; ++i) {
    SCALEGEMM_RETURN_IF_ERROR(before());
    if (i >= 0) {
      events.start(static_cast<size_t>(i));
    }
    SCALEGEMM_RETURN_IF_ERROR(call());
    if (i >= 0) {
      events.stop(static_cast<size_t>(i));
    }
  }
  SCALEGEMM_RETURN_IF_ERROR(device.synchronize());
  std::array<double, kRepeat> times{};
  for (size_t i = 0; i < times.size(); ++i) {
    times[i] = events.microseconds(i);
  }
  std::nth_element(times.begin(), times.begin() + kRepeat / 2, times.end());
  return times[kRepeat / 2];
}

unsigned multiprocessors(const Device& device) {
  return static_cast<unsigned>(device.properties().multiprocessors);
}

Status launch(const Device& device, Function function, unsigned grid, unsigned threads, void** parameters,
              unsigned shared_bytes = 0) {
  LaunchConfig config;
  config.grid_x = grid;
  config.block_x = threads;
  config.shared_bytes = shared_bytes;
  return check(device.driver().launch(&config, function, parameters, nullptr), "launching a probe");
}

Status measure_memory(const LoadedModule& module, const std::string& symbol,
                      std::vector<spec::Ceiling>& ceilings) {
  const Device& device = module.device();
  SCALEGEMM_ASSIGN_OR_RETURN(const Function empty, module.function(symbol + "_empty"));
  SCALEGEMM_ASSIGN_OR_RETURN(const Function read, module.function(symbol + "_read"));
  const uint64_t most = kReadBytes.back();
  SCALEGEMM_ASSIGN_OR_RETURN(const Memory memory, Memory::make(device, most + kFlushBytes));
  SCALEGEMM_ASSIGN_OR_RETURN(const Memory sink, Memory::make(device, sizeof(uint32_t)));
  SCALEGEMM_RETURN_IF_ERROR(device.fill(memory.data(), 1, most + kFlushBytes));
  const unsigned cores = multiprocessors(device);
  const auto read_from = [&](Address address, uint64_t bytes, unsigned grid) {
    auto units = static_cast<uint32_t>(bytes / 16);
    Address to = sink.address();
    void* parameters[] = {&address, &units, &to};
    return launch(device, read, grid, SG_PROBE_READ_THREADS, parameters);
  };
  const auto flush = [&] { return read_from(memory.address() + most, kFlushBytes, 2 * cores); };

  SCALEGEMM_ASSIGN_OR_RETURN(const double launch_us, time_us(device, flush, [&] {
                               return launch(device, empty, cores, SG_PROBE_READ_THREADS, nullptr);
                             }));
  ceilings.push_back({.name = "launch", .unit = "us", .value = launch_us});
  for (const uint64_t bytes : kReadBytes) {
    double best = 0;
    for (const unsigned grid : {cores, 2 * cores, 4 * cores}) {
      SCALEGEMM_ASSIGN_OR_RETURN(
          const double us, time_us(device, flush, [&] { return read_from(memory.address(), bytes, grid); }));
      best = best == 0 ? us : std::min(best, us);
    }
    ceilings.push_back(
        {.name = "read", .unit = "GB/s", .value = static_cast<double>(bytes) / (best * 1e3), .bytes = bytes});
  }
  return ok_status();
}

// Codes of standard normal values, scaled as a quantiser scales a long row: its largest value, about four
// standard deviations, becomes the largest code.
std::vector<uint8_t> normal_codes(num::DType type) {
  const double spread = num::info(type).bits == 8 ? num::info(type).max_finite / 4 : 1;
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, spread);
  std::vector<uint8_t> codes;
  while (codes.size() < SG_PROBE_OPERANDS) {
    const uint32_t code = num::encode(type, normal(random), num::Overflow::kSaturate);
    for (int bit = 0; bit < num::info(type).bits; bit += 8) {
      codes.push_back(static_cast<uint8_t>(code >> bit));
    }
  }
  return codes;
}

Status measure_matrix(const LoadedModule& module, const std::string& symbol, const Matrix& matrix,
                      std::vector<spec::Ceiling>& ceilings) {
  constexpr int kDynamicSharedBytes = 8;  // CUfunction_attribute
  constexpr int kRows = SG_PROBE_THREADS / 128 * 64;
  const Device& device = module.device();
  const unsigned cores = multiprocessors(device);
  SCALEGEMM_ASSIGN_OR_RETURN(const Function function, module.function(symbol + "_" + matrix.name));
  SCALEGEMM_RETURN_IF_ERROR(
      check(device.driver().function_set(function, kDynamicSharedBytes, SG_PROBE_OPERANDS),
            "giving a probe its shared memory"));
  SCALEGEMM_ASSIGN_OR_RETURN(const Memory operands, Memory::make(device, SG_PROBE_OPERANDS));
  SCALEGEMM_ASSIGN_OR_RETURN(const Memory sink,
                             Memory::make(device, sizeof(float) * SG_PROBE_THREADS * cores));
  const double k = SG_PROBE_STEPS * 128 * 8.0 / num::info(matrix.type).bits;
  const double round = 2 * k * kRows * matrix.n * cores;
  auto rounds = static_cast<uint32_t>(kMatrixOperations / round);
  const std::pair<const char*, std::vector<uint8_t>> kinds[] = {
      {"zeros", std::vector<uint8_t>(SG_PROBE_OPERANDS)}, {"normal", normal_codes(matrix.type)}};
  for (const auto& [data, codes] : kinds) {
    SCALEGEMM_RETURN_IF_ERROR(device.copy(operands.data(), codes.data(), codes.size()));
    Address from = operands.address();
    Address to = sink.address();
    void* parameters[] = {&from, &rounds, &to};
    SCALEGEMM_ASSIGN_OR_RETURN(const double us, time_us(
                                                    device, [] { return ok_status(); },
                                                    [&] {
                                                      return launch(device, function, cores, SG_PROBE_THREADS,
                                                                    parameters, SG_PROBE_OPERANDS);
                                                    }));
    ceilings.push_back({.name = fmt::format("{}_{}", matrix.name, data),
                        .unit = matrix.type == num::DType::kInt8 ? "GOP/s" : "GFLOP/s",
                        .value = round * rounds / (us * 1e3)});
  }
  return ok_status();
}

}  // namespace

Result<std::vector<spec::Ceiling>> measure_ceilings(const LoadedModule& module, const std::string& symbol) {
  const Current current(module.device());
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  std::vector<spec::Ceiling> ceilings;
  SCALEGEMM_RETURN_IF_ERROR(measure_memory(module, symbol, ceilings));
  if (module.device().target() == spec::Target::kSm90a) {
    for (const Matrix& matrix : kMatrices) {
      SCALEGEMM_RETURN_IF_ERROR(measure_matrix(module, symbol, matrix, ceilings));
    }
  }
  return ceilings;
}

}  // namespace scalegemm::device::cuda
