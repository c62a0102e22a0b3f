#include "dispatch/tuned.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "arch/legal.h"
#include "dispatch/shipped_csv.h"
#include "spec/scheme.h"

namespace scalegemm::dispatch {
namespace {

constexpr std::string_view kHeader = "target,device,problem,m_bucket,n,k,kernel,us,mad_us,kernel_id";
constexpr size_t kColumns = 10;
constexpr size_t kFewestColumns = 8;  // of older tables: without deviation and id
constexpr size_t kIdDigits = 32;
constexpr int64_t kLargestBucket = 8192;
constexpr std::string_view kEveryDevice = "*";

Status corrupt(int line, std::string_view needed, std::string_view given) {
  return make_error(Code::kCorruptData, "tuned table, line {}: needed {}; given \"{}\"", line, needed,
                    given.substr(0, 80));
}

// The line before the next '\n', without a '\r' at its end.
std::string_view take_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  return line;
}

// kFewestColumns to kColumns fields, separated by commas.
bool split(std::string_view line, std::array<std::string_view, kColumns>& fields) {
  size_t begin = 0;
  for (size_t i = 0; i < kColumns; ++i) {
    const size_t end = std::min(line.find(',', begin), line.size());
    fields[i] = line.substr(begin, end - begin);
    if (end == line.size()) {
      return i + 1 >= kFewestColumns;
    }
    begin = end + 1;
  }
  return false;
}

template <class T>
bool read(std::string_view text, T& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

Result<TunedRow> parse_row(std::string_view line, int number) {
  std::array<std::string_view, kColumns> f;
  if (!split(line, f)) {
    return corrupt(number, "8 to 10 fields", line);
  }
  TunedRow row;
  const Result<spec::Target> target = spec::parse_target(f[0]);
  if (!target.ok()) {
    return corrupt(number, "a target (" + spec::known_targets() + ")", f[0]);
  }
  row.target = *target;
  row.device = f[1];
  row.problem = f[2];
  row.kernel = f[6];
  if (!read(f[3], row.m_bucket) || row.m_bucket < 1 || row.m_bucket != m_bucket(row.m_bucket)) {
    return corrupt(number, "an m_bucket (a power of two up to 8192)", f[3]);
  }
  if (!read(f[4], row.n) || row.n < 1) {
    return corrupt(number, "a positive n", f[4]);
  }
  if (!read(f[5], row.k) || row.k < 1) {
    return corrupt(number, "a positive k", f[5]);
  }
  if (!read(f[7], row.us) || !(row.us >= 0) || std::isinf(row.us)) {
    return corrupt(number, "a time in us", f[7]);
  }
  if (!f[8].empty() && (!read(f[8], row.mad_us) || !(row.mad_us >= 0) || std::isinf(row.mad_us))) {
    return corrupt(number, "a deviation in us, or nothing", f[8]);
  }
  if (!f[9].empty() &&
      (f[9].size() != kIdDigits || f[9].find_first_not_of("0123456789abcdef") != std::string_view::npos)) {
    return corrupt(number, "a kernel id of 32 hexadecimal digits, or nothing", f[9]);
  }
  row.kernel_id = f[9];
  return row;
}

// The header, or that of an older table: fewer columns.
bool known_header(std::string_view line) {
  const auto columns = static_cast<size_t>(std::count(line.begin(), line.end(), ',')) + 1;
  return columns >= kFewestColumns && kHeader.starts_with(line) &&
         (line.size() == kHeader.size() || kHeader[line.size()] == ',');
}

// Why a name means no kernel, or nothing.
Status known_kernel(const TunedRow& row) {
  SCALEGEMM_ASSIGN_OR_RETURN(const spec::KernelSpec spec, spec::parse(row.kernel));
  return arch::legal(spec);
}

bool same_key(const TunedRow& a, const TunedRow& b) {
  return a.target == b.target && a.device == b.device && a.problem == b.problem && a.m_bucket == b.m_bucket &&
         a.n == b.n && a.k == b.k;
}

}  // namespace

int64_t m_bucket(int64_t m) {
  int64_t bucket = 1;
  while (bucket < m && bucket < kLargestBucket) {
    bucket *= 2;
  }
  return bucket;
}

std::string device_key(std::string_view device) {
  std::string key;
  for (char c : device) {
    if (c != ',' && c != '\n' && c != '\r') {
      key += c;
    }
  }
  return key;
}

Result<TunedTable> TunedTable::parse(std::string_view csv, Strictness strictness) {
  TunedTable table;
  bool header = false;
  for (int number = 1; !csv.empty(); ++number) {
    const std::string_view line = take_line(csv);
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    if (!header) {
      if (!known_header(line)) {
        return corrupt(number, fmt::format("the header \"{}\"", kHeader), line);
      }
      header = true;
      continue;
    }
    SCALEGEMM_ASSIGN_OR_RETURN(TunedRow row, parse_row(line, number));
    if (const Status known = known_kernel(row); !known.ok()) {
      const Status unknown = unsupported("tuned table, line {}: {}", number, known.message());
      if (strictness == Strictness::kStrict) {
        return unknown;
      }
      table.warnings_.push_back(unknown.message());
      continue;
    }
    table.add(std::move(row));
  }
  if (!header) {
    return corrupt(1, fmt::format("the header \"{}\"", kHeader), "an empty table");
  }
  return table;
}

void TunedTable::add(TunedRow row) {
  for (TunedRow& old : rows_) {
    if (same_key(old, row)) {
      old = std::move(row);
      return;
    }
  }
  rows_.push_back(std::move(row));
}

const TunedTable& TunedTable::shipped() {
  static const TunedTable kTable = [] {
    auto parsed = parse(shipped_csv(), Strictness::kLenient);
    return parsed.ok() ? *std::move(parsed) : TunedTable();
  }();
  return kTable;
}

const TunedRow* TunedTable::find(const spec::Problem& problem, spec::Target target,
                                 std::string_view device) const {
  TunedRow key;
  key.target = target;
  key.problem = signature(problem);
  key.m_bucket = m_bucket(problem.m);
  key.n = problem.n;
  key.k = problem.k;
  for (const std::string& name : {device_key(device), std::string(kEveryDevice)}) {
    key.device = name;
    for (const TunedRow& row : rows_) {
      if (same_key(row, key)) {
        return &row;
      }
    }
  }
  return nullptr;
}

std::string TunedTable::to_csv() const {
  std::string csv(kHeader);
  csv += '\n';
  for (const TunedRow& r : rows_) {
    csv += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", spec::target_name(r.target), device_key(r.device),
                       r.problem, r.m_bucket, r.n, r.k, r.kernel, r.us, r.mad_us, r.kernel_id);
  }
  return csv;
}

}  // namespace scalegemm::dispatch
