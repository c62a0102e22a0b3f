#include "ref/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "num/convert.h"

namespace scalegemm::ref {
namespace {

using num::DType;
using spec::Activation;

constexpr double kUnit = 0x1p-24;             // unit roundoff of f32
constexpr double kSubnormalUnit = 0x1p-150;   // half the smallest f32
constexpr double kFlushed = 0x1p-126;         // what taking a subnormal f32 as zero loses at most
constexpr double kOverflow = 0x1p127;         // a power below where f32 ends
constexpr double kActivationUnits = 16;       // what an activation's evaluation may be off, in kUnit * |x|
constexpr double kDoubleSlack = 1 + 0x1p-20;  // for the oracle's own rounding errors
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Lipschitz constants, rounded up: the largest |act'(x)|. 0 marks monotone functions, whose ends are mapped.
struct ActivationRow {
  Activation activation;
  double lipschitz;
};
constexpr ActivationRow kActivations[] = {{Activation::kNone, 0},
                                          {Activation::kRelu, 0},
                                          {Activation::kGeluTanh, 1.13},
                                          {Activation::kGeluErf, 1.13},
                                          {Activation::kSilu, 1.1}};

int scale_factors(const spec::OperandSpec& operand) {
  return operand.scale ? 1 + (operand.scale->global ? 1 : 0) : 0;
}

bool has_zero_points(const spec::OperandSpec& operand) {
  return operand.scale && operand.scale->zero_type;
}

double clamp(const spec::EpilogueSpec& epilogue, double x) {
  return std::isnan(x) ? x
                       : std::clamp(x, static_cast<double>(epilogue.clamp_min),
                                    static_cast<double>(epilogue.clamp_max));
}

Element unjudged(double exact) {
  return {.exact = exact, .low = -kInfinity, .high = kInfinity, .rule = Rule::kAny};
}

// Inputs that are not finite: NaN must come out as NaN, an infinity as itself.
Element judge_special(const spec::Problem& problem, const ErrorModel& model, const Sum& sum) {
  const double v = sum.value;
  const bool smooth = kActivations[static_cast<int>(problem.epilogue.activation)].lipschitz != 0;
  // Whether a code of 0 meets an infinite scale before or after codes are added decides between NaN and
  // infinity; code*a - zero*sum(a) may be infinity minus infinity; a subnormal taken as zero times infinity
  // is NaN; GELU and SiLU of -infinity are 0 * infinity or the limit 0.
  if (sum.infinite_scale || (std::isinf(v) && (model.zero_points || model.flushes || (smooth && v < 0)))) {
    return unjudged(v);
  }
  const double exact = clamp(problem.epilogue, activate(problem.epilogue.activation, v));
  if (std::isnan(exact)) {
    return {.exact = exact, .low = exact, .high = exact, .rule = Rule::kNan};
  }
  const double rounded = round_output(problem.d, exact);
  return {.exact = exact, .low = rounded, .high = rounded, .rule = Rule::kInterval};
}

}  // namespace

ErrorModel error_model(const spec::Problem& problem, const Accumulator& accumulator) {
  const int factors = scale_factors(problem.a) + scale_factors(problem.b);
  const double k = static_cast<double>(problem.k);
  // Roundings a term meets: K - 1 additions at most, whatever the order; the product; one a scale factor;
  // conversion of an integer block sum; the zero point's product and difference; alpha, + beta*C, + bias.
  const double n = k + factors + 8;
  const double chain = n * kUnit;
  double relative = chain < 0.5 ? chain / (1 - chain) : kInfinity;
  if (accumulator.unit_roundoff > kUnit && problem.accuracy != spec::Accuracy::kExact) {
    const double length = problem.accuracy == spec::Accuracy::kFast ? k : std::min(k, 128.0);
    relative += length * accumulator.unit_roundoff;
  }
  // A bf16 dot product may take subnormal operands, products and sums as zero: three losses a term.
  const bool flushes = problem.accuracy == spec::Accuracy::kFast && problem.b.type == DType::kBf16;
  return {.relative = relative * kDoubleSlack,
          .underflow = (factors + 4) * kSubnormalUnit + (flushes ? 3 * kFlushed : 0),
          .integer = problem.d == DType::kInt32,
          .flushes = flushes,
          .zero_points = has_zero_points(problem.a) || has_zero_points(problem.b)};
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0 ? 0 : x;  // NaN stays
    case Activation::kGeluTanh: {
      const double inner = std::numbers::sqrt2 * std::numbers::inv_sqrtpi * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * inner));  // = x (1 + tanh inner) / 2 without its cancellation
    }
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

Element judge(const spec::Problem& problem, const ErrorModel& model, const Sum& sum) {
  const double v = sum.value;
  if (!std::isfinite(v)) {
    return judge_special(problem, model, sum);
  }
  if (model.integer) {
    const bool fits = sum.magnitude <= static_cast<double>(std::numeric_limits<int32_t>::max());
    return fits ? Element{.exact = v, .low = v, .high = v, .rule = Rule::kInterval} : unjudged(v);
  }
  const double error = model.relative * sum.magnitude + model.underflow * sum.peak;
  if (!(sum.peak < kOverflow && sum.magnitude + error < kOverflow)) {
    return unjudged(v);
  }
  const Activation activation = problem.epilogue.activation;
  const double lipschitz = kActivations[static_cast<int>(activation)].lipschitz;
  const double y = activate(activation, v);
  double low = activate(activation, v - error);
  double high = activate(activation, v + error);
  if (lipschitz != 0) {
    const double spread = lipschitz * error + kActivationUnits * kUnit * std::fabs(v) + kSubnormalUnit;
    low = y - spread;
    high = y + spread;
  }
  const spec::EpilogueSpec& epilogue = problem.epilogue;
  return {.exact = clamp(epilogue, y),
          .low = round_output(problem.d, clamp(epilogue, low)),
          .high = round_output(problem.d, clamp(epilogue, high)),
          .rule = Rule::kInterval};
}

double round_output(DType type, double value) {
  const bool ieee = type == DType::kF32 || type == DType::kF16 || type == DType::kBf16;
  return num::decode_double(type,
                            num::encode(type, value, ieee ? num::Overflow::kIeee : num::Overflow::kSaturate));
}

}  // namespace scalegemm::ref
