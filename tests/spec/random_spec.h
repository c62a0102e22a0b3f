// Random well-formed kernel specs and problems for property tests.
#pragma once

#include <cstdint>
#include <random>

#include "spec/kernel_spec.h"

namespace scalegemm::spec::testing {

class RandomSpec {
 public:
  explicit RandomSpec(uint64_t seed) : engine_(seed) {}

  // In [low, high].
  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  bool coin() { return number(0, 1) == 1; }

  template <class T>
  T enumerator(T last) {
    return static_cast<T>(number(0, static_cast<int64_t>(last)));
  }

  DType dtype() { return static_cast<DType>(number(1, 13)); }

  std::optional<DType> maybe_dtype() { return coin() ? std::optional<DType>(dtype()) : std::nullopt; }

  // Small numbers often, the largest legal one sometimes.
  int size() { return static_cast<int>(coin() ? number(1, 9) : number(1, 65535)); }

  Dims dims() { return {size(), size(), size()}; }

  int64_t block() {
    const int64_t usual[] = {kAll, 1, 16, 32, 64, 128, 256};
    return coin() ? usual[number(0, 6)] : size();
  }

  ScaleSpec scale() {
    ScaleSpec s;
    s.type = dtype();
    s.block_rows = block();
    s.block_k = block();
    s.zero_type = maybe_dtype();
    s.global = coin();
    return s;
  }

  std::optional<ScaleSpec> maybe_scale() {
    switch (number(0, 4)) {
      case 0:
        return std::nullopt;
      case 1:
        return ScaleSpec{DType::kF32, kAll, kAll, std::nullopt, false};
      case 2:
        return ScaleSpec{DType::kE8m0, 1, 32, std::nullopt, false};
      case 3:
        return ScaleSpec{DType::kE4m3, 1, 16, std::nullopt, true};
      default:
        return scale();
    }
  }

  KernelSpec spec() {
    KernelSpec s;
    s.target = enumerator(Target::kGfx950);
    s.a = maybe_dtype();
    s.b = maybe_dtype();
    s.d = maybe_dtype();
    s.scales = coin() ? Scales::kFixed : Scales::kRunTime;
    if (s.scales == Scales::kFixed) {
      s.a_scale = maybe_scale();
      s.b_scale = coin() ? s.a_scale : maybe_scale();
    }
    if (coin()) {
      s.layouts = Layouts{enumerator(Layout::kCol), enumerator(Layout::kCol)};
    }
    s.pipeline = enumerator(Pipeline::kMicroscale);
    s.epilogue = enumerator(EpilogueKind::kTma);
    s.scheduler = enumerator(Scheduler::kInterwave);
    s.tile = dims();
    s.warps = dims();
    s.instruction = dims();
    s.via = maybe_dtype();
    s.packed = coin() ? default_packed(s.pipeline, s.b) : enumerator(Packing::kPanelK4x16);
    s.stages = coin() ? 0 : size();
    s.cluster_m = coin() ? 1 : size();
    s.cluster_n = coin() ? 1 : size();
    s.split_k = enumerator(SplitK::kStreamKTree);
    s.accuracy = enumerator(Accuracy::kExact);
    s.swap_ab = coin();
    s.persistent = coin();
    s.pads = coin() ? Pads{} : Pads{coin(), coin(), coin()};
    return s;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace scalegemm::spec::testing
