// Status, types, schemes, problems: entry points that need no runtime.
#include <string>
#include <string_view>
#include <utility>

#include "api/convert.h"
#include "api/error.h"
#include "scalegemm/scalegemm.h"
#include "spec/scheme.h"

using scalegemm::invalid_argument;
using scalegemm::ok_status;
using scalegemm::Status;
using namespace scalegemm::api;  // NOLINT(google-build-using-namespace): this file is that room's surface
namespace num = scalegemm::num;
namespace spec = scalegemm::spec;

namespace {

// At this size the share of a last partial block and of a per-tensor factor no longer shows.
constexpr int64_t kLargeExtent = 8192;

scalegemm_problem to_c(const spec::Problem& p) {
  scalegemm_problem out{};
  out.struct_size = sizeof out;
  out.m = p.m;
  out.n = p.n;
  out.k = p.k;
  out.batch = p.batch;
  out.a = from_operand(p.a);
  out.b = from_operand(p.b);
  out.d_dtype = static_cast<int32_t>(p.d);
  return out;
}

}  // namespace

const char* scalegemm_last_error(void) {
  return last_error();
}

const char* scalegemm_status_name(scalegemm_status status) {
  return scalegemm::to_string(static_cast<scalegemm::Code>(status));
}

#define SCALEGEMM_TEXT_OF(x) SCALEGEMM_TEXT(x)
#define SCALEGEMM_TEXT(x) #x
const char* scalegemm_version(void) {
  return SCALEGEMM_TEXT_OF(SCALEGEMM_VERSION_MAJOR) "." SCALEGEMM_TEXT_OF(
      SCALEGEMM_VERSION_MINOR) "." SCALEGEMM_TEXT_OF(SCALEGEMM_VERSION_PATCH);
}

const char* scalegemm_dtype_name(int32_t dtype) {
  // The table's names are literals, so data() ends with 0.
  return num::is_valid(dtype) ? num::name(static_cast<num::DType>(dtype)).data() : nullptr;
}

scalegemm_dtype scalegemm_dtype_from_name(const char* name) {
  const auto type = name != nullptr ? num::parse_dtype(name) : std::nullopt;
  return type ? static_cast<scalegemm_dtype>(*type) : SCALEGEMM_DTYPE_NONE;
}

int32_t scalegemm_dtype_bits(int32_t dtype) {
  return num::is_valid(dtype) ? num::info(static_cast<num::DType>(dtype)).bits : 0;
}

scalegemm_status scalegemm_problem_init(scalegemm_problem* problem, const char* scheme, const char* layout,
                                        int64_t m, int64_t n, int64_t k) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(problem, "problem"));
    SCALEGEMM_RETURN_IF_ERROR(require(scheme, "scheme"));
    SCALEGEMM_RETURN_IF_ERROR(require(layout, "layout"));
    SCALEGEMM_ASSIGN_OR_RETURN(const spec::Scheme parsed, spec::parse_scheme(scheme));
    spec::Problem p;
    p.m = m;
    p.n = n;
    p.k = k;
    SCALEGEMM_RETURN_IF_ERROR(spec::apply(parsed, layout, p));
    SCALEGEMM_RETURN_IF_ERROR(spec::validate(p));
    return write_struct(to_c(p), "problem", problem);
  });
}

int32_t scalegemm_scheme_count(void) {
  return static_cast<int32_t>(spec::known_schemes().size());
}

scalegemm_status scalegemm_scheme(int32_t index, scalegemm_scheme_info* info) {
  return guarded([&]() -> Status {
    const auto schemes = spec::known_schemes();
    if (index < 0 || index >= static_cast<int32_t>(schemes.size()) || info == nullptr) {
      return invalid_argument("{}", info == nullptr ? std::string("info: must not be null")
                                                    : fmt::format("index: must be in 0 .. {}, got {}",
                                                                  schemes.size() - 1, index));
    }
    const spec::SchemeInfo& row = schemes[static_cast<size_t>(index)];
    SCALEGEMM_ASSIGN_OR_RETURN(const spec::Scheme scheme, spec::parse_scheme(row.text));
    *info = {.name = row.text.data(),
             .description = row.description.data(),
             .bits_per_weight = spec::bits_per_weight(scheme.b, kLargeExtent, kLargeExtent),
             .is_preset = row.is_preset ? 1 : 0,
             .reserved = 0};
    return ok_status();
  });
}

scalegemm_tensor scalegemm_matrix(void* data, int32_t dtype, int64_t rows, int64_t cols) {
  scalegemm_tensor t{};
  t.data = data;
  t.dtype = dtype;
  const bool packed4 = scalegemm_dtype_bits(dtype) == 4;
  const int64_t row = packed4 ? cols / 2 + cols % 2 : cols;
  const int64_t element = packed4 ? 1 : scalegemm_dtype_bits(dtype) / 8;
  // Extents whose size does not fit give bytes 0, which every use of the tensor refuses.
  int64_t elements = 0;
  int64_t bytes = 0;
  if (rows < 0 || cols < 0 || __builtin_mul_overflow(rows, row, &elements) ||
      __builtin_mul_overflow(elements, element, &bytes)) {
    elements = bytes = 0;
  }
  t.shape[0] = 1;
  t.shape[1] = rows;
  t.shape[2] = cols;
  t.stride[0] = elements;
  t.stride[1] = row;
  t.stride[2] = 1;
  t.bytes = static_cast<uint64_t>(bytes);
  return t;
}

scalegemm_status scalegemm_run_args_init(scalegemm_run_args* args) {
  return guarded([&]() -> Status {
    scalegemm_run_args out{};
    out.alpha = 1.0f;
    return write_struct(out, "args", args);
  });
}

uint64_t scalegemm_struct_size(const char* structure) {
  static constexpr std::pair<std::string_view, uint64_t> kSizes[] = {
      {"problem", sizeof(scalegemm_problem)},
      {"operand_desc", sizeof(scalegemm_operand_desc)},
      {"scale_desc", sizeof(scalegemm_scale_desc)},
      {"scheme_info", sizeof(scalegemm_scheme_info)},
      {"runtime_options", sizeof(scalegemm_runtime_options)},
      {"device_info", sizeof(scalegemm_device_info)},
      {"ceiling", sizeof(scalegemm_ceiling)},
      {"tensor", sizeof(scalegemm_tensor)},
      {"plan_options", sizeof(scalegemm_plan_options)},
      {"support", sizeof(scalegemm_support)},
      {"pack_args", sizeof(scalegemm_pack_args)},
      {"packed_info", sizeof(scalegemm_packed_info)},
      {"run_args", sizeof(scalegemm_run_args)},
      {"quantize_options", sizeof(scalegemm_quantize_options)},
      {"convert_options", sizeof(scalegemm_convert_options)},
      {"converted", sizeof(scalegemm_converted)},
      {"quantizer_desc", sizeof(scalegemm_quantizer_desc)},
      {"quantizer_args", sizeof(scalegemm_quantizer_args)},
      {"kernel_info", sizeof(scalegemm_kernel_info)},
      {"cache_info", sizeof(scalegemm_cache_info)},
      {"toolchain_info", sizeof(scalegemm_toolchain_info)},
      {"file_tensor", sizeof(scalegemm_file_tensor)},
      {"layer_info", sizeof(scalegemm_layer_info)},
      {"weight_view", sizeof(scalegemm_weight_view)},
  };
  if (structure != nullptr) {
    for (const auto& [name, size] : kSizes) {
      if (name == structure) {
        return size;
      }
    }
  }
  return 0;
}
