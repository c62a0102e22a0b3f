// What dispatch must know about a device: filled by src/device or by a test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/target.h"

namespace scalegemm::spec {

// Measured rates of one thread. A load-fed loop sets them, not a register-only one: register-only rates do
// not see the slow states of a shared machine. 0 where the target lacks the instruction.
struct CpuRates {
  double f32_fma_gflops = 0;  // f32 multiply-adds, two operations each
  double bf16dp_gflops = 0;   // bf16 dot products into f32
  double i8dot_gops = 0;      // u8 x s8 dot products into int32
  double read_gbps = 0;       // sequential reads of a buffer larger than the last cache, 10^9 bytes/s

  bool operator==(const CpuRates&) const = default;
};

// Something that a device cannot exceed, measured; as scalegemm_ceiling.
struct Ceiling {
  std::string name = {};
  std::string unit = {};
  double value = 0;
  uint64_t bytes = 0;
};

struct TargetRates {
  Target target = Target::kX86V3;
  CpuRates rates;
};

struct CpuDesc {
  std::string name;                  // the processor's brand string: keys the tuned table
  std::vector<TargetRates> targets;  // what the processor (and an ISA cap) allows, best last
  int cores = 1;                     // threads that run() will use
  int64_t l1_bytes = 32 << 10;       // data cache of a core
  int64_t l2_bytes = 1 << 20;        // of a core
  int64_t l3_bytes = 16 << 20;       // shared
};

struct GpuDesc {
  std::string name;  // the device's model: keys the tuned table
  Target target = Target::kSm90a;
  int multiprocessors = 132;
  int64_t shared_bytes = 232448;  // of a multiprocessor, for CTAs
  int64_t l2_bytes = 50 << 20;
  double clock_ghz = 1.5;   // under load
  double read_gbps = 4000;  // cold reads
};

}  // namespace scalegemm::spec
