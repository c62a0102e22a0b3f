// A CUDA device: what it is, its memory, its streams' context.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/cuda/driver.h"
#include "spec/target.h"

namespace scalegemm::device::cuda {

struct Properties {
  std::string model;
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  int shared_bytes = 0;    // the most that one CTA can have
  int clock_khz = 0;       // maximum
  int driver_version = 0;  // 12040 is CUDA 12.4
  uint64_t l2_bytes = 0;
  uint64_t memory_bytes = 0;
};

// Uses the device's primary context, the one that the CUDA runtime and the frameworks use, so that their
// pointers and streams are taken as they are. Thread-safe.
class Device {
 public:
  // Every device that the driver shows, in its order ($CUDA_VISIBLE_DEVICES); kNoDevice without a driver.
  static Result<std::vector<std::shared_ptr<Device>>> all();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Properties& properties() const { return properties_; }
  int ordinal() const { return ordinal_; }
  // The target that its kernels are compiled for; empty where the library has none for it.
  std::optional<spec::Target> target() const;
  const Driver& driver() const { return *driver_; }

  Result<Address> allocate(uint64_t bytes) const;
  Status release(Address address) const;
  // Between any two of host and device memory; complete on return, after all earlier work of the device.
  Status copy(void* to, const void* from, uint64_t bytes) const;
  Status fill(void* to, unsigned char value, uint64_t bytes) const;
  Status synchronize() const;

 private:
  friend class Current;
  Device(const Driver* driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  Status open();
  // The primary context, retained at the first call: it costs memory on the device.
  Status retain() const;

  const Driver* driver_;
  int ordinal_;
  DeviceId id_ = 0;
  Properties properties_;
  mutable std::once_flag retain_once_;
  mutable Error retained_ = kSuccess;
  mutable Context context_ = nullptr;
};

// Makes the device's context current on this thread as long as it lives.
class Current {
 public:
  explicit Current(const Device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  const Status& status() const { return status_; }

 private:
  const Device& device_;
  bool pushed_ = false;
  Status status_;
};

}  // namespace scalegemm::device::cuda
