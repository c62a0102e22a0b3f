#include "harness/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "num/convert.h"
#include "ref/gemm.h"

namespace scalegemm::harness {
namespace {

std::optional<num::DType> optional_type(int32_t dtype) {
  return dtype == SCALEGEMM_DTYPE_NONE ? std::nullopt : std::optional(dtype_of(dtype));
}

spec::OperandSpec operand_spec(const scalegemm_operand_desc& desc) {
  spec::OperandSpec operand;
  operand.type = dtype_of(desc.dtype);
  operand.layout = static_cast<spec::Layout>(desc.layout);
  if (desc.scale.dtype != SCALEGEMM_DTYPE_NONE) {
    operand.scale = spec::ScaleSpec{.type = dtype_of(desc.scale.dtype),
                                    .block_rows = desc.scale.block_rows,
                                    .block_k = desc.scale.block_k,
                                    .zero_type = optional_type(desc.scale.zero_dtype),
                                    .global = desc.scale.has_global != 0};
  }
  return operand;
}

spec::Problem problem_spec(const scalegemm_problem& p) {
  spec::Problem problem;
  problem.m = p.m;
  problem.n = p.n;
  problem.k = p.k;
  problem.a = operand_spec(p.a);
  problem.b = operand_spec(p.b);
  problem.d = dtype_of(p.d_dtype);
  problem.epilogue.bias = optional_type(p.bias_dtype);
  problem.epilogue.c = optional_type(p.c_dtype);
  problem.epilogue.activation = static_cast<spec::Activation>(p.activation);
  if (p.has_clamp != 0) {
    problem.epilogue.clamp_min = p.clamp_min;
    problem.epilogue.clamp_max = p.clamp_max;
  }
  problem.accuracy = static_cast<spec::Accuracy>(p.accuracy);
  return problem;
}

// Part `batch` of a contiguous vector of equal parts; null when it is empty.
const uint8_t* part(const std::vector<uint8_t>& memory, int64_t batch, int64_t batches) {
  return memory.empty() ? nullptr : memory.data() + static_cast<int64_t>(memory.size()) / batches * batch;
}

ref::OperandData operand_data(const OperandData& data, int64_t batch) {
  const int64_t row = code_bytes(data.desc.dtype, 1, data.k);
  const int64_t element = std::max<int64_t>(1, num::info(dtype_of(data.desc.dtype)).bits / 8);
  return {.codes = part(data.codes, batch, data.batch),
          .stride_r = row / element,
          .stride_k = 1,
          .scales = {part(data.scales, batch, data.batch), data.grid_k, 1},
          .zeros = {part(data.zeros, batch, data.batch), data.grid_k, 1},
          .global = data.global ? &*data.global : nullptr};
}

}  // namespace

Probe choose_probe(const scalegemm_problem& p, int64_t most_products, uint64_t seed) {
  const double elements = static_cast<double>(p.m) * static_cast<double>(p.n);
  const double room =
      static_cast<double>(most_products) / (static_cast<double>(p.k) * static_cast<double>(p.batch));
  if (elements <= room) {
    return {p.m, p.n, seed};
  }
  // Few rows, many columns: kernels differ along N more often than along M.
  constexpr double kFewest = 4;
  const double rows =
      std::clamp(std::sqrt(room / 4), kFewest, static_cast<double>(std::max<int64_t>(p.m, 4)));
  const double cols = std::max(room / rows, kFewest);
  return {std::min(static_cast<int64_t>(rows), p.m), std::min(static_cast<int64_t>(cols), p.n), seed};
}

Verdict judge(const CaseData& data, const std::vector<uint8_t>& output, const Probe& probe,
              const Accumulation& accumulation) {
  const scalegemm_problem& p = data.problem;
  const spec::Problem problem = problem_spec(p);
  const ref::Sample sample =
      ref::choose_sample(p.m, p.n, {.rows = probe.rows, .cols = probe.cols}, probe.seed);
  const ref::Demand demand = data.c.fill == Fill::kExact ? ref::Demand::kExact : ref::Demand::kBound;
  Verdict verdict;
  for (int64_t batch = 0; batch < p.batch && !verdict.wrong; ++batch) {
    ref::GemmData gemm{.a = operand_data(data.a, batch), .b = operand_data(data.b, batch)};
    gemm.c = {part(data.c_values, batch, p.batch), p.n, 1};
    gemm.bias = data.bias.empty() ? nullptr : data.bias.data();
    gemm.alpha = data.alpha;
    gemm.beta = data.beta;
    const Result<ref::Reference> reference =
        ref::reference(problem, gemm, sample,
                       ref::Accumulator{.unit_roundoff = accumulation.unit_roundoff,
                                        .aligns_by_exponent = accumulation.aligns_by_exponent});
    if (!reference.ok()) {
      throw Error(SCALEGEMM_INTERNAL, "oracle: " + reference.status().message());
    }
    const ref::Comparison comparison =
        ref::compare(*reference, {part(output, batch, p.batch), p.n, 1}, demand);
    verdict.compared += comparison.compared;
    verdict.unjudged += comparison.unjudged;
    verdict.worst_ratio = std::max(verdict.worst_ratio, comparison.worst_ratio);
    if (!comparison.ok()) {
      const ref::WrongElement first = comparison.first.value_or(ref::WrongElement{});
      verdict.wrong = WrongElement{batch, first.m, first.n, first.expected, first.got, first.bound};
    }
  }
  return verdict;
}

Errors errors_of(const CaseData& data, const std::vector<uint8_t>& output, const Probe& probe) {
  const spec::Problem problem = problem_spec(data.problem);
  const ref::Sample sample =
      ref::choose_sample(problem.m, problem.n, {.rows = probe.rows, .cols = probe.cols}, probe.seed);
  const ref::Decoded a =
      ref::decode_rows(problem.a, operand_data(data.a, 0), problem.m, problem.k, sample.rows);
  const ref::Decoded b =
      ref::decode_rows(problem.b, operand_data(data.b, 0), problem.n, problem.k, sample.cols);
  Errors errors;
  double squares = 0;
  for (size_t m = 0; m < sample.rows.size(); ++m) {
    for (size_t n = 0; n < sample.cols.size(); ++n) {
      const auto x = a.value_row(m);
      const auto y = b.value_row(n);
      double exact = 0;
      double magnitude = 0;
      for (size_t k = 0; k < x.size(); ++k) {
        exact += x[k] * y[k];
        magnitude += std::abs(x[k] * y[k]);
      }
      const double got =
          output_value(output, data.problem.d_dtype, sample.rows[m] * problem.n + sample.cols[n]);
      const double error = magnitude > 0 ? std::abs(got - exact) / magnitude : std::abs(got - exact);
      errors.max = std::max(errors.max, error);
      squares += error * error;
      ++errors.elements;
      if (error > 0 && std::isfinite(error)) {
        ++errors.histogram[std::ilogb(error)];
      }
    }
  }
  errors.rms = std::sqrt(squares / static_cast<double>(errors.elements));
  return errors;
}

double largest_magnitude_sum(const CaseData& data) {
  const spec::Problem problem = problem_spec(data.problem);
  const ref::Sample all = ref::whole(problem.m, problem.n);
  const ref::Decoded a = ref::decode_rows(problem.a, operand_data(data.a, 0), problem.m, problem.k, all.rows);
  const ref::Decoded b = ref::decode_rows(problem.b, operand_data(data.b, 0), problem.n, problem.k, all.cols);
  double largest = 0;
  for (size_t m = 0; m < all.rows.size(); ++m) {
    for (size_t n = 0; n < all.cols.size(); ++n) {
      const auto x = a.weight_row(m);
      const auto y = b.weight_row(n);
      largest = std::max(largest, std::inner_product(x.begin(), x.end(), y.begin(), 0.0));
    }
  }
  return largest;
}

double output_value(const std::vector<uint8_t>& output, int32_t dtype, int64_t index) {
  const num::DType type = dtype_of(dtype);
  const int64_t element = num::info(type).bits / 8;
  uint32_t code = 0;
  std::memcpy(&code, output.data() + index * element, static_cast<size_t>(element));
  return num::decode_double(type, code);
}

}  // namespace scalegemm::harness
