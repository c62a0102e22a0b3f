// The words of kernel names, shared by the writer and the parsers of this room. Internal to src/spec.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "spec/kernel_spec.h"

namespace scalegemm::spec::text {

// A value and its word. Words hold no '_' unless a parser of foreign names reads them.
template <class T>
struct Word {
  T value;
  std::string_view word;
};

template <class T>
std::string_view find_word(std::span<const Word<T>> words, T value) {
  for (const Word<T>& row : words) {
    if (row.value == value) {
      return row.word;
    }
  }
  return "?";
}

// The largest size in a name: keeps names short enough for files and arithmetic on sizes inside int64.
inline constexpr int kMaxSize = 65535;

std::span<const Word<Pipeline>> pipelines();
std::span<const Word<EpilogueKind>> epilogues();
std::span<const Word<Scheduler>> schedulers();
std::span<const Word<SplitK>> splits();
std::span<const Word<Packing>> packings();
std::span<const Word<Accuracy>> accuracies();
std::span<const Word<DType>> dtypes();  // "e4m3fnuz", not "e4m3_fnuz"

// What a quant word says about scales by itself.
struct QuantWord {
  std::string_view word;
  Scales scales;
  std::optional<ScaleSpec> a;
  std::optional<ScaleSpec> b;
  bool names_a;  // the scale is written out as an option (aqg..., bqg...)
  bool names_b;
};
std::span<const QuantWord> quant_words();
const QuantWord& quant_row(const KernelSpec& spec);

// Reads a name word by word; keeps the column for messages.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  // A '_' at the end leaves an empty word behind it, so it is not the end.
  bool done() const { return pos_ > text_.size(); }
  std::string_view peek() const;  // up to the next '_'
  std::string_view take();        // peek, and past its '_'

  // Past `word` (which may hold '_') when the text goes on with exactly that word.
  bool skip(std::string_view word);

  // "kernel name, column 12: needed X; given "Y"" about the word at hand.
  Status error(std::string_view needed) const;
  // The same code kUnsupported: understood, but there is no spec of it.
  Status refuse(std::string_view reason) const;

  template <class T>
  Result<T> one_of(std::string_view what, std::span<const Word<T>> words) {
    std::string known;
    for (const Word<T>& row : words) {
      if (skip(row.word)) {
        return row.value;
      }
      known += known.empty() ? "" : ", ";
      known += row.word;
    }
    return error(std::string(what) + " (" + known + ")");
  }

  Result<Dims> dims(std::string_view what);

 private:
  std::string_view text_;
  size_t pos_ = 0;
};

// A decimal number in [low, kMaxSize] without sign, leading zero or anything after it.
std::optional<int> parse_size(std::string_view text, int low);

// "16x64x256"; each at least 1.
std::optional<Dims> parse_dims(std::string_view text);

// The name of a kernel of AMD's dispatcher, without target ("gemm_rowcolquant_fp8_rcr_...").
Result<KernelSpec> parse_amd(std::string_view text, Target target);
bool looks_like_amd(std::string_view text);

}  // namespace scalegemm::spec::text
