// A case in memory: operands, output and workspace as the library gets them, every buffer guarded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/buffer.h"
#include "harness/case.h"
#include "harness/data.h"
#include "harness/mirror.h"
#include "scalegemm/scalegemm.hpp"

namespace scalegemm::harness {

// What a plan is asked for besides the problem.
struct PlanChoice {
  int32_t threads = 0;  // 0: the runtime's
  std::string kernel;   // empty: the dispatcher's choice
  std::string device = "cpu";
};

Plan make_plan(const Runtime& runtime, const scalegemm_problem& problem, const PlanChoice& choice);

// Operands of a case without a library object: what the oracle and the library both read.
struct CaseData {
  Case c;
  scalegemm_problem problem{};
  OperandData a;
  OperandData b;
  std::vector<uint8_t> c_values;  // contiguous batch x M x N in the type of C; empty without C
  std::vector<uint8_t> bias;      // N values in the type of the bias
  float alpha = 1;                // of the run: an exact fill chooses its own
  float beta = 0;
};

CaseData make_case_data(const Case& c);

// The accumulator that products meet (ref::Accumulator).
struct Accumulation {
  double unit_roundoff = 0x1p-24;
  bool aligns_by_exponent = false;
};

// Buffers laid out as the case says, B packed where it asks for it. Movable; one run at a time.
class Instance {
 public:
  // `poison` fills guard bands, room between rows, and D before a run.
  Instance(const Runtime& runtime, std::shared_ptr<CaseData> data, const PlanChoice& choice, uint8_t poison);

  // Fills D with poison and runs once.
  void run();
  // Runs without touching D first, as a caller does: for timing.
  void run_again(void* stream = nullptr);
  // Fills D with poison.
  void clear_output();

  // D as contiguous batch x M x N elements.
  std::vector<uint8_t> output();
  // Empty when guards and the room between rows of D are whole and the inputs are unchanged, else what is
  // wrong.
  std::string check_memory();

  const CaseData& data() const { return *data_; }
  // How the kernel sums products before fp32.
  Accumulation accumulation() const;
  // What the device sees: for peers that are timed on the same operands.
  const scalegemm_run_args& arguments() const { return args_; }
  void* output_memory() const { return args_.d.data; }
  std::string kernel() const { return plan_.kernel(); }
  // Bytes that a run must read and write at least: A, B and scales as given to it, C, bias and D.
  uint64_t traffic_bytes() const;
  uint64_t packed_bytes() const { return packed_ ? packed_.info().bytes : 0; }

 private:
  // What lies between the last element of the last row and the end of its stride.
  enum class Padding { kPoison, kReadable };
  scalegemm_tensor place(const std::string& name, const std::vector<uint8_t>& source,
                         const scalegemm_tensor& shape, Padding padding = Padding::kPoison);
  scalegemm_tensor place_operand(const std::string& name, OperandData& operand);
  void drop_inputs(size_t first);
  std::string check_inputs(size_t first) const;

  std::shared_ptr<CaseData> data_;
  uint8_t poison_;
  Plan plan_;
  Packed packed_;
  scalegemm_run_args args_ = make_run_args();
  std::vector<Buffer> inputs_;
  std::vector<uint64_t> input_sums_;  // checksum of each input buffer
  std::string pack_problem_;          // what packing did to its inputs; empty: nothing
  Buffer d_;
  Buffer workspace_;
  // On a GPU: the twins of inputs_, d_ and workspace_, and the global factors.
  Gpu gpu_;
  std::vector<Mirror> input_mirrors_;
  Mirror d_mirror_;
  Mirror workspace_mirror_;
  bool downloaded_ = true;

  uint8_t* device_view(const Buffer& buffer, Mirror* mirror);
  const float* place_global(const std::string& name, std::optional<float>& value);
  void download();
};

}  // namespace scalegemm::harness
