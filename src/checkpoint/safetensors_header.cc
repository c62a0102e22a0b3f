// parse_safetensors: from bytes to a checked header.
//
// nlohmann's SAX parser keeps its nesting in a vector of bits and calls back for every token, so depth costs
// no stack, and the first token that does not belong ends the parse.
#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/printable.h"
#include "checkpoint/safetensors.h"

namespace scalegemm::checkpoint {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

// Builds the tensors token by token. Every callback returns whether to go on.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(SafetensorsHeader& header, Status& status) : header_(header), status_(status) {}

  bool null() override { return misplaced("null"); }
  bool boolean(bool /*value*/) override { return misplaced("a boolean"); }
  bool number_integer(number_integer_t value) override { return fail("the negative number {}", value); }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return fail("the number {}, which is no whole number under 2^64", printable(text));
  }
  bool binary(binary_t& /*value*/) override { return misplaced("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kNumbers) {
      return misplaced("a number");
    }
    if (numbers().size() == kMaxRank) {
      return fail("more than {} numbers in {}", kMaxRank, field_);
    }
    numbers().push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      return header_.metadata.emplace(key_, value).second ||
             fail("the metadata key {} twice", printable(key_));
    }
    if (place_ != Place::kTensor || field_ != "dtype") {
      return misplaced("a text");
    }
    type_ = find_safetensors_type(value);
    return type_ != nullptr || fail("the unknown dtype {}", printable(value));
  }

  bool start_object(size_t /*elements*/) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ != Place::kTop) {
      return misplaced("an object");
    }
    place_ = key_ == kMetadataKey ? Place::kMetadata : Place::kTensor;
    if (place_ == Place::kMetadata) {
      return !std::exchange(metadata_seen_, true) || fail("the key {} twice", kMetadataKey);
    }
    name_ = key_;
    type_ = nullptr;
    seen_ = 0;
    shape_.clear();
    offsets_.clear();
    return true;
  }

  bool key(string_t& value) override {
    key_ = value;
    if (place_ != Place::kTensor) {
      return true;
    }
    const auto field = std::ranges::find(kFields, value);
    if (field == kFields.end()) {
      return fail("the unknown field {}", printable(value));
    }
    field_ = *field;
    const unsigned bit = 1U << (field - kFields.begin());
    const bool again = (seen_ & bit) != 0;
    seen_ |= bit;
    return !again || fail("the field {} twice", field_);
  }

  bool start_array(size_t /*elements*/) override {
    if (place_ != Place::kTensor || field_ == "dtype") {
      return misplaced("a list");
    }
    place_ = Place::kNumbers;
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool end_object() override {
    const Place ended = std::exchange(place_, place_ == Place::kTop ? Place::kOutside : Place::kTop);
    return ended != Place::kTensor || add_tensor();
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*e*/) override {
    status_ = corrupt("the header is not valid UTF-8 JSON at its byte {}", position);
    return false;
  }

 private:
  enum class Place { kOutside, kTop, kMetadata, kTensor, kNumbers };

  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};
  static constexpr unsigned kAllFields = 7;

  std::vector<uint64_t>& numbers() { return field_ == "shape" ? shape_ : offsets_; }

  template <class... Args>
  bool fail(fmt::format_string<Args...> text, Args&&... args) {
    const std::string what = fmt::format(text, std::forward<Args>(args)...);
    const bool in_tensor = place_ == Place::kTensor || place_ == Place::kNumbers;
    status_ = in_tensor ? corrupt("tensor {}: the header has {}", printable(name_), what)
                        : corrupt("the header has {}", what);
    return false;
  }

  bool misplaced(std::string_view what) {
    if (place_ == Place::kTop) {
      return fail("{} for {}, needs an object", what, printable(key_));
    }
    if (place_ == Place::kOutside) {
      return fail("{}, needs an object", what);
    }
    if (place_ == Place::kMetadata) {
      return fail("{} for the metadata key {}, needs a text", what, printable(key_));
    }
    return fail("{} in {}", what, field_);
  }

  bool add_tensor() {
    place_ = Place::kTensor;  // so that a failure names the tensor
    if (seen_ != kAllFields) {
      return fail("not all of dtype, shape and data_offsets");
    }
    if (offsets_.size() != 2) {
      return fail("{} data_offsets, needs 2", offsets_.size());
    }
    TensorInfo tensor{.name = name_, .type = type_, .shape = {}, .begin = offsets_[0], .end = offsets_[1]};
    for (const uint64_t extent : shape_) {
      if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return fail("the extent {}, needs one under 2^63", extent);
      }
      tensor.shape.push_back(static_cast<int64_t>(extent));
    }
    const Result<int64_t> bytes = tensor_bytes(*type_, tensor.shape);
    if (!bytes.ok()) {
      return fail("a bad shape: {}", bytes.status().message());
    }
    if (tensor.begin > tensor.end || tensor.end - tensor.begin != static_cast<uint64_t>(*bytes)) {
      return fail("data_offsets [{}, {}], needs {} bytes for its dtype and shape", tensor.begin, tensor.end,
                  *bytes);
    }
    header_.tensors.push_back(std::move(tensor));
    place_ = Place::kTop;
    return true;
  }

  SafetensorsHeader& header_;
  Status& status_;
  Place place_ = Place::kOutside;
  bool metadata_seen_ = false;
  std::string key_;  // the latest of any object

  // The tensor being read.
  std::string name_;
  std::string_view field_;
  const SafetensorsType* type_ = nullptr;
  unsigned seen_ = 0;  // a bit for each of kFields
  std::vector<uint64_t> shape_;
  std::vector<uint64_t> offsets_;
};

// Sorts by place and demands that the tensors tile [0, data_bytes).
Status check_cover(std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  std::ranges::sort(tensors, {}, [](const TensorInfo& t) { return std::pair(t.begin, t.end); });
  uint64_t covered = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != covered) {
      return corrupt("tensor {}: begins at byte {} of the data, needs {} (the end of the tensor before): {}",
                     printable(tensor.name), tensor.begin, covered,
                     tensor.begin < covered ? "an overlap" : "a hole");
    }
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    return corrupt("the header describes {} bytes of data, the file has {}: it is {}", covered, data_bytes,
                   covered > data_bytes ? "truncated" : "too long");
  }
  return ok_status();
}

Status check_names(const std::vector<TensorInfo>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) {
    names.push_back(tensor.name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  return twice == names.end() ? ok_status()
                              : corrupt("the header has the tensor {} twice", printable(*twice));
}

// The JSON text of the header, or why there is none.
Result<std::string_view> header_text(std::string_view file) {
  if (file.size() < kLengthBytes) {
    return corrupt("a safetensors file needs at least {} bytes, this one has {}", kLengthBytes, file.size());
  }
  static_assert(std::endian::native == std::endian::little);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    return corrupt("the header needs at most {} bytes, its length says {} (is this a safetensors file?)",
                   kMaxHeaderBytes, length);
  }
  if (length > file.size() - kLengthBytes) {
    return corrupt("the header has {} bytes, only {} follow: it is truncated", length,
                   file.size() - kLengthBytes);
  }
  const std::string_view text = file.substr(kLengthBytes, length);
  if (!text.starts_with('{')) {
    return corrupt("the header needs to start with '{{' (is this a safetensors file?)");
  }
  // The parser takes a zero byte for the end of the text and would let anything follow it.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return corrupt("the header has a zero byte at its byte {}", zero);
  }
  return text;
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors(std::string_view file) {
  SCALEGEMM_ASSIGN_OR_RETURN(const std::string_view text, header_text(file));
  SafetensorsHeader header;
  header.data_start = kLengthBytes + text.size();
  Status status;
  HeaderReader reader(header, status);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    return status.ok() ? corrupt("the header is not valid JSON") : status;
  }
  SCALEGEMM_RETURN_IF_ERROR(check_names(header.tensors));
  SCALEGEMM_RETURN_IF_ERROR(check_cover(header.tensors, file.size() - header.data_start));
  return header;
}

}  // namespace scalegemm::checkpoint
