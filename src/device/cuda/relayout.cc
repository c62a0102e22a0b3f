#include "device/cuda/relayout.h"

#include <algorithm>

#include "base/int_math.h"
#include "num/dtype.h"

namespace scalegemm::device::cuda {
namespace {

using base::round_up;

uint32_t ceil_div(uint64_t a, uint64_t b) {
  return static_cast<uint32_t>(base::ceil_div(a, b));
}

// A part as lines of elements, and where its data and strides are kept.
struct Lines {
  const void** data;
  int64_t *between, *along;  // strides
  uint32_t lines, length, element;

  uint64_t pitch() const { return round_up(uint64_t{length} * element, 16u); }
};

Lines lines_of(SgGemm* g, const SgCudaInfo& info, Part part) {
  const bool is_a = part == Part::kA || part == Part::kScaleA;
  SgOperand& o = is_a ? g->a : g->b;
  const auto rows = static_cast<uint32_t>(is_a ? g->m : g->n);
  const auto k = static_cast<uint32_t>(g->k);
  if (part == Part::kA || part == Part::kB) {
    const int bits = num::info(static_cast<num::DType>(o.dtype)).bits;
    return {&o.data, &o.stride_r, &o.stride_k, rows, k, static_cast<uint32_t>(std::max(8, bits)) / 8};
  }
  const uint32_t blocks = ceil_div(k, std::max<uint32_t>(1, info.promote_k));
  const bool single_rows = (is_a ? info.scale_a : info.scale_b) == SG_SCALE_BLOCK_1;
  SgScale& s = o.scale;
  return single_rows ? Lines{&s.data, &s.stride_k, &s.stride_r, blocks, rows, 4}
                     : Lines{&s.data, &s.stride_r, &s.stride_k, ceil_div(rows, 128), blocks, 4};
}

}  // namespace

Result<std::shared_ptr<const Relayouter>> Relayouter::load(std::shared_ptr<const LoadedModule> module,
                                                           const std::string& symbol) {
  std::shared_ptr<Relayouter> relayouter(new Relayouter(std::move(module)));
  SCALEGEMM_ASSIGN_OR_RETURN(relayouter->function_, relayouter->module_->function(symbol));
  return std::shared_ptr<const Relayouter>(std::move(relayouter));
}

uint64_t Relayouter::bytes(const SgGemm& gemm, const SgCudaInfo& info, Part part) {
  SgGemm shape = gemm;
  const Lines lines = lines_of(&shape, info, part);
  return round_up(lines.lines * lines.pitch(), 128u);
}

SgRelayoutJobs Relayouter::redirect(SgGemm* gemm, const SgCudaInfo& info, const OfParts<void*>& to) {
  SgRelayoutJobs jobs{};
  uint32_t end = 0;
  for (const Part part : kParts) {
    const auto i = static_cast<size_t>(part);
    if (to[i] != nullptr) {
      const Lines lines = lines_of(gemm, info, part);
      const uint64_t pitch = lines.pitch();
      jobs.jobs[i] = {.from = *lines.data,
                      .to = to[i],
                      .stride_r = *lines.between,
                      .stride_k = lines.length == 1 ? 1 : *lines.along,
                      .pitch = pitch,
                      .rows = lines.lines,
                      .k = lines.length,
                      .element = lines.element,
                      .tiles_k = ceil_div(pitch, SG_RELAYOUT_BYTES)};
      end += ceil_div(lines.lines, SG_RELAYOUT_ROWS) * jobs.jobs[i].tiles_k;
      *lines.data = to[i];
      *lines.between = static_cast<int64_t>(pitch / lines.element);
      *lines.along = 1;
      if (part == Part::kScaleA || part == Part::kScaleB) {
        (part == Part::kScaleA ? gemm->scale_bytes_a : gemm->scale_bytes_b) =
            static_cast<int64_t>(lines.lines * pitch);
      }
    }
    jobs.end[i] = end;
  }
  return jobs;
}

Status Relayouter::launch(const SgRelayoutJobs& jobs, void* stream) const {
  SgRelayoutJobs argument = jobs;
  const Current current(module_->device());
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  LaunchConfig config;
  config.grid_x = jobs.end[SG_RELAYOUT_JOBS - 1];
  config.block_x = SG_RELAYOUT_THREADS;
  config.stream = static_cast<Stream>(stream);
  LaunchAttribute attribute;
  attribute.id = kProgrammaticSerialization;
  attribute.value.programmatic_serialization = 1;
  config.attributes = &attribute;
  config.attribute_count = module_->device().properties().major >= 9 ? 1 : 0;
  void* parameters[] = {&argument};
  return check(module_->device().driver().launch(&config, function_, parameters, nullptr),
               "launching a relayout");
}

}  // namespace scalegemm::device::cuda
