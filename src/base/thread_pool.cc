// How a job runs
//
//   state_:  | job number (32) | open (1) | tickets (15) | running (16) |
//
// The caller writes the job's fields and then stores a state with a new number and the open bit. A helper
// joins by one compare-and-swap that adds a ticket (its worker number) and itself to `running`. When the
// caller finds no more units it clears the open bit and waits for `running` to fall to 0. So a helper that
// is still waking up never holds the caller back, and the fields change only while nobody can read them.
#include "base/thread_pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>

#include "base/cpu_info.h"

namespace scalegemm::base {
namespace {

constexpr uint64_t kRunning = 1;
constexpr uint64_t kRunningMask = 0xffff;
constexpr uint64_t kTicket = uint64_t{1} << 16;
constexpr int kTicketShift = 16;
constexpr uint64_t kTicketMask = 0x7fff;
constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr int kJobShift = 32;

constexpr int kMostThreads = 1024;

// About 20 us of PAUSE on current cores: longer than the gap between the phases of one GEMM, shorter than
// anyone would notice as load. With more threads than cores spinning only takes time from the others.
constexpr int kSpins = 2000;

uint64_t job_number(uint64_t state) {
  return state >> kJobShift;
}

int running(uint64_t state) {
  return static_cast<int>(state & kRunningMask);
}

int tickets(uint64_t state) {
  return static_cast<int>(state >> kTicketShift & kTicketMask);
}

// How often this process is a fork of the one it started as. A child has the pool's memory but none of its
// threads, and its mutex may be locked by one of them for ever.
std::atomic<int>& forks() {
  static std::atomic<int> count{0};
  static const int kRegistered =
      ::pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(kRegistered);
  return count;
}

}  // namespace

ThreadPool::ThreadPool(int threads) : forks_(forks().load(std::memory_order_relaxed)) {
  threads = std::clamp(threads, 1, kMostThreads);
  if (threads == 1) {
    return;
  }
  spins_ = threads <= detect_cpu().logical_cores ? kSpins : 0;
  // Signals are for the host program's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  helpers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) {
      helpers_.emplace_back([this] { help(); });
    }
  } catch (const std::system_error&) {
    // The limit on threads is reached: those that started are the pool.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ThreadPool::~ThreadPool() {
  if (is_forked()) {
    for (std::thread& helper : helpers_) {
      helper.detach();  // it does not exist here
    }
    // Destroying a condition variable waits for its sleepers, who do not exist either.
    static_cast<void>(sleep_.release());
    return;
  }
  {
    const std::lock_guard lock(sleep_->mutex);
    sleep_->stop = true;
  }
  sleep_->wake.notify_all();
  for (std::thread& helper : helpers_) {
    helper.join();
  }
}

bool ThreadPool::is_forked() const {
  return forks().load(std::memory_order_relaxed) != forks_;
}

void ThreadPool::parallel_for(int64_t units, int64_t chunk, Body body, void* context, int limit) {
  if (units <= 0) {
    return;
  }
  chunk = std::max<int64_t>(chunk, 1);
  const int64_t chunks = (units - 1) / chunk + 1;
  const int workers = limit > 0 ? std::min(limit, threads()) : threads();
  if (workers == 1 || chunks == 1 || is_forked() || busy_.exchange(true, std::memory_order_acquire)) {
    body(context, 0, units, 0);
    return;
  }
  publish(units, chunk, body, context, static_cast<int>(std::min<int64_t>(workers, chunks)) - 1);
  work(0);
  close_and_wait();
  busy_.store(false, std::memory_order_release);
}

void ThreadPool::publish(int64_t units, int64_t chunk, Body body, void* context, int helpers) {
  body_ = body;
  context_ = context;
  units_ = units;
  chunk_ = chunk;
  next_.store(0, std::memory_order_relaxed);
  most_helpers_.store(helpers, std::memory_order_relaxed);
  const uint64_t job = job_number(state_.load(std::memory_order_relaxed)) + 1;
  // Sequentially consistent with the counting of sleepers in wait_for_job: either we see the sleeper, or it
  // sees the job.
  state_.store(job << kJobShift | kOpen);
  if (sleepers_.load() > 0) {
    { const std::lock_guard lock(sleep_->mutex); }
    sleep_->wake.notify_all();
  }
}

void ThreadPool::close_and_wait() {
  uint64_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spin = 0; running(state) != 0 && spin < kSpins; ++spin) {
    __builtin_ia32_pause();
    state = state_.load(std::memory_order_acquire);
  }
  if (running(state) == 0) {
    return;
  }
  std::unique_lock lock(sleep_->mutex);
  caller_sleeps_.store(true);
  sleep_->done.wait(lock, [this] { return running(state_.load()) == 0; });
  caller_sleeps_.store(false);
}

void ThreadPool::work(int worker) {
  // Counting past `units` by at most one chunk a worker cannot overflow for any number of real units.
  for (int64_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed); begin < units_;
       begin = next_.fetch_add(chunk_, std::memory_order_relaxed)) {
    body_(context_, begin, begin + std::min(chunk_, units_ - begin), worker);
  }
}

bool ThreadPool::join(uint64_t state, int* worker) {
  while ((state & kOpen) != 0 && tickets(state) < most_helpers_.load(std::memory_order_relaxed)) {
    if (state_.compare_exchange_weak(state, state + kTicket + kRunning, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      *worker = tickets(state) + 1;
      return true;
    }
  }
  return false;
}

void ThreadPool::leave() {
  const uint64_t before = state_.fetch_sub(kRunning);
  if (running(before) == 1 && caller_sleeps_.load()) {
    { const std::lock_guard lock(sleep_->mutex); }
    sleep_->done.notify_all();
  }
}

uint64_t ThreadPool::wait_for_job(uint64_t last_job) {
  uint64_t state = state_.load(std::memory_order_acquire);
  for (int spin = 0; job_number(state) == last_job && spin < spins_; ++spin) {
    __builtin_ia32_pause();
    state = state_.load(std::memory_order_acquire);
  }
  if (job_number(state) != last_job) {
    return state;
  }
  std::unique_lock lock(sleep_->mutex);
  sleepers_.fetch_add(1);
  sleep_->wake.wait(lock, [&] { return sleep_->stop || job_number(state = state_.load()) != last_job; });
  sleepers_.fetch_sub(1);
  return state;
}

void ThreadPool::help() {
  uint64_t last_job = 0;
  while (true) {
    const uint64_t state = wait_for_job(last_job);
    if (job_number(state) == last_job) {
      return;  // woken to stop
    }
    last_job = job_number(state);
    int worker = 0;
    if (join(state, &worker)) {
      work(worker);
      leave();
    }
  }
}

}  // namespace scalegemm::base
