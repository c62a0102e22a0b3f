// A CUDA quantiser in a device's memory, and how it is launched.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cuda/quantize_abi.h"
#include "device/cuda/module.h"

namespace scalegemm::device::cuda {

// Immutable and thread-safe.
class Quantizer {
 public:
  // The entry points do the same; where a whole row shares a scale they are ordered by the elements of a row
  // that they keep in registers. kCorruptData when the module does not hold them as this library's ABI has
  // them.
  static Result<std::shared_ptr<const Quantizer>> load(std::shared_ptr<const LoadedModule> module,
                                                       std::span<const std::string> symbols);
  Quantizer(const Quantizer&) = delete;
  Quantizer& operator=(const Quantizer&) = delete;

  // Enqueues the work, whose pointers are device memory, on a stream of the device (null: the default one).
  // Allocates nothing and waits for nothing; may be captured into a graph. rows and k must be below 2^31;
  // kUnsupported, with the limit, where they need a larger grid than the kernels index.
  Status launch(const SgQuantize& arguments, void* stream) const;

 private:
  struct Entry {
    Function function = nullptr;
    SgQuantizeInfo info{};
  };
  explicit Quantizer(std::shared_ptr<const LoadedModule> module) : module_(std::move(module)) {}
  const Entry& choose(uint32_t k) const;

  std::shared_ptr<const LoadedModule> module_;
  std::vector<Entry> entries_;  // at least one
};

}  // namespace scalegemm::device::cuda
