// The CUDA driver, opened at run time: the library builds and loads on machines without CUDA.
//
// Types and constants are declared here from the public documentation (CUDA Driver API, 12.0 and later), so
// that building needs no toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace scalegemm::device::cuda {

using Error = int;
using DeviceId = int;
using Address = uint64_t;  // CUdeviceptr
using Context = struct OpaqueContext*;
using Module = struct OpaqueModule*;
using Function = struct OpaqueFunction*;
using Stream = struct OpaqueStream*;
using Event = struct OpaqueEvent*;
using Graph = struct OpaqueGraph*;
using GraphExec = struct OpaqueGraphExec*;

inline constexpr Error kSuccess = 0;

// CUtensorMap: 128 opaque bytes.
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

struct LaunchAttribute {  // CUlaunchAttribute
  int id = 0;
  char pad[4] = {};
  union Value {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int programmatic_serialization;
  } value = {};
};
inline constexpr int kClusterDimension = 4;
inline constexpr int kProgrammaticSerialization = 6;
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

enum class TensorType : int { kUint8 = 0, kUint16 = 1 };  // CUtensorMapDataType

struct Driver {
  Error (*init)(unsigned flags);
  Error (*driver_version)(int*);
  Error (*error_name)(Error, const char**);
  Error (*error_string)(Error, const char**);
  Error (*device_count)(int*);
  Error (*device_get)(DeviceId*, int ordinal);
  Error (*device_name)(char*, int, DeviceId);
  Error (*device_attribute)(int*, int attribute, DeviceId);
  Error (*device_memory)(size_t*, DeviceId);
  Error (*primary_retain)(Context*, DeviceId);
  Error (*primary_release)(DeviceId);
  Error (*context_get)(Context*);
  Error (*context_push)(Context);
  Error (*context_pop)(Context*);
  Error (*context_synchronize)();
  Error (*module_load)(Module*, const void* image);
  Error (*module_unload)(Module);
  Error (*module_function)(Function*, Module, const char*);
  Error (*module_global)(Address*, size_t*, Module, const char*);
  Error (*function_set)(Function, int attribute, int value);
  Error (*function_get)(int*, int attribute, Function);
  Error (*launch)(const LaunchConfig*, Function, void** parameters, void** extra);
  Error (*tensor_map)(TensorMap*, int type, unsigned rank, void* address, const uint64_t* dims,
                      const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                      int interleave, int swizzle, int l2_promotion, int fill);
  Error (*allocate)(Address*, size_t);
  Error (*release)(Address);
  Error (*copy)(Address to, Address from, size_t);
  Error (*copy_async)(Address to, Address from, size_t, Stream);
  Error (*fill)(Address, unsigned char, size_t);
  Error (*fill_async)(Address, unsigned char, size_t, Stream);
  Error (*stream_create)(Stream*, unsigned flags);
  Error (*stream_destroy)(Stream);
  Error (*stream_synchronize)(Stream);
  Error (*event_create)(Event*, unsigned flags);
  Error (*event_destroy)(Event);
  Error (*event_record)(Event, Stream);
  Error (*event_synchronize)(Event);
  Error (*event_elapsed)(float* milliseconds, Event start, Event end);
  Error (*capture_begin)(Stream, int mode);
  Error (*capture_end)(Stream, Graph*);
  Error (*graph_instantiate)(GraphExec*, Graph, unsigned long long flags);
  Error (*graph_launch)(GraphExec, Stream);
  Error (*graph_exec_destroy)(GraphExec);
  Error (*graph_destroy)(Graph);
};

// The driver of this process, opened and initialised once. kNoDevice when there is no driver or no device,
// with what to do; kNotBuilt when the driver is too old for what the library calls (12.0).
Result<const Driver*> driver();

// ok, or `code` with what was being done and the driver's own words.
Status check(Error error, const char* what, Code code = Code::kLaunchFailed);

}  // namespace scalegemm::device::cuda
