// What a fuzzer is aimed at. A new target is a file tests/fuzz/NAME_target.cc with one function that returns
// a Target, declared here and listed in fuzz_readers.cc.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scalegemm::fuzz {

// What the code under test said about an input: its failure message, empty when it was accepted.
using Verdict = std::string;

struct Target {
  std::string_view name;
  std::vector<std::string> seeds;            // inputs to start from; at least one must be accepted
  std::vector<std::string_view> dictionary;  // pieces worth inserting
  // Gives the input to the code and checks what must hold for every input (require). Must not keep the view.
  std::function<Verdict(std::string_view input)> run;
};

// Ends the program with the input saved when `condition` is false: `what` must hold for every input.
void require(bool condition, std::string_view what);

using MakeTarget = Target (*)();

// Of the program; each program defines its own beside fuzz_main.cc.
std::span<const MakeTarget> targets();

// Those of fuzz_readers.
Target safetensors_target();
Target npy_target();
Target kernel_name_target();
Target scheme_target();
Target packed_target();
Target gguf_target();
Target quant_config_target();
Target layers_target();

}  // namespace scalegemm::fuzz
