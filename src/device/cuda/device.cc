#include "device/cuda/device.h"

#include <array>

namespace scalegemm::device::cuda {
namespace {

// CUdevice_attribute.
constexpr int kClockRate = 13;
constexpr int kMultiprocessors = 16;
constexpr int kL2Bytes = 38;
constexpr int kMajor = 75;
constexpr int kMinor = 76;
constexpr int kSharedBytes = 97;  // with opt-in

Address address_of(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

}  // namespace

Result<std::vector<std::shared_ptr<Device>>> Device::all() {
  SCALEGEMM_ASSIGN_OR_RETURN(const Driver* d, cuda::driver());
  int count = 0;
  SCALEGEMM_RETURN_IF_ERROR(check(d->device_count(&count), "counting devices", Code::kNoDevice));
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < count; ++i) {
    std::shared_ptr<Device> device(new Device(d, i));
    SCALEGEMM_RETURN_IF_ERROR(device->open());
    devices.push_back(std::move(device));
  }
  return devices;
}

Status Device::open() {
  const Driver& d = *driver_;
  SCALEGEMM_RETURN_IF_ERROR(check(d.device_get(&id_, ordinal_), "opening a device", Code::kNoDevice));
  std::array<char, 128> name{};
  size_t memory = 0;
  int l2 = 0;
  for (const Error error :
       {d.device_name(name.data(), static_cast<int>(name.size()), id_), d.device_memory(&memory, id_),
        d.driver_version(&properties_.driver_version), d.device_attribute(&properties_.major, kMajor, id_),
        d.device_attribute(&properties_.minor, kMinor, id_),
        d.device_attribute(&properties_.multiprocessors, kMultiprocessors, id_),
        d.device_attribute(&properties_.clock_khz, kClockRate, id_),
        d.device_attribute(&properties_.shared_bytes, kSharedBytes, id_),
        d.device_attribute(&l2, kL2Bytes, id_)}) {
    SCALEGEMM_RETURN_IF_ERROR(check(error, "reading device properties", Code::kNoDevice));
  }
  properties_.model = name.data();
  properties_.memory_bytes = memory;
  properties_.l2_bytes = static_cast<uint64_t>(l2);
  return ok_status();
}

Status Device::retain() const {
  std::call_once(retain_once_, [this] { retained_ = driver_->primary_retain(&context_, id_); });
  return check(retained_, "opening the device's primary context", Code::kNoDevice);
}

Device::~Device() {
  if (context_ != nullptr) {
    driver_->primary_release(id_);
  }
}

std::optional<spec::Target> Device::target() const {
  if (properties_.major == 9 && properties_.minor == 0) {
    return spec::Target::kSm90a;
  }
  if (properties_.major == 8) {
    return properties_.minor >= 9 ? spec::Target::kSm89 : spec::Target::kSm80;
  }
  return std::nullopt;
}

Result<Address> Device::allocate(uint64_t bytes) const {
  const Current current(*this);
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  Address address = 0;
  SCALEGEMM_RETURN_IF_ERROR(check(driver_->allocate(&address, bytes), "allocating", Code::kOutOfMemory));
  return address;
}

Status Device::release(Address address) const {
  const Current current(*this);
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  return check(driver_->release(address), "releasing memory", Code::kInvalidArgument);
}

Status Device::copy(void* to, const void* from, uint64_t bytes) const {
  const Current current(*this);
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  SCALEGEMM_RETURN_IF_ERROR(check(driver_->context_synchronize(), "waiting for the device"));
  return check(driver_->copy(address_of(to), address_of(from), bytes), "copying", Code::kInvalidArgument);
}

Status Device::fill(void* to, unsigned char value, uint64_t bytes) const {
  const Current current(*this);
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  return check(driver_->fill(address_of(to), value, bytes), "filling", Code::kInvalidArgument);
}

Status Device::synchronize() const {
  const Current current(*this);
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  return check(driver_->context_synchronize(), "waiting for the device");
}

Current::Current(const Device& device) : device_(device), status_(device.retain()) {
  if (!status_.ok()) {
    return;
  }
  const Driver& d = *device.driver_;
  Context now = nullptr;
  d.context_get(&now);
  if (now != nullptr && now == device.context_) {
    return;
  }
  status_ = check(d.context_push(device.context_), "making the device current", Code::kNoDevice);
  pushed_ = status_.ok();
}

Current::~Current() {
  if (pushed_) {
    Context popped = nullptr;
    device_.driver_->context_pop(&popped);
  }
}

}  // namespace scalegemm::device::cuda
