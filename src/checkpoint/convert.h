// A whole model to another form, layer by layer: quantised, or carried over as it is into the tensors of the
// compressed-tensors format.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/detect.h"
#include "quant/quantize.h"
#include "spec/scheme.h"

namespace scalegemm::checkpoint {

struct ConvertOptions {
  // What weights become: its B. Nothing: each keeps its codes.
  std::optional<spec::Scheme> scheme = std::nullopt;
  // Names of dense layers that stay as they are; * stands for any text.
  std::vector<std::string> ignore = {};
  quant::ScaleRounding scale_rounding = quant::ScaleRounding::kFloor;
  int threads = 1;
};

enum class Conversion : uint8_t {
  kCopied,     // byte for byte
  kCarried,    // the same codes and scales in other tensors
  kQuantised,  // new codes
};

// One matrix, or one tensor that is no weight.
struct Converted {
  std::string name;
  std::string from;  // "GPTQ v1", "plain"; "": no weight
  std::string to;    // the format's word
  Conversion how = Conversion::kCopied;
  // What was written, read back, decodes to the very numbers that were to be written: of a carried weight
  // those of the source, of a quantised one those of the quantiser.
  bool exact = true;
  double sqnr_db = 0;    // of a quantised weight against its source; infinite where equal
  uint64_t bytes = 0;    // written
  bool resumed = false;  // an earlier call had written it
};

// Called after each, under a lock; false stops the conversion, which a later call takes up again.
using ConvertReport = std::function<bool(const Converted&, int64_t done, int64_t total)>;

// Writes `output`: a file where it ends in ".safetensors", its quantization_config in the metadata; else a
// folder with model.safetensors, config.json and the other files of the source's folder. Everything is known
// to fit before anything is written. Memory: the matrices at hand, one a thread, as f32.
//
// What an interrupted call has written stays in `output`.partial, and the next call with the same input and
// options goes on from there (base::OutputFile::resume). Code::kUnsupported for a layer that cannot be read
// or does not fit the form, with its name; kInvalidArgument for an output in place of the input. False:
// stopped.
Result<bool> convert(const Checkpoint& checkpoint, const std::string& output, const ConvertOptions& options,
                     const ConvertReport& report);

}  // namespace scalegemm::checkpoint
