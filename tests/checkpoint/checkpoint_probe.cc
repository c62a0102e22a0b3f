// Shows what the readers see and writes what the writers make, for peers_test.py.
//
//   checkpoint_probe read FILE         a JSON description of FILE, with the bytes of each tensor in hex
//   checkpoint_probe layers PATH       the layers of a checkpoint, with the bytes of each weight in hex
//   checkpoint_probe rewrite FILE OUT  FILE (safetensors) through the writer, or FILE (npy) likewise
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/detect.h"
#include "checkpoint/npy.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"

namespace scalegemm::checkpoint {
namespace {

using Json = nlohmann::json;

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    out += fmt::format("{:02x}", static_cast<unsigned>(b));
  }
  return out;
}

Result<std::string> read_safetensors(const std::string& path) {
  SCALEGEMM_ASSIGN_OR_RETURN(const Safetensors file, Safetensors::open(path));
  Json tensors = Json::object();
  for (const TensorInfo& tensor : file.tensors()) {
    const auto& dtype = tensor.type->dtype;
    tensors[tensor.name] = {{"type", tensor.type->name},
                            {"dtype", dtype ? Json(num::name(*dtype)) : Json()},
                            {"shape", tensor.shape},
                            {"bytes", hex(file.bytes(tensor))}};
  }
  return Json{{"tensors", tensors}, {"metadata", file.metadata()}}.dump();
}

Result<std::string> read_npy(const std::string& path) {
  SCALEGEMM_ASSIGN_OR_RETURN(const Npy file, Npy::open(path));
  const NpyHeader& header = file.header();
  return Json{{"type", header.type->code},
              {"shape", header.shape},
              {"fortran_order", header.fortran_order},
              {"bytes", hex(file.bytes())}}
      .dump();
}

Json json_of(const LayerData& data) {
  Json json = {{"codes", hex(data.codes)}, {"columns", data.columns}, {"global", data.global}};
  json["scales"] = hex(data.scales);
  json["zeros"] = hex(data.zeros);
  json["grid"] = {data.grid.rows, data.grid.cols};
  return json;
}

Json json_of(const spec::OperandSpec& operand) {
  Json json = {{"type", num::name(operand.type)}};
  if (operand.scale) {
    json["scale"] = num::name(operand.scale->type);
    json["block"] = {operand.scale->block_rows, operand.scale->block_k};
    json["zero"] = operand.scale->zero_type ? Json(num::name(*operand.scale->zero_type)) : Json();
    json["global"] = operand.scale->global;
  }
  return json;
}

Result<std::string> read_layers(const std::string& path) {
  SCALEGEMM_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(path));
  Json layers = Json::object();
  for (const Layer& layer : checkpoint.layers()) {
    Json json = {{"format", layer.format}, {"scheme", layer.scheme},
                 {"note", layer.note},     {"n", layer.n},
                 {"k", layer.k},           {"problem", layer.problem},
                 {"bytes", layer.bytes},   {"members", Json::array()}};
    json["operand"] = json_of(layer.operand);
    for (int64_t member = 0; layer.problem.empty() && member < layer.count; ++member) {
      const Result<LayerData> data = read_layer(layer, member);
      if (!data.ok()) {
        return data.status();
      }
      json["members"].push_back(json_of(*data));
    }
    layers[layer.name] = json;
  }
  Json left_out = Json::object();
  for (const LeftOut& left : checkpoint.left_out()) {
    left_out[std::string(left.tensor->name)] = left.reason;
  }
  return Json{{"layers", layers}, {"left_out", left_out}}.dump();
}

Status rewrite_safetensors(const std::string& from, const std::string& to) {
  SCALEGEMM_ASSIGN_OR_RETURN(const Safetensors file, Safetensors::open(from));
  std::vector<TensorSpec> specs;
  for (const TensorInfo& tensor : file.tensors()) {
    specs.push_back({.name = tensor.name, .type = tensor.type->name, .shape = tensor.shape});
  }
  SCALEGEMM_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::create(to, specs, file.metadata()));
  for (const TensorInfo& tensor : file.tensors()) {
    SCALEGEMM_RETURN_IF_ERROR(writer.write(tensor.name, file.bytes(tensor)));
  }
  return writer.finish();
}

Status rewrite_npy(const std::string& from, const std::string& to) {
  SCALEGEMM_ASSIGN_OR_RETURN(const Npy file, Npy::open(from));
  return write_npy(to, file.header().type->code, file.header().shape, file.bytes());
}

int run(std::span<char*> arguments) {
  const std::string verb = arguments.size() > 2 ? arguments[1] : "";
  const std::string path = arguments.size() > 2 ? arguments[2] : "";
  Status status = invalid_argument("usage: checkpoint_probe read FILE | layers PATH | rewrite FILE OUT");
  if ((verb == "read" || verb == "layers") && arguments.size() == 3) {
    const Result<std::string> text = verb == "layers"         ? read_layers(path)
                                     : path.ends_with(".npy") ? read_npy(path)
                                                              : read_safetensors(path);
    if (text.ok()) {
      std::puts(text->c_str());
    }
    status = text.status();
  } else if (verb == "rewrite" && arguments.size() == 4) {
    status =
        path.ends_with(".npy") ? rewrite_npy(path, arguments[3]) : rewrite_safetensors(path, arguments[3]);
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return static_cast<int>(status.code());
  }
  return 0;
}

}  // namespace
}  // namespace scalegemm::checkpoint

int main(int argc, char** argv) {
  return scalegemm::checkpoint::run({argv, static_cast<size_t>(argc)});
}
