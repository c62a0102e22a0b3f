// Tables, numbers, progress and Ctrl-C.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "app.h"

namespace scalegemm::cli {
namespace {

std::atomic<bool> g_interrupted{false};
struct sigaction g_previous_int;
struct sigaction g_previous_term;

void on_interrupt(int number) {
  if (g_interrupted.exchange(true)) {
    _exit(128 + number);
  }
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_numeric(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ||
                           ((cell[0] == '-' || cell[0] == '+') && cell.size() > 1));
}

// Columns as wide as their widest cell; a cell counts characters, not bytes, of UTF-8.
size_t width_of(const std::string& cell) {
  return static_cast<size_t>(std::count_if(
      cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

void Table::print() const {
  std::vector<size_t> widths(rows_.front().size(), 0);
  std::vector<bool> numeric(rows_.front().size(), true);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      widths[c] = std::max(widths[c], width_of(rows_[r][c]));
      numeric[c] = numeric[c] && (r == 0 || rows_[r][c] == "-" || is_numeric(rows_[r][c]));
    }
  }
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - width_of(row[c]), ' ');
      line += (c == 0 ? "" : "  ") + (numeric[c] ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", short_number(bytes), kUnits[unit]);
}

std::string short_number(double value) {
  if (!std::isfinite(value)) {
    return std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf");
  }
  const double magnitude = std::abs(value);
  if (magnitude >= 100 || magnitude == 0) {
    return fmt::format("{:.0f}", value);
  }
  if (magnitude < 0.01) {
    return fmt::format("{:.1e}", value);
  }
  return fmt::format("{:.{}f}", value, magnitude >= 10 ? 1 : 2);
}

Progress::Progress(Show show, int64_t total)
    : terminal_(isatty(STDERR_FILENO) != 0),
      shown_(show == Show::kAlways || terminal_),
      total_(total),
      started_(now_s()) {}

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (line_shown_ && terminal_) {
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }
  line_shown_ = false;
}

void Progress::step(int64_t done, std::string_view what) {
  if (!shown_) {
    return;
  }
  line_shown_ = true;
  const std::string line = fmt::format("[{}/{}, {:.0f} s] {}", done, total_, now_s() - started_, what);
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\033[K" : "\n");
  std::fflush(stderr);
}

Interrupt::Interrupt() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &g_previous_int);
  sigaction(SIGTERM, &action, &g_previous_term);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &g_previous_int, nullptr);
  sigaction(SIGTERM, &g_previous_term, nullptr);
}

bool Interrupt::requested() {
  return g_interrupted;
}

}  // namespace scalegemm::cli
