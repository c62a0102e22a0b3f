// Compiles a few kernels the way the library does at run time: NVRTC, the files of kernels/cuda and
// kernels/common as in-memory headers, no include path.
//   g++ -std=c++20 -I/usr/local/cuda/include nvrtc_check.cc -o nvrtc_check -L/usr/local/cuda/lib64 -lnvrtc &&
//   ./nvrtc_check ../../../kernels
// Prints seconds and cubin bytes a kernel; fails on any compiler note about wgmma or setmaxnreg.
#include <nvrtc.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  std::vector<std::string> names, texts;
  const std::filesystem::path kernels_folder = argc > 1 ? argv[1] : ".";
  for (const char* folder : {"cuda", "common"})
    for (const auto& entry : std::filesystem::directory_iterator(kernels_folder / folder)) {
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      names.push_back(std::string(folder) + "/" + entry.path().filename().string());
      texts.push_back(text.str());
    }
  std::vector<const char*> name_pointers, text_pointers;
  for (size_t i = 0; i < names.size(); ++i)
    name_pointers.push_back(names[i].c_str()), text_pointers.push_back(texts[i].c_str());
  const std::string head =
      "#include \"cuda/scaled_gemm_splitk_sm90.cuh\"\nusing namespace scalegemm::cuda;\nconstexpr GemmConfig "
      "kConfig{";
  const std::string kernels[][2] = {
      {".scale_a = Scale::kRow, .scale_b = Scale::kRow, .tile_y = 176, .pingpong = true, .stages = 5",
       "SCALEGEMM_KERNEL_SM90"},
      {".scale_a = Scale::kBlock1, .scale_b = Scale::kBlock128, .tile_x = 256, .tile_y = 128, .promote_k = "
       "128",
       "SCALEGEMM_KERNEL_SM90"},
      {".scale_a = Scale::kBlock1, .scale_b = Scale::kBlock128, .tile_y = 128, .stages = 6, .promote_k = "
       "128, .carried = true",
       "SCALEGEMM_KERNEL_SM90"},
      {".scale_a = Scale::kRow, .scale_b = Scale::kRow, .tile_x = 64, .tile_y = 16, .consumers = 1, .stages "
       "= 10, .split_k = 4, .swap_ab = true",
       "SCALEGEMM_KERNEL_SPLITK_SM90"},
  };
  int bad = 0;
  for (const auto& [config, macro] : kernels) {
    const std::string source = head + config + "};\n" + macro + "(kernel, kConfig)\n";
    const auto start = std::chrono::steady_clock::now();
    nvrtcProgram program;
    nvrtcCreateProgram(&program, source.c_str(), "kernel.cu", static_cast<int>(names.size()),
                       text_pointers.data(), name_pointers.data());
    const char* options[] = {"-arch=sm_90a", "-std=c++20", "-default-device", "--ptxas-options=-v"};
    const nvrtcResult result = nvrtcCompileProgram(program, 4, options);
    size_t log_bytes = 0, cubin_bytes = 0;
    nvrtcGetProgramLogSize(program, &log_bytes);
    std::string log(log_bytes, ' ');
    nvrtcGetProgramLog(program, log.data());
    nvrtcGetCUBINSize(program, &cubin_bytes);
    const bool notes =
        log.find("C7508") != log.npos || log.find("C7510") != log.npos || log.find("C7514") != log.npos;
    std::printf("%.2f s  %6zu bytes  %s  %s\n",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), cubin_bytes,
                result == NVRTC_SUCCESS && !notes ? "ok" : "FAILED", config.c_str());
    if (result != NVRTC_SUCCESS || notes)
      ++bad, std::printf("%.2000s\n", log.c_str());
    nvrtcDestroyProgram(&program);
  }
  return bad != 0;
}
