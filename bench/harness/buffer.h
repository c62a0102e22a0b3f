// Memory that shows when a kernel leaves it.
//
// A Buffer lies between two pages that may not be touched, and everything else of its own pages is a guard
// band filled with a poison byte. A write into the band is found by check(); an access of the pages beyond
// stops the process at once, and FaultReporter says which buffer it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace scalegemm::harness {

// Where in its pages the data lies.
enum class Place : uint8_t {
  kAligned,     // 64-byte aligned
  kMisaligned,  // aligned to the element and to nothing more
  kFlushEnd,    // the last byte of data is the last byte of the page: any read past the end faults
};

class Buffer {
 public:
  Buffer() = default;
  // `bytes` of memory, all of it `poison`. `element` is the size of an element, a power of two.
  Buffer(std::string name, size_t bytes, size_t element, Place place, uint8_t poison);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }

  // The data with the guard bands around it: all of its own pages.
  std::span<uint8_t> region() const;

  // Empty when the guard bands are whole, else what was written where.
  std::string check() const;

 private:
  void release();

  std::string name_;
  uint8_t* base_ = nullptr;  // of the mapping, with the two guard pages
  size_t mapped_ = 0;
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
  uint8_t poison_ = 0;
};

// While one lives, a segmentation fault inside a guard page of a Buffer prints "FAIL ..." with the buffer's
// name and ends the process with status 1 instead of a core dump.
class FaultReporter {
 public:
  FaultReporter();
  ~FaultReporter();
  FaultReporter(const FaultReporter&) = delete;
  FaultReporter& operator=(const FaultReporter&) = delete;
};

}  // namespace scalegemm::harness
