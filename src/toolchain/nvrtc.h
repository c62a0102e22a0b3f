// NVRTC: CUDA C++ -> cubin, by NVIDIA's runtime compilation library. Needs no GPU and no driver.
//
// Code that keeps registers in memory, serialises wgmma or ignores setmaxnreg is slow for no visible reason:
// the assembler's notes of it (spills, C7510, C7514, C7508) fail the compilation.
//
// The library is opened at run time; its few functions are declared in nvrtc.cc from the public
// documentation, so that building scalegemm needs no CUDA toolkit. Headers are passed in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "toolchain/compiler.h"

namespace scalegemm::toolchain {

// Looks for libnvrtc.so.13, then .12: $SCALEGEMM_NVRTC (a file; nothing else is tried then), `folders`, the
// loader's own path, $CUDA_HOME and /usr/local/cuda, and the Python wheels of $VIRTUAL_ENV and the user.
// kNotBuilt when there is none; the message says what to install. A wheel in any other place is found when
// its folder (nvidia/cuda_nvrtc/lib or nvidia/cu13/lib) is passed in `folders`.
Result<std::unique_ptr<Compiler>> find_nvrtc(const std::vector<std::string>& folders = {});

}  // namespace scalegemm::toolchain
