// What the opaque handles of the C ABI are.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "checkpoint/detect.h"
#include "checkpoint/npy.h"
#include "checkpoint/safetensors.h"
#include "runtime/packed.h"
#include "runtime/plan.h"
#include "runtime/quantizer.h"
#include "runtime/runtime.h"

struct scalegemm_runtime {
  std::unique_ptr<scalegemm::runtime::Runtime> impl;
};

struct scalegemm_plan {
  std::unique_ptr<scalegemm::runtime::Plan> impl;
};

struct scalegemm_quantizer {
  std::unique_ptr<scalegemm::runtime::Quantizer> impl;
};

struct scalegemm_packed {
  std::unique_ptr<scalegemm::runtime::PackedMatrix> impl;
};

struct scalegemm_file {
  std::variant<scalegemm::checkpoint::Safetensors, scalegemm::checkpoint::Npy> impl;
  std::string npy_name;  // of an npy file's one tensor: the file's stem
};

struct scalegemm_checkpoint {
  scalegemm::checkpoint::Checkpoint impl;
};

struct scalegemm_weight {
  scalegemm::checkpoint::LayerData impl;
};
