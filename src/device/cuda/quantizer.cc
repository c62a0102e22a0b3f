#include "device/cuda/quantizer.h"

#include "base/int_math.h"

namespace scalegemm::device::cuda {

using base::ceil_div;
Result<std::shared_ptr<const Quantizer>> Quantizer::load(std::shared_ptr<const LoadedModule> module,
                                                         std::span<const std::string> symbols) {
  std::shared_ptr<Quantizer> quantizer(new Quantizer(std::move(module)));
  for (const std::string& symbol : symbols) {
    Entry entry;
    SCALEGEMM_ASSIGN_OR_RETURN(entry.function, quantizer->module_->function(symbol));
    SCALEGEMM_RETURN_IF_ERROR(quantizer->module_->read(symbol + "_info", &entry.info, sizeof entry.info));
    if (entry.info.abi_version != SG_QUANTIZE_ABI_VERSION) {
      return make_error(Code::kCorruptData, "kernel {}: must be of ABI version {}, is of {}", symbol,
                        SG_QUANTIZE_ABI_VERSION, entry.info.abi_version);
    }
    quantizer->entries_.push_back(entry);
  }
  return std::shared_ptr<const Quantizer>(std::move(quantizer));
}

// The first that keeps a row of k elements in registers, else the last, which keeps the most.
const Quantizer::Entry& Quantizer::choose(uint32_t k) const {
  for (const Entry& entry : entries_) {
    if (entry.info.group != 0 || k <= entry.info.threads / entry.info.rows_per_cta * SG_QUANTIZE_HELD) {
      return entry;
    }
  }
  return entries_.back();
}

Status Quantizer::launch(const SgQuantize& arguments, void* stream) const {
  const auto& [function, info] = choose(arguments.k);
  SgQuantize parameter = arguments;
  uint64_t ctas = 0;
  if (info.group == 0) {
    ctas = ceil_div(arguments.rows, info.rows_per_cta);
  } else {
    // Eight f32 scales are what a write to memory holds.
    parameter.row_shift = arguments.scale_stride_row == 1 && arguments.rows >= 8 ? 3 : 0;
    const uint64_t rows = ceil_div(arguments.rows, uint64_t{1} << parameter.row_shift) << parameter.row_shift;
    const uint64_t blocks = rows * ceil_div(arguments.k, info.group);
    const uint64_t lanes = info.group / SG_QUANTIZE_UNIT;
    if (blocks >= (uint64_t{1} << 32) / lanes) {
      return unsupported("src: this quantiser needs fewer than {} blocks of {}, has {}",
                         (uint64_t{1} << 32) / lanes, info.group, blocks);
    }
    ctas = ceil_div(blocks * lanes, info.threads);
  }
  void* parameters[] = {&parameter};
  LaunchConfig config;
  config.grid_x = static_cast<unsigned>(ctas);
  config.block_x = info.threads;
  config.stream = static_cast<Stream>(stream);
  const Current current(module_->device());
  SCALEGEMM_RETURN_IF_ERROR(current.status());
  return check(module_->device().driver().launch(&config, function, parameters, nullptr),
               "launching a quantiser");
}

}  // namespace scalegemm::device::cuda
