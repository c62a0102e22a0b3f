// Times on the device: pairs of events on a stream.
#pragma once

#include <cstddef>
#include <vector>

#include "device/cuda/driver.h"

namespace scalegemm::device::cuda {

// The device's context must be current as long as it lives.
class EventPairs {
 public:
  EventPairs(const Driver& driver, size_t pairs) : driver_(driver), events_(2 * pairs) {
    for (auto& event : events_) {
      driver_.event_create(&event, 0);
    }
  }
  ~EventPairs() {
    for (auto* event : events_) {
      driver_.event_destroy(event);
    }
  }
  EventPairs(const EventPairs&) = delete;
  EventPairs& operator=(const EventPairs&) = delete;
  void start(size_t pair, Stream stream = nullptr) { driver_.event_record(events_[2 * pair], stream); }
  void stop(size_t pair, Stream stream = nullptr) { driver_.event_record(events_[2 * pair + 1], stream); }
  // Both events of the pair have happened.
  double microseconds(size_t pair) const {
    float milliseconds = 0;
    driver_.event_elapsed(&milliseconds, events_[2 * pair], events_[2 * pair + 1]);
    return static_cast<double>(milliseconds) * 1e3;
  }

 private:
  const Driver& driver_;
  std::vector<Event> events_;
};

}  // namespace scalegemm::device::cuda
