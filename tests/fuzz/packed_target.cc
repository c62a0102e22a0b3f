// Packed weights as they come from a file.
#include <cstring>

#include "fuzz/target.h"
#include "layout/packed_header.h"

namespace scalegemm::fuzz {
namespace {

std::string file_of(const layout::PackedShape& shape) {
  Result<layout::PackedHeader> header = layout::describe(shape);
  require(header.ok(), "a seed is described");
  const std::string payload(header->payload_bytes, 'p');
  require(layout::seal(*header, std::as_bytes(std::span(payload))).ok(), "a seed is sealed");
  std::string file(sizeof *header, '\0');
  std::memcpy(file.data(), &*header, sizeof *header);
  return file + payload;
}

// A header that is accepted describes sections inside the file; digests keep almost every change out, so the
// header's is also put right, as a forger would.
Verdict run_one(std::string_view file) {
  const Result<layout::PackedView> view =
      layout::parse(std::as_bytes(std::span(file)), layout::DigestCheck::kSkip);
  if (!view.ok()) {
    require(!view.status().message().empty(), "a refusal has a message");
    return view.status().message();
  }
  const layout::PackedHeader& header = view->header;
  require(view->payload.size() == header.payload_bytes, "the payload has its size");
  require(sizeof header + header.payload_bytes == file.size(), "the payload ends with the file");
  const uint64_t sections[][2] = {{header.codes_offset, header.codes_bytes},
                                  {header.scales_offset, header.scales_bytes},
                                  {header.zeros_offset, header.zeros_bytes}};
  for (const auto& [offset, bytes] : sections) {
    require(bytes <= header.payload_bytes && offset <= header.payload_bytes - bytes,
            "a section is in the payload");
  }
  require(layout::panel_count(header) > 0 && layout::block_count(header) > 0, "counts are positive");
  const Result<uint64_t> size = layout::packed_size(layout::shape_of(header));
  require(size.ok() && *size == file.size(), "the shape gives the size");
  return {};
}

std::string sealed(std::string_view input) {
  std::string file(input);
  if (file.size() >= sizeof(layout::PackedHeader)) {
    layout::PackedHeader header;
    std::memcpy(&header, file.data(), sizeof header);
    const std::string_view payload = std::string_view(file).substr(sizeof header);
    if (layout::seal(header, std::as_bytes(std::span(payload))).ok()) {
      std::memcpy(file.data(), &header, sizeof header);
    }
  }
  return file;
}

}  // namespace

Target packed_target() {
  using num::DType;
  const spec::ScaleSpec mx{.type = DType::kE8m0, .block_rows = 1, .block_k = 32};
  const spec::ScaleSpec asymmetric{
      .type = DType::kF32, .block_rows = 1, .block_k = 16, .zero_type = DType::kInt8};
  return {
      .name = "packed",
      .seeds = {file_of({.layout = SG_PANEL_K4X16, .type = DType::kInt8, .n = 3, .k = 5}),
                file_of({.layout = SG_PANEL_K4X16, .type = DType::kE2m1, .n = 17, .k = 34, .scale = mx}),
                file_of(
                    {.layout = SG_PANEL_K4X16, .type = DType::kInt8, .n = 16, .k = 40, .scale = asymmetric})},
      .dictionary = {"SGPK", std::string_view("\x01\x00\xc0\x00", 4), std::string_view("\0\0\0\0\0\0\0\0", 8),
                     "\xff\xff\xff\xff\xff\xff\xff\x7f"},
      .run =
          [](std::string_view input) {
            Verdict verdict = run_one(input);
            return verdict.empty() ? verdict : run_one(sealed(input));
          },
  };
}

}  // namespace scalegemm::fuzz
