#include "harness/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "harness/words.h"
#include "scalegemm/scalegemm.hpp"
#include "spec/target.h"

namespace scalegemm::harness {
namespace {

// Type combinations beyond those that the library lists, so that each type of each operand, scale and zero
// point occurs.
constexpr std::array<const char*, 26> kFurtherSchemes = {"none:a=f16",
                                                         "none:a=e4m3",
                                                         "none:a=e5m2",
                                                         "none:a=e2m1",
                                                         "none:a=int8",
                                                         "none:a=f32,b=bf16",
                                                         "tensor:a=e5m2",
                                                         "rowcol:a=e4m3_fnuz,b=e5m2_fnuz",
                                                         "aquant:a=int4,g=32",
                                                         "aquant:a=int8,b=e5m2",
                                                         "bquant:a=f32,b=int4,g=32,zero=int8",
                                                         "bquant:a=f16,b=int8,scale=bf16",
                                                         "bquant:a=e4m3,b=e4m3,g=128,bn=128",
                                                         "bquant:a=e5m2,b=uint4,g=64,zero=uint4",
                                                         "bquant:a=int8,b=int8,g=64",
                                                         "bquant:a=int8,b=int4,g=128,zero=int4",
                                                         "bquant:a=int8,b=uint4,g=32,zero=uint4,scale=f16",
                                                         "abquant:a=e5m2,b=e4m3,g=64",
                                                         "abquant:a=int8,b=int4,g=32",
                                                         "abquant:a=int8,b=int8,g=128,bn=128",
                                                         "mxfp8:a=e5m2,b=e2m1",
                                                         "mxfp4:a=e5m2",
                                                         "mx-weight:a=f32,b=e4m3",
                                                         "mx-weight:a=f16,g=128",
                                                         "nvfp4:a=e4m3",
                                                         "nvfp4:a=f32"};

[[noreturn]] void fail(scalegemm_status status, const std::string& message) {
  throw Error(status, message);
}

// The beginning of a line of a file that may be anything.
std::string printable(std::string text) {
  constexpr size_t kShown = 60;
  text.resize(std::min(text.size(), kShown));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::vector<std::string> split_line(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) {
    const auto first = cell.find_first_not_of(" \t\r");
    const auto last = cell.find_last_not_of(" \t\r");
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

size_t column_of(const std::vector<std::string>& header, const std::string& column, const std::string& path) {
  const auto found = std::find(header.begin(), header.end(), column);
  if (found == header.end()) {
    fail(SCALEGEMM_CORRUPT_DATA, fmt::format("{}: line 1: needed the columns name,m,n,k; given \"{}\"", path,
                                             printable(fmt::format("{}", fmt::join(header, ",")))));
  }
  return static_cast<size_t>(found - header.begin());
}

int64_t size_of(const std::string& text, const std::string& column, const std::string& where) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    fail(SCALEGEMM_CORRUPT_DATA,
         fmt::format("{}: column {}: needed a positive integer; given \"{}\"", where, column, text));
  }
  return value;
}

}  // namespace

scalegemm_problem problem_of(const Case& c) {
  scalegemm_problem p = make_problem(c.scheme, c.layout, c.m, c.n, c.k);
  p.batch = c.batch;
  p.d_dtype = c.d_dtype;
  p.b_packing = c.packing;
  p.accuracy = c.accuracy;
  p.activation = c.epilogue.activation;
  p.c_dtype = c.epilogue.c_dtype;
  p.bias_dtype = c.epilogue.bias_dtype;
  p.has_clamp = c.epilogue.has_clamp;
  p.clamp_min = c.epilogue.clamp_min;
  p.clamp_max = c.epilogue.clamp_max;
  return p;
}

std::string to_string(const Case& c) {
  std::string text =
      fmt::format("--scheme {} --layout {} --m {} --n {} --k {}", c.scheme, c.layout, c.m, c.n, c.k);
  const auto add = [&text](bool differs, std::string_view option, const auto& value) {
    if (differs) {
      fmt::format_to(std::back_inserter(text), " {} {}", option, value);
    }
  };
  const Epilogue& e = c.epilogue;
  add(c.batch != 1, "--batch", c.batch);
  add(c.d_dtype != SCALEGEMM_F32, "--out-type", word_of(kTypes, c.d_dtype));
  add(c.packing != SCALEGEMM_RAW, "--packing", word_of(kPackings, c.packing));
  add(c.accuracy != SCALEGEMM_PROMOTED, "--accuracy", word_of(kAccuracies, c.accuracy));
  add(c.strides != Strides::kDense, "--strides", word_of(kStrideWords, static_cast<int32_t>(c.strides)));
  add(c.place != Place::kAligned, "--place", word_of(kPlaces, static_cast<int32_t>(c.place)));
  add(e.alpha != 1, "--alpha", e.alpha);
  add(e.beta != 0, "--beta", e.beta);
  add(e.c_dtype != SCALEGEMM_DTYPE_NONE, "--c-type", word_of(kTypes, e.c_dtype));
  add(e.bias_dtype != SCALEGEMM_DTYPE_NONE, "--bias-type", word_of(kTypes, e.bias_dtype));
  add(e.activation != SCALEGEMM_ACT_NONE, "--activation", word_of(kActivations, e.activation));
  if (e.has_clamp != 0) {
    fmt::format_to(std::back_inserter(text), " --clamp {} {}", e.clamp_min, e.clamp_max);
  }
  add(true, "--seed", c.seed);
  return text;
}

std::vector<Case> read_suite(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    fail(SCALEGEMM_IO_ERROR, fmt::format("suite: needed a readable CSV file; given {}", path));
  }
  std::vector<Case> cases;
  std::vector<std::string> header;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::vector<std::string> cells = split_line(line);
    if (cells.empty() || (cells.size() == 1 && cells[0].empty()) || cells[0].rfind('#', 0) == 0) {
      continue;
    }
    if (header.empty()) {
      header = cells;
      for (const char* column : {"name", "m", "n", "k"}) {
        column_of(header, column, path);
      }
      continue;
    }
    const std::string where = fmt::format("{}: line {}", path, number);
    if (cells.size() < header.size()) {
      fail(SCALEGEMM_CORRUPT_DATA,
           fmt::format("{}: needed {} columns; given {}", where, header.size(), cells.size()));
    }
    Case c;
    c.name = cells[column_of(header, "name", path)];
    c.m = size_of(cells[column_of(header, "m", path)], "m", where);
    c.n = size_of(cells[column_of(header, "n", path)], "n", where);
    c.k = size_of(cells[column_of(header, "k", path)], "k", where);
    cases.push_back(c);
  }
  if (cases.empty()) {
    fail(SCALEGEMM_CORRUPT_DATA, fmt::format("{}: needed a header name,m,n,k and rows; given no row", path));
  }
  return cases;
}

std::vector<std::string> known_targets() {
  std::vector<std::string> names;
  for (const spec::TargetName& target : spec::kTargets) {
    names.emplace_back(target.name);
  }
  return names;
}

std::vector<std::string> known_schemes() {
  std::vector<std::string> names;
  for (int32_t i = 0; i < scalegemm_scheme_count(); ++i) {
    scalegemm_scheme_info info{};
    check(scalegemm_scheme(i, &info));
    names.emplace_back(info.name);
  }
  return names;
}

std::vector<std::string> every_scheme() {
  std::vector<std::string> schemes = known_schemes();
  schemes.insert(schemes.end(), kFurtherSchemes.begin(), kFurtherSchemes.end());
  return schemes;
}

std::vector<Size> edge_sizes() {
  return {{1, 1, 2},      {1, 31, 32},   {2, 33, 30},   {4, 16, 258},  {3, 47, 62},    {5, 32, 34},
          {13, 15, 126},  {14, 32, 128}, {15, 33, 130}, {28, 64, 256}, {29, 65, 1030}, {17, 17, 16},
          {31, 127, 386}, {1, 97, 514},  {7, 1, 66},    {61, 67, 142}};
}

std::vector<std::string> split_schemes(const std::string& list) {
  std::vector<std::string> schemes;
  std::stringstream stream(list);
  for (std::string piece; std::getline(stream, piece, ',');) {
    const bool is_key = piece.find('=') != std::string::npos && piece.find(':') == std::string::npos;
    if (is_key && !schemes.empty()) {
      schemes.back() += "," + piece;
    } else {
      schemes.push_back(piece);
    }
  }
  return schemes.empty() ? std::vector<std::string>{list} : schemes;
}

std::vector<std::string> resolve_schemes(const std::vector<std::string>& lists) {
  std::vector<std::string> words;
  for (const std::string& list : lists) {
    const std::vector<std::string> parts = split_schemes(list);
    words.insert(words.end(), parts.begin(), parts.end());
  }
  std::vector<std::string> schemes;
  for (const std::string& word : words) {
    const std::vector<std::string> expanded =
        word == "all" ? known_schemes() : std::vector<std::string>{word};
    for (const std::string& scheme : expanded) {
      make_problem(scheme, "rcr", 16, 16, 256);  // refuses what is no scheme
      if (std::find(schemes.begin(), schemes.end(), scheme) == schemes.end()) {
        schemes.push_back(scheme);
      }
    }
  }
  return schemes;
}

}  // namespace scalegemm::harness
