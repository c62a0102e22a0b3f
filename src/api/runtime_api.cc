// Runtime, devices, kernels, cache, toolchains.
#include <string>

#include "api/convert.h"
#include "api/error.h"
#include "api/handles.h"
#include "scalegemm/scalegemm.h"

using scalegemm::invalid_argument;
using scalegemm::ok_status;
using scalegemm::Status;
using namespace scalegemm::api;  // NOLINT(google-build-using-namespace): this file is that room's surface
namespace runtime = scalegemm::runtime;

scalegemm_status scalegemm_runtime_create(const scalegemm_runtime_options* options, scalegemm_runtime** out) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(out, "runtime"));
    *out = nullptr;
    runtime::RuntimeOptions o;
    if (options != nullptr) {
      scalegemm_runtime_options c;
      SCALEGEMM_RETURN_IF_ERROR(read_struct(options, "options", &c));
      if (c.threads < 0 || c.threads > 1024) {
        return invalid_argument("options.threads: must be in 0 .. 1024, got {}", c.threads);
      }
      if (c.jit != 0 && c.jit != -1) {
        return invalid_argument("options.jit: must be 0 (when needed) or -1 (never), got {}", c.jit);
      }
      if (c.strict != 0 && c.strict != 1) {
        return invalid_argument("options.strict: must be 0 or 1, got {}", c.strict);
      }
      SCALEGEMM_RETURN_IF_ERROR(check_reserved(c.reserved, "options.reserved"));
      o.threads = c.threads;
      o.jit = c.jit == 0;
      o.strict = c.strict != 0;
      o.cache_dir = c.cache_dir != nullptr ? c.cache_dir : "";
      o.tuned_table = c.tuned_table != nullptr ? c.tuned_table : "";
      o.cpu_target = c.cpu_target != nullptr ? c.cpu_target : "";
    }
    SCALEGEMM_ASSIGN_OR_RETURN(auto impl, runtime::Runtime::create(o));
    *out = new scalegemm_runtime{std::move(impl)};
    return ok_status();
  });
}

void scalegemm_runtime_destroy(scalegemm_runtime* rt) {
  delete rt;
}

int32_t scalegemm_device_count(const scalegemm_runtime* rt) {
  return rt != nullptr ? static_cast<int32_t>(rt->impl->devices().size()) : 0;
}

scalegemm_status scalegemm_device(const scalegemm_runtime* rt, int32_t index, scalegemm_device_info* info) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
    const int32_t count = scalegemm_device_count(rt);
    if (index < 0 || index >= count) {
      return invalid_argument("index: must be in 0 .. {}, got {}", count - 1, index);
    }
    const runtime::DeviceInfo& device = rt->impl->devices()[static_cast<size_t>(index)];
    scalegemm_device_info out{};
    copy_text(out.name, device.name);
    copy_text(out.model, device.model);
    copy_text(out.target, device.target);
    copy_text(out.features, device.features);
    out.cores = device.cores;
    out.l1_bytes = device.l1_bytes;
    out.l2_bytes = device.l2_bytes;
    out.l3_bytes = device.l3_bytes;
    out.memory_bytes = device.memory_bytes;
    return write_struct(out, "info", info);
  });
}

scalegemm_status scalegemm_measure_ceilings(scalegemm_runtime* rt, const char* device, int32_t threads,
                                            int32_t (*visit)(const scalegemm_ceiling*, void*), void* user) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
    if (visit == nullptr) {
      return invalid_argument("visit: must not be null");
    }
    SCALEGEMM_ASSIGN_OR_RETURN(const auto ceilings,
                               rt->impl->measure_ceilings(device != nullptr ? device : "cpu", threads));
    for (const auto& ceiling : ceilings) {
      const scalegemm_ceiling row = {.name = ceiling.name.c_str(),
                                     .unit = ceiling.unit.c_str(),
                                     .value = ceiling.value,
                                     .bytes = ceiling.bytes};
      if (visit(&row, user) != 0) {
        break;
      }
    }
    return ok_status();
  });
}

scalegemm_status scalegemm_kernels(scalegemm_runtime* rt, const char* filter,
                                   int32_t (*visit)(const scalegemm_kernel_info*, void*), void* user) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
    if (visit == nullptr) {
      return invalid_argument("visit: must not be null");
    }
    SCALEGEMM_ASSIGN_OR_RETURN(const auto kernels, rt->impl->kernels(filter != nullptr ? filter : ""));
    for (const runtime::KernelInfo& kernel : kernels) {
      const scalegemm_kernel_info info = {.name = kernel.name.c_str(),
                                          .target = kernel.target.c_str(),
                                          .id = kernel.id.c_str(),
                                          .built_in = kernel.built_in ? 1 : 0,
                                          .cached = kernel.cached ? 1 : 0};
      if (visit(&info, user) != 0) {
        break;
      }
    }
    return ok_status();
  });
}

scalegemm_status scalegemm_kernel_build(scalegemm_runtime* rt, const char* name, int32_t force) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
    SCALEGEMM_RETURN_IF_ERROR(require(name, "name"));
    return rt->impl->build_kernel(name,
                                  force != 0 ? runtime::BuildMode::kAlways : runtime::BuildMode::kIfMissing);
  });
}

scalegemm_status scalegemm_kernel_source(scalegemm_runtime* rt, const char* name, char* text,
                                         uint64_t* size) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
    SCALEGEMM_RETURN_IF_ERROR(require(name, "name"));
    SCALEGEMM_ASSIGN_OR_RETURN(const std::string source, rt->impl->kernel_source(name));
    return write_text(source, text, size);
  });
}

scalegemm_status scalegemm_cache(scalegemm_runtime* rt, scalegemm_cache_info* info) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
    const runtime::CacheInfo cache = rt->impl->cache();
    scalegemm_cache_info out{};
    copy_text(out.path, cache.path);
    out.entries = cache.entries;
    out.bytes = cache.bytes;
    out.writable = cache.writable ? 1 : 0;
    return write_struct(out, "info", info);
  });
}

scalegemm_status scalegemm_cache_clear(scalegemm_runtime* rt) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
    return rt->impl->clear_cache();
  });
}

scalegemm_status scalegemm_runtime_warnings(const scalegemm_runtime* rt, char* text, uint64_t* size) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
    std::string lines;
    for (const std::string& warning : rt->impl->warnings()) {
      lines += warning + "\n";
    }
    return write_text(lines, text, size);
  });
}

int32_t scalegemm_toolchain_count(const scalegemm_runtime* rt) {
  return rt != nullptr ? static_cast<int32_t>(rt->impl->toolchains().size()) : 0;
}

scalegemm_status scalegemm_toolchain(scalegemm_runtime* rt, int32_t index, scalegemm_toolchain_info* info) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(rt, "runtime"));
    const auto list = rt->impl->toolchains();
    if (index < 0 || index >= static_cast<int32_t>(list.size())) {
      return invalid_argument("index: must be in 0 .. {}, got {}", list.size() - 1, index);
    }
    const runtime::ToolchainInfo& row = list[static_cast<size_t>(index)];
    scalegemm_toolchain_info out{};
    copy_text(out.name, row.name);
    copy_text(out.version, row.version);
    copy_text(out.problem, row.problem);
    return write_struct(out, "info", info);
  });
}
