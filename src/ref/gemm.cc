#include "ref/gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>

#include "num/bulk.h"
#include "num/convert.h"
#include "ref/bound.h"

namespace scalegemm::ref {
namespace {

using num::DType;

constexpr size_t kRowTile = 64;  // rows of A held decoded at a time

double load(DType type, const void* data, int64_t index) {
  return num::decode_double(type, num::load_code(type, static_cast<const std::byte*>(data), index));
}

// Eight chains, so that the compiler may use vector registers; the order of sums is of no interest in double.
double dot(std::span<const double> a, std::span<const double> b) {
  constexpr size_t kChains = 8;
  std::array<double, kChains> sums{};
  size_t k = 0;
  for (; k + kChains <= a.size(); k += kChains) {
    for (size_t i = 0; i < kChains; ++i) {
      sums[i] += a[k + i] * b[k + i];
    }
  }
  for (; k < a.size(); ++k) {
    sums[0] += a[k] * b[k];
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

Status check_sample(const char* name, const std::vector<int64_t>& indices, int64_t extent) {
  if (indices.empty()) {
    return invalid_argument("sample {}: needed at least one; given none", name);
  }
  for (int64_t index : indices) {
    if (index < 0 || index >= extent) {
      return invalid_argument("sample {}: needed 0 to {}; given {}", name, extent - 1, index);
    }
  }
  return ok_status();
}

bool reads_c(const spec::Problem& problem, const GemmData& data) {
  return problem.epilogue.c.has_value() && data.beta != 0;
}

Status check_arguments(const spec::Problem& problem, const GemmData& data, const Sample& sample) {
  SCALEGEMM_RETURN_IF_ERROR(spec::validate(problem));
  SCALEGEMM_RETURN_IF_ERROR(check(problem.a, data.a, "A"));
  SCALEGEMM_RETURN_IF_ERROR(check(problem.b, data.b, "B"));
  if (reads_c(problem, data) && data.c.data == nullptr) {
    return invalid_argument("C: needed a pointer, as beta is {}; given null", data.beta);
  }
  if (problem.epilogue.bias && data.bias == nullptr) {
    return invalid_argument("bias: needed a pointer; given null");
  }
  SCALEGEMM_RETURN_IF_ERROR(check_sample("rows", sample.rows, problem.m));
  return check_sample("columns", sample.cols, problem.n);
}

// alpha, beta*C and bias around a dot product and the sum of its weights.
Sum add_epilogue(const spec::Problem& problem, const GemmData& data, int64_t m, int64_t n, Sum sum) {
  const double alpha = static_cast<double>(data.alpha);
  sum.value *= alpha;
  sum.magnitude *= std::fabs(alpha);
  sum.peak *= std::max(1.0, std::fabs(alpha));
  if (reads_c(problem, data)) {
    const double c = load(*problem.epilogue.c, data.c.data, m * data.c.stride_m + n * data.c.stride_n);
    const double term = static_cast<double>(data.beta) * c;
    sum.value += term;
    sum.magnitude += std::fabs(term);
  }
  if (problem.epilogue.bias) {
    const double bias = load(*problem.epilogue.bias, data.bias, n);
    sum.value += bias;
    sum.magnitude += std::fabs(bias);
  }
  return sum;
}

// `most` of the indices below `extent`, sorted: two from both ends, the rest random.
std::vector<int64_t> choose(int64_t extent, int64_t most, std::mt19937_64& random) {
  std::vector<int64_t> all(static_cast<size_t>(extent));
  std::iota(all.begin(), all.end(), int64_t{0});
  if (most >= extent) {
    return all;
  }
  std::vector<int64_t> chosen;
  for (int64_t edge : {int64_t{0}, extent - 1, int64_t{1}, extent - 2}) {
    if (static_cast<int64_t>(chosen.size()) < most) {
      chosen.push_back(edge);  // distinct, as most < extent
    }
  }
  if (most > 4) {
    std::sample(all.begin() + 2, all.end() - 2, std::back_inserter(chosen), most - 4, random);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

bool same_number(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// |got - exact| over the larger side of the interval; 0 or infinity for an interval of one exact point.
double ratio(const Element& e, double got) {
  const double error = std::fabs(got - e.exact);
  const double bound = std::max(e.high - e.exact, e.exact - e.low);
  if (got == e.exact || std::isinf(bound)) {
    return 0;
  }
  return bound > 0 ? error / bound : std::numeric_limits<double>::infinity();
}

// The least magnitude that a code counts as in an alignment.
double least_weight(const spec::OperandSpec& operand, const Accumulator& accumulator) {
  if (!accumulator.aligns_by_exponent) {
    return 0;
  }
  switch (operand.type) {
    case num::DType::kE4m3:
      return 0x1p-6;
    case num::DType::kE5m2:
    case num::DType::kF16:
      return 0x1p-14;
    default:
      return 0;  // bf16: 2^-126; integers: exact
  }
}

}  // namespace

Sample whole(int64_t m, int64_t n) {
  std::mt19937_64 unused;
  return {.rows = choose(m, m, unused), .cols = choose(n, n, unused)};
}

Sample choose_sample(int64_t m, int64_t n, SampleSize size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Sample sample;
  sample.rows = choose(m, size.rows, random);
  sample.cols = choose(n, size.cols, random);
  return sample;
}

Result<Reference> reference(const spec::Problem& problem, const GemmData& data, const Sample& sample,
                            const Accumulator& accumulator) {
  SCALEGEMM_RETURN_IF_ERROR(check_arguments(problem, data, sample));
  const ErrorModel model = error_model(problem, accumulator);
  const size_t cols = sample.cols.size();
  Reference result{
      .sample = sample, .d = problem.d, .elements = std::vector<Element>(sample.rows.size() * cols)};
  for (size_t first = 0; first < sample.rows.size(); first += kRowTile) {
    const auto rows = std::span(sample.rows).subspan(first, std::min(kRowTile, sample.rows.size() - first));
    const Decoded a =
        decode_rows(problem.a, data.a, problem.m, problem.k, rows, least_weight(problem.a, accumulator));
    for (size_t j = 0; j < cols; ++j) {
      const Decoded b =
          decode_rows(problem.b, data.b, problem.n, problem.k, std::span(sample.cols).subspan(j, 1),
                      least_weight(problem.b, accumulator));
      for (size_t i = 0; i < rows.size(); ++i) {
        const Sum products{.value = dot(a.value_row(i), b.value_row(0)),
                           .magnitude = dot(a.weight_row(i), b.weight_row(0)),
                           .peak = a.peak[i] * b.peak[0] * static_cast<double>(problem.k),
                           .infinite_scale = a.infinite_scale[i] || b.infinite_scale[0]};
        result.elements[(first + i) * cols + j] =
            judge(problem, model, add_epilogue(problem, data, rows[i], sample.cols[j], products));
      }
    }
  }
  return result;
}

Result<Reference> reference(const spec::Problem& problem, const GemmData& data, const Sample& sample) {
  return reference(problem, data, sample, Accumulator{});
}

Comparison compare(const Reference& reference, const MatrixData& d, Demand demand) {
  Comparison result;
  const Sample& sample = reference.sample;
  for (size_t i = 0; i < sample.rows.size(); ++i) {
    for (size_t j = 0; j < sample.cols.size(); ++j) {
      const int64_t m = sample.rows[i];
      const int64_t n = sample.cols[j];
      const Element& e = reference.elements[i * sample.cols.size() + j];
      const double got = load(reference.d, d.data, m * d.stride_m + n * d.stride_n);
      ++result.compared;
      if (e.rule == Rule::kAny) {
        ++result.unjudged;
        continue;
      }
      const double expected = round_output(reference.d, e.exact);
      bool right =
          e.rule == Rule::kNan ? std::isnan(got) : e.low <= got && got <= e.high;  // NaN is not in between
      double bound = std::max(e.high - e.exact, e.exact - e.low);
      if (demand == Demand::kExact) {
        right = same_number(got, expected);
        bound = 0;
      } else if (e.rule == Rule::kInterval) {
        result.worst_ratio = std::max(
            result.worst_ratio, std::isnan(got) ? std::numeric_limits<double>::infinity() : ratio(e, got));
      }
      if (!right) {
        ++result.wrong;
        if (!result.first) {
          result.first = WrongElement{.m = m, .n = n, .expected = expected, .got = got, .bound = bound};
        }
      }
    }
  }
  return result;
}

}  // namespace scalegemm::ref
