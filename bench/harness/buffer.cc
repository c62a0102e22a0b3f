#include "harness/buffer.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

namespace scalegemm::harness {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBand = 256;  // poison on either side of aligned data; wider than any vector register

size_t round_up(size_t x, size_t to) {
  return (x + to - 1) / to * to;
}

// The mappings a fault handler may look at: fixed slots, because a handler may not allocate or lock.
struct Slot {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::array<char, 32> name{};
};
std::array<Slot, 256> g_slots;
struct sigaction g_previous;

void register_mapping(const uint8_t* base, size_t bytes, const std::string& name) {
  for (Slot& slot : g_slots) {
    uintptr_t free_slot = 0;
    if (slot.end.compare_exchange_strong(free_slot, 1)) {
      std::fill(slot.name.begin(), slot.name.end(), '\0');
      std::copy_n(name.begin(), std::min(name.size(), slot.name.size() - 1), slot.name.begin());
      slot.begin = reinterpret_cast<uintptr_t>(base);
      slot.end = reinterpret_cast<uintptr_t>(base) + bytes;
      return;
    }
  }
}

void unregister_mapping(const uint8_t* base) {
  for (Slot& slot : g_slots) {
    if (slot.begin == reinterpret_cast<uintptr_t>(base)) {
      slot.begin = 0;
      slot.end = 0;
      return;
    }
  }
}

void print(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) {
    _exit(1);
  }
}

// Only async-signal-safe calls.
void on_fault(int number, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Slot& slot : g_slots) {
    if (address >= slot.begin && address < slot.end) {
      print("FAIL poison: memory outside the buffer of ");
      print(slot.name.data());
      print(address - slot.begin < kPage ? " was touched, before its start\n"
                                         : " was touched, past its end\n");
      _exit(1);
    }
  }
  sigaction(number, &g_previous, nullptr);
}

}  // namespace

Buffer::Buffer(std::string name, size_t bytes, size_t element, Place place, uint8_t poison)
    : name_(std::move(name)), bytes_(bytes), poison_(poison) {
  const size_t inner = round_up(bytes + 2 * kBand + element, kPage);
  mapped_ = inner + 2 * kPage;
  void* memory = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  base_ = static_cast<uint8_t*>(memory);
  uint8_t* first = base_ + kPage;
  if (mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) {
    munmap(base_, mapped_);
    throw std::bad_alloc();
  }
  std::memset(first, poison, inner);
  switch (place) {
    case Place::kAligned:
      data_ = first + kBand;
      break;
    case Place::kMisaligned:
      data_ = first + kBand + element;
      break;
    case Place::kFlushEnd:
      data_ = first + inner - bytes;
      break;
  }
  register_mapping(base_, mapped_, name_);
}

Buffer::~Buffer() {
  release();
}

Buffer::Buffer(Buffer&& other) noexcept {
  *this = std::move(other);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    name_ = std::move(other.name_);
    base_ = std::exchange(other.base_, nullptr);
    mapped_ = std::exchange(other.mapped_, 0);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    poison_ = other.poison_;
  }
  return *this;
}

void Buffer::release() {
  if (base_ != nullptr) {
    unregister_mapping(base_);
    munmap(base_, mapped_);
    base_ = nullptr;
  }
}

std::span<uint8_t> Buffer::region() const {
  return base_ == nullptr ? std::span<uint8_t>() : std::span(base_ + kPage, mapped_ - 2 * kPage);
}

std::string Buffer::check() const {
  if (base_ == nullptr) {
    return "";
  }
  const uint8_t* first = base_ + kPage;
  const uint8_t* last = base_ + mapped_ - kPage;
  const auto intact = [this](uint8_t byte) { return byte == poison_; };
  if (const uint8_t* bad = std::find_if_not(first, static_cast<const uint8_t*>(data_), intact);
      bad != data_) {
    return fmt::format("{}: {} bytes before the start were written", name_, data_ - bad);
  }
  const uint8_t* end = data_ + bytes_;
  if (const uint8_t* bad = std::find_if_not(end, last, intact); bad != last) {
    return fmt::format("{}: byte {} past the end was written", name_, bad - end);
  }
  return "";
}

FaultReporter::FaultReporter() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &g_previous);
}

FaultReporter::~FaultReporter() {
  sigaction(SIGSEGV, &g_previous, nullptr);
}

}  // namespace scalegemm::harness
