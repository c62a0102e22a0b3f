// A small pool of threads for plans: splits a range of units over threads, allocates nothing per call.
//
// Units go out in chunks through one atomic counter, so a slow core takes fewer. Which thread runs which
// unit is not fixed: only work whose result does not depend on that belongs here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace scalegemm::base {

class ThreadPool {
 public:
  // Runs units [begin, end). `worker` is in [0, threads()) and no two calls of one job that run at the same
  // time share it, so it can index private memory of that job.
  using Body = void (*)(void* context, int64_t begin, int64_t end, int worker);

  // `threads` counts the caller: 1 starts no thread. Where the system refuses threads the pool has fewer;
  // threads() tells. Threads block all signals and start asleep.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return 1 + static_cast<int>(helpers_.size()); }

  // Calls `body` until all of [0, units) is done, then returns; the caller works too. Everything written by
  // the body is visible to the caller afterwards. At most `limit` workers take part (0: all). From inside a
  // body, while another thread's job has the pool, and in a forked child, the job runs on the calling thread
  // alone as worker 0. The body must not throw.
  void parallel_for(int64_t units, int64_t chunk, Body body, void* context, int limit = 0);

  // The same for a callable (begin, end, worker), which is not copied.
  template <class F>
  void parallel_for(int64_t units, int64_t chunk, F&& body, int limit = 0) {
    using Callable = std::remove_reference_t<F>;
    parallel_for(
        units, chunk,
        [](void* context, int64_t begin, int64_t end, int worker) {
          (*static_cast<Callable*>(context))(begin, end, worker);
        },
        const_cast<void*>(static_cast<const void*>(&body)), limit);
  }

 private:
  bool is_forked() const;
  void help();
  bool join(uint64_t state, int* worker);
  void work(int worker);
  void leave();
  void publish(int64_t units, int64_t chunk, Body body, void* context, int helpers);
  void close_and_wait();
  uint64_t wait_for_job(uint64_t last_job);

  // One word says whether there is a job to join, see thread_pool.cc.
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<bool> busy_{false};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<int> most_helpers_{0};
  // The job: written only while no helper can join, read only by those who joined.
  Body body_ = nullptr;
  void* context_ = nullptr;
  int64_t units_ = 0;
  int64_t chunk_ = 1;

  // For threads that sleep. On the heap, because a forked child can neither use nor destroy it.
  struct Sleep {
    std::mutex mutex;
    std::condition_variable wake;
    std::condition_variable done;
    bool stop = false;  // under mutex
  };
  std::unique_ptr<Sleep> sleep_ = std::make_unique<Sleep>();
  int spins_ = 0;
  int forks_ = 0;  // of the process when the pool was made
  std::vector<std::thread> helpers_;
};

}  // namespace scalegemm::base
