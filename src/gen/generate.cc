#include "gen/generate.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "arch/cuda_family.h"
#include "arch/legal.h"
#include "gen/kernel_files.h"

namespace scalegemm::gen {
namespace {

using base::SourceFile;
using spec::KernelSpec;
using spec::Pipeline;

// Changes when the meaning of the hashed fields changes.
constexpr std::string_view kSourceIdVersion = "scalegemm-source-1";
constexpr std::string_view kKernelIdVersion = "scalegemm-kernel-1";

// A family of CPU kernels: one template in kernels/cpu. The arguments are C++ with {b}: the SgDType of B, and
// {m}, {n}, {k}: the tile. What a template has fixed itself is asserted, so that a spec and its code cannot
// drift apart.
struct CpuTemplate {
  Pipeline pipeline;
  std::string_view header;
  std::string_view instance;
  std::string_view check;
};

constexpr std::array<CpuTemplate, 3> kCpuTemplates = {{
    {Pipeline::kF32Fma, "cpu/f32_gemm.h",
     "scalegemm_kernel::F32Gemm<{b}, scalegemm_kernel::F32Blocking<{k}>>",
     "scalegemm_kernel::kTileRows == {m} && scalegemm_kernel::kTileColumns == {n}"},
    {Pipeline::kI8Dot, "cpu/i8_gemm.h", "scalegemm_kernel::I8Gemm<{b}>",
     "scalegemm_kernel::kPanelColumns == {n}"},
    {Pipeline::kBf16Dot, "cpu/bf16_gemm.h", "scalegemm_kernel::Bf16Gemm<{b}, {k}>",
     "scalegemm_kernel::kPairTileRows == {m} && scalegemm_kernel::kPairTileColumns == {n}"},
}};

std::string fill_in(std::string_view pattern, const KernelSpec& spec) {
  return fmt::format(fmt::runtime(pattern), fmt::arg("b", abi_enumerator(*spec.b)),
                     fmt::arg("m", spec.tile.m), fmt::arg("n", spec.tile.n), fmt::arg("k", spec.tile.k));
}

Result<std::string> cpu_unit(const KernelSpec& spec, const std::string& name, const std::string& symbol) {
  const auto row = std::find_if(kCpuTemplates.begin(), kCpuTemplates.end(),
                                [&](const CpuTemplate& t) { return t.pipeline == spec.pipeline; });
  if (row == kCpuTemplates.end() || !spec.b) {
    return unsupported("kernel {}: needs a pipeline with a CPU template and a type of B, has {} and {}", name,
                       spec::to_string(spec.pipeline), spec.b ? num::name(*spec.b) : "any");
  }
  return fmt::format(
      "#include \"{}\"\n"
      "static_assert({});\n"
      "SG_CPU_KERNEL({}, \"{}\", {})\n",
      row->header, fill_in(row->check, spec), symbol, name, fill_in(row->instance, spec));
}

// ---- CUDA ----

std::string cuda_type(num::DType type) {
  switch (type) {
    case num::DType::kE4m3:
      return "kE4m3";
    case num::DType::kE5m2:
      return "kE5m2";
    case num::DType::kInt8:
      return "kInt8";
    case num::DType::kBf16:
      return "kBf16";
    case num::DType::kF16:
      return "kF16";
    case num::DType::kInt32:
      return "kInt32";
    default:
      return "kF32";
  }
}

std::string cuda_scale(const std::optional<spec::ScaleSpec>& scale) {
  if (!scale) {
    return "kNone";
  }
  if (scale->block_k == spec::kAll) {
    return scale->block_rows == spec::kAll ? "kTensor" : "kRow";
  }
  return scale->block_rows == 1 ? "kBlock1" : "kBlock128";
}

bool is_e8m0(const std::optional<spec::ScaleSpec>& scale) {
  return scale && scale->type == num::DType::kE8m0;
}

// One GemmConfig (kernels/cuda/gemm_config.cuh) and the family's macro.
std::string tma_unit(const KernelSpec& s, const std::string& symbol) {
  const bool pingpong = s.pipeline == Pipeline::kTmaPingPong;
  const std::string_view header =
      s.persistent ? "cuda/scaled_gemm_sm90.cuh" : "cuda/scaled_gemm_splitk_sm90.cuh";
  const std::string_view macro = s.persistent ? "SCALEGEMM_KERNEL_SM90" : "SCALEGEMM_KERNEL_SPLITK_SM90";
  return fmt::format(
      "#include \"{}\"\n"
      "namespace scalegemm::cuda {{\n"
      "constexpr GemmConfig kConfig = {{\n"
      "    .a = Type::{}, .b = Type::{}, .d = Type::{}, .scale_a = Scale::{}, .scale_b = Scale::{},\n"
      "    .tile_x = {}, .tile_y = {}, .consumers = {}, .pingpong = {}, .stages = {},\n"
      "    .cluster_x = {}, .cluster_y = {}, .promote_k = {}, .carried = {}, .split_k = {},\n"
      "    .swap_ab = {}, .strided_scales = {}, .e8m0_a = {}, .e8m0_b = {}, .fused = {}}};\n"
      "}}\n"
      "{}({}, scalegemm::cuda::kConfig)\n",
      header, cuda_type(*s.a), cuda_type(*s.b), cuda_type(*s.d), cuda_scale(s.a_scale), cuda_scale(s.b_scale),
      s.tile.m, s.tile.n, pingpong ? 2 : s.warps.m, pingpong, s.stages, s.cluster_m, s.cluster_n,
      arch::promote_k(s), s.pipeline == Pipeline::kTmaCarried, s.k_slices, s.swap_ab, s.strided_scales,
      is_e8m0(s.a_scale), is_e8m0(s.b_scale), s.fused, macro, symbol);
}

// One MmaConfig (kernels/cuda/mma_tile.cuh) and the family's macro.
std::string mma_unit(const KernelSpec& s, const std::string& symbol) {
  const num::DType via = s.via.value_or(*s.a);
  // Registers for two blocks a multiprocessor where the tile leaves them.
  const int blocks = s.tile.m * s.tile.n == 64 * 64 && via != num::DType::kF32 ? 2 : 1;
  return fmt::format(
      "#include \"cuda/mma_gemm.cuh\"\n"
      "namespace scalegemm::cuda {{\n"
      "constexpr MmaConfig kConfig = {{\n"
      "    .a = {}, .b = {}, .via = Via::{}, .tile_m = {}, .tile_n = {},\n"
      "    .warps_m = {}, .warps_n = {}, .warps_k = {}, .stages = {}, .ctas = {}}};\n"
      "}}\n"
      "SCALEGEMM_KERNEL_MMA({}, scalegemm::cuda::kConfig)\n",
      abi_enumerator(*s.a), abi_enumerator(*s.b), cuda_type(via), s.tile.m, s.tile.n, s.warps.m, s.warps.n,
      s.warps.k, s.stages, blocks, symbol);
}

// The name in an #include "name" line.
std::optional<std::string_view> quoted_include(std::string_view line) {
  const auto skip_spaces = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  skip_spaces();
  if (!line.starts_with('#')) {
    return std::nullopt;
  }
  line.remove_prefix(1);
  skip_spaces();
  if (!line.starts_with("include")) {
    return std::nullopt;
  }
  line.remove_prefix(std::string_view("include").size());
  skip_spaces();
  const size_t end = line.find('"', 1);
  if (!line.starts_with('"') || end == std::string_view::npos) {
    return std::nullopt;
  }
  return line.substr(1, end - 1);
}

std::vector<std::string_view> quoted_includes(std::string_view text) {
  std::vector<std::string_view> names;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (const auto name = quoted_include(text.substr(0, end))) {
      names.push_back(*name);
    }
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return names;
}

const SourceFile* find_file(std::span<const SourceFile> files, std::string_view path) {
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const SourceFile& f) { return f.path == path; });
  return found != files.end() ? &*found : nullptr;
}

// "cpu/" of "cpu/abi.h"; empty for a file at the root.
std::string_view folder_of(std::string_view path) {
  return path.substr(0, path.rfind('/') + 1);
}

base::Hash128 hash_source(const KernelSource& source) {
  base::Hasher hasher;
  hasher.add(kSourceIdVersion).add(source.name).add(source.text);
  for (const SourceFile& file : source.includes) {
    hasher.add(file.path).add(file.content);
  }
  return hasher.finish();
}

}  // namespace

std::string abi_enumerator(num::DType type) {
  std::string text = "SG_";
  for (const char c : num::name(type)) {
    text += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return text;
}

Result<std::vector<SourceFile>> included_files(std::string_view text, std::span<const SourceFile> files) {
  std::map<std::string_view, const SourceFile*> found;
  std::vector<SourceFile> to_read = {{"", text}};
  while (!to_read.empty()) {
    const SourceFile file = to_read.back();
    to_read.pop_back();
    for (const std::string_view name : quoted_includes(file.content)) {
      const SourceFile* included = find_file(files, fmt::format("{}{}", folder_of(file.path), name));
      included = included != nullptr ? included : find_file(files, name);
      if (included == nullptr) {
        return make_error(Code::kInternal, "kernel source {}: includes {}, which is not embedded",
                          file.path.empty() ? "(generated)" : file.path, name);
      }
      if (found.emplace(included->path, included).second) {
        to_read.push_back(*included);
      }
    }
  }
  std::vector<SourceFile> result;
  for (const auto& [path, file] : found) {
    result.push_back(*file);
  }
  return result;
}

Result<KernelSource> make_unit(std::string name, std::string symbol, std::string text) {
  KernelSource source;
  source.name = std::move(name);
  source.symbol = std::move(symbol);
  source.text = std::move(text);
  SCALEGEMM_ASSIGN_OR_RETURN(source.includes, included_files(source.text, kernel_files()));
  source.source_id = hash_source(source);
  return source;
}

Result<KernelSource> generate(const KernelSpec& spec) {
  SCALEGEMM_RETURN_IF_ERROR(arch::legal(spec));
  const std::string name = spec::name(spec);
  const std::string symbol = spec::symbol_name(spec);
  if (spec::is_cuda(spec.target)) {
    const bool tma = spec.pipeline != Pipeline::kMma;
    SCALEGEMM_ASSIGN_OR_RETURN(
        KernelSource source, make_unit(name, symbol, tma ? tma_unit(spec, symbol) : mma_unit(spec, symbol)));
    source.instruction = tma ? "wgmma.mma_async" : "";
    return source;
  }
  if (spec::is_cpu(spec.target)) {
    SCALEGEMM_ASSIGN_OR_RETURN(std::string text, cpu_unit(spec, name, symbol));
    return make_unit(name, symbol, std::move(text));
  }
  return unsupported("kernel {}: needs a CPU or CUDA target, as others have no generator here; is {}", name,
                     spec::target_name(spec.target));
}

base::Hash128 kernel_id(const base::Hash128& source_id, std::string_view compiler_identity,
                        std::span<const std::string> flags) {
  base::Hasher hasher;
  hasher.add(kKernelIdVersion).add(source_id.hex()).add(compiler_identity);
  for (const std::string& flag : flags) {
    hasher.add(flag);
  }
  return hasher.finish();
}

}  // namespace scalegemm::gen
