// Kernel names and schemes: the two small languages that people type.
#include "fuzz/target.h"
#include "spec/kernel_spec.h"
#include "spec/scheme.h"

namespace scalegemm::fuzz {
namespace {

Verdict verdict_of(const Status& status) {
  if (status.ok()) {
    return {};
  }
  require(status.code() == Code::kInvalidArgument || status.code() == Code::kUnsupported,
          "a refusal is an invalid argument or unsupported");
  require(!status.message().empty(), "a refusal has a message");
  return status.message();
}

// A name that parses gives a well-formed spec whose own name parses to the same spec.
Verdict run_name(std::string_view input) {
  const Result<spec::KernelSpec> parsed = spec::parse(input);
  if (!parsed.ok()) {
    return verdict_of(parsed.status());
  }
  require(spec::check(*parsed).ok(), "a parsed spec is well formed");
  const std::string name = spec::name(*parsed);
  require(name.size() <= spec::kMaxKernelName, "a name is short");
  const Result<spec::KernelSpec> again = spec::parse(name);
  require(again.ok() && *again == *parsed, "parse(name(spec)) == spec");
  return {};
}

// The canonical text of a scheme parses to the same scheme.
Verdict run_scheme(std::string_view input) {
  const Result<spec::Scheme> parsed = spec::parse_scheme(input);
  if (!parsed.ok()) {
    return verdict_of(parsed.status());
  }
  const Result<spec::Scheme> again = spec::parse_scheme(parsed->text);
  require(again.ok() && *again == *parsed, "parse_scheme(scheme.text) == scheme");
  return {};
}

// Specs with names of different forms, changed from the default.
std::vector<std::string> name_seeds() {
  spec::KernelSpec plain;
  plain.tile = plain.instruction = {14, 32, 1};
  plain.warps = {1, 1, 1};
  plain.packed = spec::default_packed(plain.pipeline, plain.b);
  std::vector<std::string> seeds;
  if (spec::check(plain).ok()) {
    seeds.push_back(spec::name(plain));
  }
  seeds.emplace_back("gemm_rowcolquant_fp8_rcr_compv3_cshuffle_intrawave_16x64x256_1x4x1_16x16x128_gfx950");
  return seeds;
}

}  // namespace

Target kernel_name_target() {
  return {
      .name = "kernel_name",
      .seeds = name_seeds(),
      .dictionary = {"gemm_",       "_rcr",       "_rrr",       "_ccr",       "_crr",    "rowcolquant",
                     "tensorquant", "abquant",    "aquant",     "bquant",     "mxquant", "nvfp4quant",
                     "none",        "any",        "_fp8",       "_bf8",       "_bf16",   "_e4m3",
                     "_e2m1",       "_int8",      "_int4",      "_compv3",    "_compv4", "_mem",
                     "_cshuffle",   "_default",   "_intrawave", "_interwave", "_gfx942", "_gfx950",
                     "_sm90a",      "_x86-64-v3", "16x64x256",  "1x1x1",      "0x0x0",   "99999999999x1x1",
                     "_",           "-",          "x"},
      .run = run_name,
  };
}

Target scheme_target() {
  std::vector<std::string> seeds;
  for (const spec::SchemeInfo& row : spec::known_schemes()) {
    seeds.emplace_back(row.text);
  }
  return {
      .name = "scheme",
      .seeds = std::move(seeds),
      .dictionary = {":",
                     ",",
                     "=",
                     "a=",
                     "b=",
                     "g=",
                     "bn=",
                     "scale=",
                     "zero=",
                     "ascale=",
                     "e4m3",
                     "e5m2",
                     "e2m1",
                     "int8",
                     "int4",
                     "uint4",
                     "bf16",
                     "f16",
                     "f32",
                     "e8m0",
                     "all",
                     "none",
                     "row",
                     "16",
                     "32",
                     "128",
                     "0",
                     "-1",
                     "9223372036854775808"},
      .run = run_scheme,
  };
}

}  // namespace scalegemm::fuzz
