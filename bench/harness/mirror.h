// A Buffer's twin in the memory of a GPU: the same bytes, guard bands included, so that what a kernel does
// outside its operands shows in the Buffer's own checks after download().
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/cuda/device.h"
#include "harness/buffer.h"

namespace scalegemm::harness {

using Gpu = std::shared_ptr<const device::cuda::Device>;

// Null for "cpu". Throws scalegemm::Error for a device that is not there.
Gpu open_gpu(const std::string& device);

class Mirror {
 public:
  Mirror() = default;
  Mirror(Gpu gpu, const Buffer& buffer);
  ~Mirror();
  Mirror(Mirror&& other) noexcept { *this = std::move(other); }
  Mirror& operator=(Mirror&& other) noexcept;
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // Where the buffer's data lies on the device.
  uint8_t* data() const { return base_ + offset_; }
  void upload(const Buffer& buffer);
  void download(const Buffer& buffer) const;

 private:
  Gpu gpu_;
  uint8_t* base_ = nullptr;
  size_t offset_ = 0;
};

}  // namespace scalegemm::harness
