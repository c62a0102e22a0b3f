// gen: KernelSpec -> one translation unit. Pure: no file, no process, no device, no clock.
//
// A unit is a few lines: the include of a kernel family's header and one instantiation of its template. The
// headers are the kernel templates embedded in the library (gen/kernel_files.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/source_file.h"
#include "base/status.h"
#include "spec/kernel_spec.h"

namespace scalegemm::gen {

struct KernelSource {
  std::string name;    // spec::name of the spec
  std::string symbol;  // what the unit exports: on CPUs `extern "C" const SgCpuKernel* symbol(void)`, on CUDA
                       // the entry point and symbol_info (kernels/cuda/abi.h)
  std::string text;    // the unit
  std::vector<base::SourceFile> includes;  // every template it includes, directly or not, ordered by path
  base::Hash128 source_id;                 // over name, text and the paths and contents of the includes
  std::string instruction;  // what its machine code is nothing without ("wgmma.mma_async"); empty: nothing
};

// Names, includes and identity of a unit whose text is given: what all units of the library are made with,
// also those of CUDA kernels that are no GEMM (gen/cuda_units.h). kInternal when it includes a file that is
// not embedded.
Result<KernelSource> make_unit(std::string name, std::string symbol, std::string text);

// "e4m3_fnuz" -> "SG_E4M3_FNUZ", the enumerator of kernels/common/gemm.h.
std::string abi_enumerator(num::DType type);

// kUnsupported, with the rule, for a spec that is not legal on its target (arch::legal) or whose family has
// no generator here; kInternal when an embedded template includes a file that is not embedded.
Result<KernelSource> generate(const spec::KernelSpec& spec);

// The identity of a compiled kernel: its source with the compiler's identity and flags. Contains no path, so
// equal ids mean interchangeable code, on any machine.
base::Hash128 kernel_id(const base::Hash128& source_id, std::string_view compiler_identity,
                        std::span<const std::string> flags);

// The files among `files` that `text` includes with quotes, directly or not, ordered by path. An #include is
// looked up beside the including file first, then from the root, as a compiler does with -I<root>. Conditions
// are not evaluated: a file under #if counts, which can only make an id more careful.
Result<std::vector<base::SourceFile>> included_files(std::string_view text,
                                                     std::span<const base::SourceFile> files);

}  // namespace scalegemm::gen
