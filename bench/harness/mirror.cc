#include "harness/mirror.h"

#include <fmt/format.h>

#include <utility>

#include "scalegemm/scalegemm.hpp"

namespace scalegemm::harness {
namespace {

void require(const Status& status) {
  if (!status.ok()) {
    throw Error(static_cast<scalegemm_status>(status.code()), status.message());
  }
}

}  // namespace

Gpu open_gpu(const std::string& device) {
  if (device == "cpu" || device.empty()) {
    return nullptr;
  }
  auto all = device::cuda::Device::all();
  require(all.status());
  for (const auto& gpu : *all) {
    if (device == "cuda" || device == fmt::format("cuda:{}", gpu->ordinal())) {
      return gpu;
    }
  }
  throw Error(SCALEGEMM_NO_DEVICE,
              fmt::format("device: needed cpu, or cuda:0 to cuda:{}; given {}", all->size() - 1, device));
}

Mirror::Mirror(Gpu gpu, const Buffer& buffer) : gpu_(std::move(gpu)) {
  const auto region = buffer.region();
  if (region.empty()) {
    return;
  }
  // The data keeps its place between multiples of 256 bytes: device memory is aligned to that, pages as well.
  auto address = gpu_->allocate(region.size());
  require(address.status());
  base_ = reinterpret_cast<uint8_t*>(*address);
  offset_ = static_cast<size_t>(buffer.data() - region.data());
  upload(buffer);
}

Mirror::~Mirror() {
  if (base_ != nullptr) {
    (void)gpu_->release(reinterpret_cast<device::cuda::Address>(base_));
  }
}

Mirror& Mirror::operator=(Mirror&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(base_, other.base_);
  std::swap(offset_, other.offset_);
  return *this;
}

void Mirror::upload(const Buffer& buffer) {
  if (base_ != nullptr) {
    require(gpu_->copy(base_, buffer.region().data(), buffer.region().size()));
  }
}

void Mirror::download(const Buffer& buffer) const {
  if (base_ != nullptr) {
    require(gpu_->copy(buffer.region().data(), base_, buffer.region().size()));
  }
}

}  // namespace scalegemm::harness
