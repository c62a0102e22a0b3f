// Checkpoints: what is in a model's files, its weights as operands, and whole models in another form.
#include <algorithm>
#include <thread>

#include "api/convert.h"
#include "api/error.h"
#include "api/handles.h"
#include "checkpoint/convert.h"
#include "scalegemm/scalegemm.h"
#include "spec/scheme.h"

using scalegemm::invalid_argument;
using scalegemm::ok_status;
using scalegemm::Result;
using scalegemm::Status;
using namespace scalegemm::api;  // NOLINT(google-build-using-namespace): this file is that room's surface
namespace checkpoint = scalegemm::checkpoint;
namespace num = scalegemm::num;

namespace {

Result<const checkpoint::Layer*> layer_at(const scalegemm_checkpoint* checkpoint, int64_t index,
                                          const char* name) {
  SCALEGEMM_RETURN_IF_ERROR(require(checkpoint, "checkpoint"));
  const auto& layers = checkpoint->impl.layers();
  if (index < 0 || index >= static_cast<int64_t>(layers.size())) {
    return invalid_argument("{}: the checkpoint has {} layers, got {}", name, layers.size(), index);
  }
  return &layers[static_cast<size_t>(index)];
}

// The C ABI has one kind of tensor; the header says that these are only read.
scalegemm_tensor matrix(std::span<const std::byte> bytes, num::DType type, int64_t rows, int64_t cols) {
  return scalegemm_matrix(const_cast<std::byte*>(bytes.data()), static_cast<int32_t>(type), rows, cols);
}

Result<checkpoint::ConvertOptions> to_convert_options(const scalegemm_convert_options* options) {
  checkpoint::ConvertOptions out;
  scalegemm_convert_options c{};
  if (options != nullptr) {
    SCALEGEMM_RETURN_IF_ERROR(read_struct(options, "options", &c));
  }
  if (c.scheme != nullptr) {
    SCALEGEMM_ASSIGN_OR_RETURN(out.scheme, scalegemm::spec::parse_scheme(c.scheme));
  }
  if (c.ignore_count < 0 || (c.ignore_count > 0 && c.ignore == nullptr)) {
    return invalid_argument("options.ignore: needs ignore_count patterns, given {} of {}", c.ignore_count,
                            c.ignore == nullptr ? "none" : "some");
  }
  for (int64_t i = 0; i < c.ignore_count; ++i) {
    SCALEGEMM_RETURN_IF_ERROR(require(c.ignore[i], "options.ignore"));
    out.ignore.emplace_back(c.ignore[i]);
  }
  constexpr int32_t kLastRounding = SCALEGEMM_SCALE_CEIL;
  if (c.scale_rounding < 0 || c.scale_rounding > kLastRounding) {
    return invalid_argument("options.scale_rounding: must be in 0 .. {}, got {}", kLastRounding,
                            c.scale_rounding);
  }
  out.scale_rounding = static_cast<scalegemm::quant::ScaleRounding>(c.scale_rounding);
  constexpr int32_t kMostThreads = 1024;
  if (c.threads < 0 || c.threads > kMostThreads) {
    return invalid_argument("options.threads: must be in 0 .. {}, got {}", kMostThreads, c.threads);
  }
  out.threads =
      c.threads != 0 ? c.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return out;
}

}  // namespace

scalegemm_status scalegemm_checkpoint_open(const char* path, scalegemm_checkpoint** checkpoint) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(path, "path"));
    SCALEGEMM_RETURN_IF_ERROR(require(checkpoint, "checkpoint"));
    *checkpoint = nullptr;
    SCALEGEMM_ASSIGN_OR_RETURN(checkpoint::Checkpoint opened, checkpoint::Checkpoint::open(path));
    *checkpoint = new scalegemm_checkpoint{std::move(opened)};
    return ok_status();
  });
}

void scalegemm_checkpoint_close(scalegemm_checkpoint* checkpoint) {
  delete checkpoint;
}

int64_t scalegemm_checkpoint_layer_count(const scalegemm_checkpoint* checkpoint) {
  return checkpoint == nullptr ? 0 : static_cast<int64_t>(checkpoint->impl.layers().size());
}

scalegemm_status scalegemm_checkpoint_layer(const scalegemm_checkpoint* checkpoint, int64_t index,
                                            scalegemm_layer_info* info) {
  return guarded([&]() -> Status {
    SCALEGEMM_ASSIGN_OR_RETURN(const checkpoint::Layer* layer, layer_at(checkpoint, index, "index"));
    scalegemm_layer_info out{};
    out.name = layer->name.c_str();
    out.format = layer->format.c_str();
    out.scheme = layer->scheme.c_str();
    out.note = layer->note.c_str();
    out.problem = layer->problem.c_str();
    out.n = layer->n;
    out.k = layer->k;
    out.count = layer->count;
    out.bytes = layer->bytes;
    out.operand = from_operand(layer->operand);
    return write_struct(out, "info", info);
  });
}

scalegemm_status scalegemm_checkpoint_left_out(const scalegemm_checkpoint* checkpoint,
                                               int32_t (*visit)(const char* name, const char* type,
                                                                const char* reason, void* user),
                                               void* user) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(checkpoint, "checkpoint"));
    SCALEGEMM_RETURN_IF_ERROR(require(reinterpret_cast<const void*>(visit), "visit"));
    for (const checkpoint::LeftOut& left : checkpoint->impl.left_out()) {
      const std::string name(left.tensor->name);
      const std::string type = describe(*left.tensor);
      if (visit(name.c_str(), type.c_str(), left.reason.c_str(), user) != 0) {
        break;
      }
    }
    return ok_status();
  });
}

scalegemm_status scalegemm_checkpoint_convert(
    const scalegemm_checkpoint* checkpoint, const char* output, const scalegemm_convert_options* options,
    int32_t (*visit)(const scalegemm_converted* converted, void* user), void* user, int32_t* finished) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(checkpoint, "checkpoint"));
    SCALEGEMM_RETURN_IF_ERROR(require(output, "output"));
    if (*output == '\0') {
      return invalid_argument("output: needs a file or folder, given \"\"");
    }
    SCALEGEMM_RETURN_IF_ERROR(require(finished, "finished"));
    *finished = 0;
    SCALEGEMM_ASSIGN_OR_RETURN(const checkpoint::ConvertOptions o, to_convert_options(options));
    const auto report = [&](const checkpoint::Converted& c, int64_t done, int64_t total) {
      scalegemm_converted out{};
      out.struct_size = sizeof out;
      out.name = c.name.c_str();
      out.from = c.from.c_str();
      out.to = c.to.c_str();
      out.how = static_cast<int32_t>(c.how);
      out.exact = c.exact ? 1 : 0;
      out.sqnr_db = c.sqnr_db;
      out.bytes = c.bytes;
      out.resumed = c.resumed ? 1 : 0;
      out.done = done;
      out.total = total;
      return visit == nullptr || visit(&out, user) == 0;
    };
    SCALEGEMM_ASSIGN_OR_RETURN(const bool whole, checkpoint::convert(checkpoint->impl, output, o, report));
    *finished = whole ? 1 : 0;
    return ok_status();
  });
}

scalegemm_status scalegemm_weight_read(const scalegemm_checkpoint* checkpoint, int64_t layer, int64_t member,
                                       scalegemm_weight** weight) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(weight, "weight"));
    *weight = nullptr;
    SCALEGEMM_ASSIGN_OR_RETURN(const checkpoint::Layer* found, layer_at(checkpoint, layer, "layer"));
    SCALEGEMM_ASSIGN_OR_RETURN(checkpoint::LayerData data, checkpoint::read_layer(*found, member));
    *weight = new scalegemm_weight{std::move(data)};
    return ok_status();
  });
}

void scalegemm_weight_destroy(scalegemm_weight* weight) {
  delete weight;
}

scalegemm_status scalegemm_weight_describe(const scalegemm_weight* weight, scalegemm_weight_view* view) {
  return guarded([&]() -> Status {
    SCALEGEMM_RETURN_IF_ERROR(require(weight, "weight"));
    const checkpoint::LayerData& data = weight->impl;
    scalegemm_weight_view out{};
    out.operand = from_operand(data.operand);
    out.n = data.n;
    out.k = data.k;
    out.codes = matrix(data.codes, data.operand.type, data.n, data.k);
    if (const auto& scale = data.operand.scale) {
      out.scales = matrix(data.scales, scale->type, data.grid.rows, data.grid.cols);
      if (scale->zero_type) {
        out.zeros = matrix(data.zeros, num::DType::kInt8, data.grid.rows, data.grid.cols);  // one a byte
        out.zeros.dtype = static_cast<int32_t>(*scale->zero_type);
      }
      out.global = scale->global ? const_cast<float*>(&data.global) : nullptr;
    }
    out.columns = data.columns.empty() ? nullptr : data.columns.data();
    return write_struct(out, "view", view);
  });
}
