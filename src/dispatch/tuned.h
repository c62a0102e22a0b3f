// The tuned table: measured choices that overrule the cost model.
//
// CSV with this first line (blank lines and lines that begin with '#' are skipped):
//
//   target,device,problem,m_bucket,n,k,kernel,us,mad_us,kernel_id
//   sm_90a,NVIDIA H200,e4m3*f32[1] x e4m3*f32[1] -> bf16 rcr,128,4096,4096,gemm_...,12.5,0.1,0f3c...
//
//   target    the best target that was allowed when it was measured (an ISA cap is another key)
//   device    its name with commas removed, or * for every device
//   problem   spec::signature
//   m_bucket  the least power of two that is at least M, at most 8192
//   kernel    a kernel name; us, mad_us: its measured median time and the median absolute deviation
//             (or nothing), for people; kernel_id: of the code that was measured (or nothing), so that tune
//             knows rows whose kernel has changed since
//
// A name that no longer means a kernel is a warning and its row is left out, or an error when strict: a table
// that outlives a kernel must not stop a program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/kernel_spec.h"
#include "spec/problem.h"

namespace scalegemm::dispatch {

enum class Strictness : uint8_t { kLenient, kStrict };

struct TunedRow {
  spec::Target target = spec::Target::kX86V3;
  std::string device;
  std::string problem;
  int64_t m_bucket = 1;
  int64_t n = 0;
  int64_t k = 0;
  std::string kernel;
  double us = 0;
  double mad_us = 0;
  std::string kernel_id = {};

  bool operator==(const TunedRow&) const = default;
};

int64_t m_bucket(int64_t m);
std::string device_key(std::string_view device);

class TunedTable {
 public:
  // kCorruptData with the line for text that is no such table; unknown kernels as said above.
  static Result<TunedTable> parse(std::string_view csv, Strictness strictness);

  // Replaces the row of the same key.
  void add(TunedRow row);

  // What the library ships: manifests/tuned.csv, measured by scalegemm tune.
  static const TunedTable& shipped();

  // The row for a problem on a device, one of that very device before one of every device; or null.
  const TunedRow* find(const spec::Problem& problem, spec::Target target, std::string_view device) const;

  std::string to_csv() const;
  const std::vector<TunedRow>& rows() const { return rows_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<TunedRow> rows_;
  std::vector<std::string> warnings_;
};

}  // namespace scalegemm::dispatch
