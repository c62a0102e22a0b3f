#include "emulated/device.h"

namespace scalegemm::emulated {

Cta& Cta::now() {
  static Cta cta;
  return cta;
}

void Cta::start() {
  Cta& cta = now();
  (*cta.body_)();
  cta.fibers_[cta.thread.x].done = true;
  cta.yield();
}

void Cta::run(unsigned index, unsigned threads, const std::function<void()>& body) {
  block.x = index;
  body_ = &body;
  fibers_.resize(threads);
  slots_.resize(threads);
  for (Fiber& fiber : fibers_) {
    getcontext(&fiber.context);
    fiber.context.uc_stack = {.ss_sp = fiber.stack.data(), .ss_flags = 0, .ss_size = fiber.stack.size()};
    fiber.context.uc_link = nullptr;
    fiber.syncs = 0;
    fiber.done = false;
    makecontext(&fiber.context, &Cta::start, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (thread.x = 0; thread.x < threads; ++thread.x) {
      if (!fibers_[thread.x].done) {
        swapcontext(&scheduler_, &fibers_[thread.x].context);
        any = true;
      }
    }
  }
}

void Cta::sync(unsigned first, unsigned count) {
  const uint64_t mine = ++fibers_[thread.x].syncs;
  for (unsigned i = first; i < first + count; ++i) {
    while (!fibers_[i].done && fibers_[i].syncs < mine) {
      yield();
    }
  }
}

// Twice: none may overwrite its value before all have read.
unsigned Cta::exchange(unsigned value, unsigned mask) {
  const unsigned first = thread.x / 32 * 32;
  slots_[thread.x] = value;
  sync(first, 32);
  const unsigned other = slots_[thread.x ^ mask];
  sync(first, 32);
  return other;
}

}  // namespace scalegemm::emulated
