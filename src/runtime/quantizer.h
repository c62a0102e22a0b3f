// A quantiser of rows, ready to run on one device. Immutable and thread-safe.
#pragma once

#include <memory>

#include "base/status.h"
#include "device/cuda/quantizer.h"
#include "quant/quantize.h"
#include "runtime/tensor.h"
#include "spec/problem.h"

namespace scalegemm::runtime {

struct QuantizerDesc {
  spec::OperandSpec operand;    // the layout plays no part
  DType source = DType::kBf16;  // f32, f16, bf16
  quant::ScaleRounding rounding = quant::ScaleRounding::kFloor;
};

struct QuantizerArgs {
  Tensor source, codes, scales;
  void* stream = nullptr;  // of a GPU
};

class Quantizer {
 public:
  // `gpu` null: on the CPU. The description must be checked.
  Quantizer(const QuantizerDesc& desc, std::shared_ptr<const device::cuda::Quantizer> gpu)
      : desc_(desc), gpu_(std::move(gpu)) {}

  // Checks the arguments; then quantises, or enqueues that on a GPU, where it allocates nothing.
  Status run(const QuantizerArgs& args) const;

 private:
  Status check(const QuantizerArgs& args) const;
  Status run_on_cpu(const QuantizerArgs& args) const;
  Status run_on_gpu(const QuantizerArgs& args) const;

  QuantizerDesc desc_;
  std::shared_ptr<const device::cuda::Quantizer> gpu_;
};

// Does a quantiser do this, on any device? The GPU's further limits: gen/cuda_units.h.
Status check_quantizer(const QuantizerDesc& desc);

}  // namespace scalegemm::runtime
