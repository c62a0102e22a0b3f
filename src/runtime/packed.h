// Packed weights as an object: made by pack or load, immutable afterwards, shared by any number of runs.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "base/thread_pool.h"
#include "layout/pack.h"
#include "layout/packed_header.h"
#include "runtime/memory.h"
#include "runtime/tensor.h"
#include "spec/problem.h"

namespace scalegemm::runtime {

// Raw weights as a caller has them: B (N x K), its scale and zero grids, its global factor.
struct WeightTensors {
  Tensor b;
  Tensor scale;
  Tensor zero;
  const float* global = nullptr;
};

// Checks the weights of a problem; names in messages are b, scale_b, zero_b, global_b.
Status check_weights(const spec::Problem& problem, const WeightTensors& weights);

class PackedMatrix {
 public:
  // Packs B of the problem; problem.b_packing must name a layout.
  static Result<std::unique_ptr<PackedMatrix>> pack(const spec::Problem& problem,
                                                    const WeightTensors& weights, base::ThreadPool& pool);
  static Result<std::unique_ptr<PackedMatrix>> load(const std::string& path);

  // Atomic: the file is complete or absent.
  Status save(const std::string& path) const;
  // Into contiguous row-major tensors; absent ones are left out.
  Status unpack(const WeightTensors& out) const;

  const layout::PackedHeader& header() const { return header_; }
  std::span<const std::byte> payload() const { return file_.span().subspan(layout::kPackedHeaderBytes); }
  std::span<const std::byte> file() const { return file_.span(); }
  spec::Packing packing() const { return static_cast<spec::Packing>(header_.layout); }
  // What was packed, as a problem describes it (B column-major: N x K row by row).
  spec::OperandSpec operand() const;
  std::string digest_hex() const;

 private:
  AlignedBuffer file_;  // header and payload; the header's 192 bytes keep the payload at a cache line
  layout::PackedHeader header_{};
};

}  // namespace scalegemm::runtime
