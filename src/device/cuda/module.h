// A cubin in a device's memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/cuda/device.h"

namespace scalegemm::device::cuda {

// Immutable and thread-safe. The code is unloaded with the object.
class LoadedModule {
 public:
  // kCorruptData when the driver does not take it.
  static Result<std::shared_ptr<const LoadedModule>> load(std::shared_ptr<const Device> device,
                                                          const std::string& cubin);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  const Device& device() const { return *device_; }

  // An entry point; kCorruptData when there is none of that name.
  Result<Function> function(const std::string& symbol) const;
  // Reads a constant that must have exactly so many bytes, else kCorruptData.
  Status read(const std::string& symbol, void* to, size_t bytes) const;

 private:
  explicit LoadedModule(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  std::shared_ptr<const Device> device_;
  Module module_ = nullptr;
};

}  // namespace scalegemm::device::cuda
