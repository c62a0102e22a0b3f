// Checkpoints: what is in a model's files, and its weights as operands.
#include "api/convert.h"
#include "api/error.h"
#include "api/handles.h"
#include "scalegemm/scalegemm.h"

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
