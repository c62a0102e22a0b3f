#include "device/cuda/driver.h"

#include <memory>
#include <utility>

#include "base/dynlib.h"

namespace scalegemm::device::cuda {
namespace {

constexpr Error kErrorNoDevice = 100;
constexpr Error kErrorOutOfMemory = 2;
constexpr int kLeastVersion = 12000;

struct Opened {
  base::DynLib library;
  Driver driver{};
};

Status load(const base::DynLib& library, Driver* d) {
  const auto find = [&library](const char* name, auto** out) { return library.function(name, out); };
  // The _v2 names are those that cuda.h maps the plain ones to.
  for (const Status& status : {
           find("cuInit", &d->init),
           find("cuDriverGetVersion", &d->driver_version),
           find("cuGetErrorName", &d->error_name),
           find("cuGetErrorString", &d->error_string),
           find("cuDeviceGetCount", &d->device_count),
           find("cuDeviceGet", &d->device_get),
           find("cuDeviceGetName", &d->device_name),
           find("cuDeviceGetAttribute", &d->device_attribute),
           find("cuDeviceTotalMem_v2", &d->device_memory),
           find("cuDevicePrimaryCtxRetain", &d->primary_retain),
           find("cuDevicePrimaryCtxRelease_v2", &d->primary_release),
           find("cuCtxGetCurrent", &d->context_get),
           find("cuCtxPushCurrent_v2", &d->context_push),
           find("cuCtxPopCurrent_v2", &d->context_pop),
           find("cuCtxSynchronize", &d->context_synchronize),
           find("cuModuleLoadData", &d->module_load),
           find("cuModuleUnload", &d->module_unload),
           find("cuModuleGetFunction", &d->module_function),
           find("cuModuleGetGlobal_v2", &d->module_global),
           find("cuFuncSetAttribute", &d->function_set),
           find("cuFuncGetAttribute", &d->function_get),
           find("cuLaunchKernelEx", &d->launch),
           find("cuTensorMapEncodeTiled", &d->tensor_map),
           find("cuMemAlloc_v2", &d->allocate),
           find("cuMemFree_v2", &d->release),
           find("cuMemcpy", &d->copy),
           find("cuMemcpyAsync", &d->copy_async),
           find("cuMemsetD8_v2", &d->fill),
           find("cuMemsetD8Async", &d->fill_async),
           find("cuStreamCreate", &d->stream_create),
           find("cuStreamDestroy_v2", &d->stream_destroy),
           find("cuStreamSynchronize", &d->stream_synchronize),
           find("cuEventCreate", &d->event_create),
           find("cuEventDestroy_v2", &d->event_destroy),
           find("cuEventRecord", &d->event_record),
           find("cuEventSynchronize", &d->event_synchronize),
           find("cuEventElapsedTime", &d->event_elapsed),
           find("cuStreamBeginCapture_v2", &d->capture_begin),
           find("cuStreamEndCapture", &d->capture_end),
           find("cuGraphInstantiateWithFlags", &d->graph_instantiate),
           find("cuGraphLaunch", &d->graph_launch),
           find("cuGraphExecDestroy", &d->graph_exec_destroy),
           find("cuGraphDestroy", &d->graph_destroy),
       }) {
    SCALEGEMM_RETURN_IF_ERROR(status);
  }
  return ok_status();
}

Result<std::unique_ptr<Opened>> open() {
  auto library = base::DynLib::open("libcuda.so.1");
  if (!library.ok()) {
    return make_error(
        Code::kNoDevice,
        "cuda: there is no NVIDIA driver on this machine (libcuda.so.1); install one of CUDA 12.0 "
        "or later, or give \"cpu\"");
  }
  auto opened = std::make_unique<Opened>();
  opened->library = *std::move(library);
  int version = 0;
  Error (*driver_version)(int*) = nullptr;
  SCALEGEMM_RETURN_IF_ERROR(opened->library.function("cuDriverGetVersion", &driver_version));
  if (driver_version(&version) != kSuccess || version < kLeastVersion) {
    return make_error(Code::kNotBuilt,
                      "cuda: the NVIDIA driver must support CUDA 12.0 or later, supports {}.{}",
                      version / 1000, version % 1000 / 10);
  }
  SCALEGEMM_RETURN_IF_ERROR(load(opened->library, &opened->driver).with_context("the NVIDIA driver"));
  const Error started = opened->driver.init(0);
  if (started != kSuccess) {
    const char* words = nullptr;
    opened->driver.error_string(started, &words);
    return make_error(Code::kNoDevice, "cuda: the NVIDIA driver finds no device it can use: {} ({})",
                      words != nullptr ? words : "unknown error", started);
  }
  return opened;
}

const Result<std::unique_ptr<Opened>>& opened() {
  // Never destroyed: kernels may be unloaded by destructors that run late.
  static const auto* const kOpened = new Result<std::unique_ptr<Opened>>(open());
  return *kOpened;
}

}  // namespace

Result<const Driver*> driver() {
  const auto& result = opened();
  if (!result.ok()) {
    return result.status();
  }
  return &(*result)->driver;
}

Status check(Error error, const char* what, Code code) {
  if (error == kSuccess) {
    return ok_status();
  }
  const char* name = "unknown error";
  const char* words = "";
  if (const auto& result = opened(); result.ok()) {
    (*result)->driver.error_name(error, &name);
    (*result)->driver.error_string(error, &words);
  }
  const Code kind = error == kErrorOutOfMemory ? Code::kOutOfMemory
                    : error == kErrorNoDevice  ? Code::kNoDevice
                                               : code;
  return make_error(kind, "cuda: {}: {} ({})", what, words, name);
}

}  // namespace scalegemm::device::cuda
