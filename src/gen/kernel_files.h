// The kernel templates of kernels/, embedded in the library when it was built.
#pragma once

#include <span>

#include "base/source_file.h"

namespace scalegemm::gen {

// Every file of kernels/, ordered by path ("cpu/abi.h", "common/panels.h", ...); lives as long as the
// process.
std::span<const base::SourceFile> kernel_files();

}  // namespace scalegemm::gen
