// scalegemm for C++: thin RAII over the C ABI of scalegemm.h, header-only, C++17 (the example: C++20).
//
//   scalegemm::Runtime runtime;
//   scalegemm_problem problem = scalegemm::make_problem("mxfp4", "rcr", m, n, k);
//   problem.b_packing = SCALEGEMM_PACKED;
//   scalegemm::Packed weights(runtime, problem, {.b = codes, .scale_b = scales});
//   scalegemm::Plan plan(runtime, problem);
//   scalegemm_run_args args = scalegemm::make_run_args();
//   args.a = ...; args.packed_b = weights.get(); args.d = ...;
//   plan.run(args);
//
// - A class owns one handle: movable, not copyable, freed by the destructor. get() lends the handle.
// - Every failure throws scalegemm::Error, whose what() names the argument, what was needed and what was
//   given. run_status() is the one call that does not throw, for inner loops.
// - Nothing here is compiled into the library: no exception ever crosses the C ABI.
// - Structures (problems, tensors, arguments) are those of scalegemm.h and stay the caller's.
#ifndef SCALEGEMM_SCALEGEMM_HPP_
#define SCALEGEMM_SCALEGEMM_HPP_

#include <scalegemm/scalegemm.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace scalegemm {

// A failed call: the status and the library's message.
class Error : public std::runtime_error {
 public:
  Error(scalegemm_status status, const std::string& message)
      : std::runtime_error(message.empty() ? scalegemm_status_name(status) : message), status_(status) {}
  scalegemm_status status() const noexcept { return status_; }

 private:
  scalegemm_status status_;
};

// Throws when `status` is a failure of the call just made on this thread.
inline void check(scalegemm_status status) {
  if (status != SCALEGEMM_OK) {
    throw Error(status, scalegemm_last_error());
  }
}

// ------------------------------------------------------------------------------------- structures

// A value-initialised structure with struct_size set: make<scalegemm_plan_options>().
template <class T>
T make() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

// scalegemm_problem_init. M, N, K >= 1; K even where the scheme has a 4-bit type.
inline scalegemm_problem make_problem(const std::string& scheme, const std::string& layout, int64_t m,
                                      int64_t n, int64_t k) {
  scalegemm_problem problem{};
  problem.struct_size = sizeof(problem);
  check(scalegemm_problem_init(&problem, scheme.c_str(), layout.c_str(), m, n, k));
  return problem;
}

// alpha 1, beta 0, everything else absent.
inline scalegemm_run_args make_run_args() {
  scalegemm_run_args args{};
  args.struct_size = sizeof(args);
  check(scalegemm_run_args_init(&args));
  return args;
}

namespace detail {

template <class Handle, void (*kDestroy)(Handle*)>
struct Deleter {
  void operator()(Handle* handle) const { kDestroy(handle); }
};

template <class Handle, void (*kDestroy)(Handle*)>
using Owner = std::unique_ptr<Handle, Deleter<Handle, kDestroy>>;

}  // namespace detail

// ---------------------------------------------------------------------------------------- runtime

// As scalegemm_ceiling.
struct Ceiling {
  std::string name;
  std::string unit;
  double value = 0;
  uint64_t bytes = 0;
};

// Devices, kernels, threads, the disk cache. Outlives everything made with it. Thread-safe.
class Runtime {
 public:
  Runtime() : Runtime(make<scalegemm_runtime_options>()) {}
  explicit Runtime(const scalegemm_runtime_options& options) {
    scalegemm_runtime* handle = nullptr;
    check(scalegemm_runtime_create(&options, &handle));
    handle_.reset(handle);
  }
  scalegemm_runtime* get() const { return handle_.get(); }

  std::vector<scalegemm_device_info> devices() const {
    std::vector<scalegemm_device_info> list;
    for (int32_t i = 0; i < scalegemm_device_count(get()); ++i) {
      list.push_back(make<scalegemm_device_info>());
      check(scalegemm_device(get(), i, &list.back()));
    }
    return list;
  }
  // `device` as in scalegemm_device_info.name.
  std::vector<Ceiling> measure_ceilings(const std::string& device, int32_t threads) const {
    std::vector<Ceiling> ceilings;
    const auto visit = [](const scalegemm_ceiling* c, void* user) -> int32_t {
      static_cast<std::vector<Ceiling>*>(user)->push_back({c->name, c->unit, c->value, c->bytes});
      return 0;
    };
    check(scalegemm_measure_ceilings(get(), device.c_str(), threads, visit, &ceilings));
    return ceilings;
  }
  // Never throws for a problem that is merely unsupported: see support.supported and support.reason.
  scalegemm_support query(const scalegemm_problem& problem,
                          const scalegemm_plan_options* options = nullptr) const {
    auto support = make<scalegemm_support>();
    check(scalegemm_query(get(), &problem, options, &support));
    return support;
  }
  // The dispatcher's reasons, as text or JSON. options->device may be a target without a device ("sm_90a").
  std::string explain(const scalegemm_problem& problem, const scalegemm_plan_options* options,
                      int32_t json) const {
    uint64_t size = 0;
    check(scalegemm_explain(get(), &problem, options, json, nullptr, &size));
    return text_of(size, [&](char* text, uint64_t* bytes) {
      return scalegemm_explain(get(), &problem, options, json, text, bytes);
    });
  }
  // scalegemm_runtime_warnings: lines.
  std::string warnings() const {
    uint64_t size = 0;
    check(scalegemm_runtime_warnings(get(), nullptr, &size));
    return text_of(
        size, [&](char* text, uint64_t* bytes) { return scalegemm_runtime_warnings(get(), text, bytes); });
  }
  // The generated source of a kernel.
  std::string kernel_source(const std::string& name) const {
    uint64_t size = 0;
    check(scalegemm_kernel_source(get(), name.c_str(), nullptr, &size));
    return text_of(size, [&](char* text, uint64_t* bytes) {
      return scalegemm_kernel_source(get(), name.c_str(), text, bytes);
    });
  }

 private:
  template <class Fill>
  static std::string text_of(uint64_t size, const Fill& fill) {
    std::string text(size, '\0');
    check(fill(text.data(), &size));
    text.resize(text.find('\0') == std::string::npos ? text.size() : text.find('\0'));
    return text;
  }

  detail::Owner<scalegemm_runtime, scalegemm_runtime_destroy> handle_;
};

// ------------------------------------------------------------------------------------------- plans

// An immutable choice of kernel. run() may be called from many threads, each with its own D and workspace.
class Plan {
 public:
  Plan(const Runtime& runtime, const scalegemm_problem& problem,
       const scalegemm_plan_options* options = nullptr) {
    scalegemm_plan* handle = nullptr;
    check(scalegemm_plan_create(runtime.get(), &problem, options, &handle));
    handle_.reset(handle);
  }
  scalegemm_plan* get() const { return handle_.get(); }
  uint64_t workspace_bytes() const { return scalegemm_plan_workspace_bytes(get()); }
  std::string kernel() const { return scalegemm_plan_kernel(get()); }

  void run(const scalegemm_run_args& args) const { check(scalegemm_run(get(), &args)); }
  scalegemm_status run_status(const scalegemm_run_args& args) const noexcept {
    return scalegemm_run(get(), &args);
  }

 private:
  detail::Owner<scalegemm_plan, scalegemm_plan_destroy> handle_;
};

// -------------------------------------------------------------------------------------- quantizers

// Activations to codes and scales. run() may be called from many threads.
class Quantizer {
 public:
  Quantizer(const Runtime& runtime, const scalegemm_quantizer_desc& desc,
            const scalegemm_plan_options* options = nullptr) {
    scalegemm_quantizer_desc sized = desc;
    sized.struct_size = sizeof(sized);
    scalegemm_quantizer* handle = nullptr;
    check(scalegemm_quantizer_create(runtime.get(), &sized, options, &handle));
    handle_.reset(handle);
  }
  scalegemm_quantizer* get() const { return handle_.get(); }

  void run(const scalegemm_quantizer_args& args) const {
    scalegemm_quantizer_args sized = args;
    sized.struct_size = sizeof(sized);
    check(scalegemm_quantizer_run(get(), &sized));
  }

 private:
  detail::Owner<scalegemm_quantizer, scalegemm_quantizer_destroy> handle_;
};

// -------------------------------------------------------------------------------------- workspaces

// Memory for scalegemm_run: 64-byte aligned, empty when bytes is 0. One a concurrent run.
class Workspace {
 public:
  Workspace() = default;
  explicit Workspace(uint64_t bytes) : storage_(bytes == 0 ? 0 : bytes + kAlign), bytes_(bytes) {}
  void* data() {
    void* start = storage_.data();
    size_t space = storage_.size();
    return bytes_ == 0 ? nullptr : std::align(kAlign, bytes_, start, space);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlign = 64;
  std::vector<unsigned char> storage_;
  uint64_t bytes_ = 0;
};

// -------------------------------------------------------------------------------- packed weights

// B in the order a kernel family reads, scales included.
class Packed {
 public:
  Packed() = default;
  Packed(const Runtime& runtime, const scalegemm_problem& problem, const scalegemm_pack_args& args,
         const scalegemm_plan_options* options = nullptr) {
    scalegemm_pack_args sized = args;
    sized.struct_size = sizeof(sized);
    scalegemm_packed* handle = nullptr;
    check(scalegemm_pack(runtime.get(), &problem, options, &sized, &handle));
    handle_.reset(handle);
  }
  static Packed load(const std::string& path) {
    Packed packed;
    scalegemm_packed* handle = nullptr;
    check(scalegemm_packed_load(path.c_str(), &handle));
    packed.handle_.reset(handle);
    return packed;
  }
  // The file is complete or absent.
  void save(const std::string& path) const { check(scalegemm_packed_save(get(), path.c_str())); }
  // Into raw row-major tensors of the caller.
  void unpack(const scalegemm_pack_args& out) const {
    scalegemm_pack_args sized = out;
    sized.struct_size = sizeof(sized);
    check(scalegemm_unpack(get(), &sized));
  }
  scalegemm_packed_info info() const {
    auto info = make<scalegemm_packed_info>();
    check(scalegemm_packed_describe(get(), &info));
    return info;
  }
  const scalegemm_packed* get() const { return handle_.get(); }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  detail::Owner<scalegemm_packed, scalegemm_packed_destroy> handle_;
};

// ------------------------------------------------------------------------------------------- files

// A mapped safetensors or npy file. Tensors point into it and live as long as it does.
class File {
 public:
  explicit File(const std::string& path) {
    scalegemm_file* handle = nullptr;
    check(scalegemm_file_open(path.c_str(), &handle));
    handle_.reset(handle);
  }
  std::vector<scalegemm_file_tensor> tensors() const {
    std::vector<scalegemm_file_tensor> list(static_cast<size_t>(scalegemm_file_tensor_count(handle_.get())));
    for (size_t i = 0; i < list.size(); ++i) {
      check(scalegemm_file_get(handle_.get(), static_cast<int64_t>(i), &list[i]));
    }
    return list;
  }

 private:
  detail::Owner<scalegemm_file, scalegemm_file_close> handle_;
};

// ------------------------------------------------------------------------------------ checkpoints

class Checkpoint {
 public:
  explicit Checkpoint(const std::string& path) {
    scalegemm_checkpoint* handle = nullptr;
    check(scalegemm_checkpoint_open(path.c_str(), &handle));
    handle_.reset(handle);
  }
  scalegemm_checkpoint* get() const noexcept { return handle_.get(); }
  std::vector<scalegemm_layer_info> layers() const {
    std::vector<scalegemm_layer_info> list(static_cast<size_t>(scalegemm_checkpoint_layer_count(get())));
    for (size_t i = 0; i < list.size(); ++i) {
      list[i] = make<scalegemm_layer_info>();
      check(scalegemm_checkpoint_layer(get(), static_cast<int64_t>(i), &list[i]));
    }
    return list;
  }

 private:
  detail::Owner<scalegemm_checkpoint, scalegemm_checkpoint_close> handle_;
};

// Matrix `member` of a layer; the checkpoint must outlive it.
class Weight {
 public:
  Weight(const Checkpoint& checkpoint, int64_t layer, int64_t member) {
    scalegemm_weight* handle = nullptr;
    check(scalegemm_weight_read(checkpoint.get(), layer, member, &handle));
    handle_.reset(handle);
  }
  scalegemm_weight* get() const noexcept { return handle_.get(); }
  scalegemm_weight_view view() const {
    auto view = make<scalegemm_weight_view>();
    check(scalegemm_weight_describe(get(), &view));
    return view;
  }

 private:
  detail::Owner<scalegemm_weight, scalegemm_weight_destroy> handle_;
};

}  // namespace scalegemm

#endif  // SCALEGEMM_SCALEGEMM_HPP_
