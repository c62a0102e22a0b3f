// The runtime with its plans, and packed weights.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <scalegemm/scalegemm.hpp>
#include <string>
#include <unordered_map>

#include "describe.h"
#include "problem.h"

namespace scalegemm::python {

struct PlanObject {
  Plan plan;
  Problem problem;
  Device device;
  uint64_t workspace_bytes;
};

struct PackedObject {
  Packed packed;
  scalegemm_packed_info info;
};

// Plans and quantizers are kept by what they are for. Used under the GIL, which is given up while one is
// made.
class RuntimeObject {
 public:
  explicit RuntimeObject(const scalegemm_runtime_options& options) : runtime_(options) {}

  const Runtime& runtime() const { return runtime_; }

  struct PlanRequest {
    std::string device;
    std::string kernel = {};  // "": choose
    int32_t threads = 0;
  };
  std::shared_ptr<PlanObject> plan(const Problem& problem, const PlanRequest& request);
  const Quantizer& quantizer(const scalegemm_quantizer_desc& desc, const std::string& device);

 private:
  Runtime runtime_;
  std::unordered_map<std::string, std::shared_ptr<PlanObject>> plans_;
  std::unordered_map<std::string, Quantizer> quantizers_;
};

void bind_runtime(nb::module_& m);
void bind_plan(nb::module_& m);

}  // namespace scalegemm::python
