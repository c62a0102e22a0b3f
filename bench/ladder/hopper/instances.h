// A kernel of the ladder: its configuration and how to launch it. Each instances_*.cu contributes a table.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cuda/scaled_gemm_splitk_sm90.cuh"

namespace ladder {

using namespace scalegemm::cuda;

struct Instance {
  GemmConfig config;
  const void* function;
  unsigned shared_bytes, threads;
  std::string name;
};

std::vector<Instance> fast_instances();
std::vector<Instance> promoted_instances();
std::vector<Instance> promoted_row_instances();
std::vector<Instance> split_row_instances();
std::vector<Instance> split_block_instances();
std::vector<Instance> other_instances();

}  // namespace ladder
