#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Counts every allocation of this program, to show that a dispatch makes none.
void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) {
    return memory;
  }
  std::abort();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace scalegemm::base {
namespace {

using namespace std::chrono_literals;

// Runs one job and checks that every unit ran once, in chunks that are no larger than asked.
void check_job(ThreadPool& pool, int64_t units, int64_t chunk, int limit = 0) {
  std::vector<int> runs(static_cast<size_t>(units), 0);  // each written by one worker; tsan would tell
  const int workers = limit > 0 ? std::min(limit, pool.threads()) : pool.threads();
  std::vector<std::atomic<int>> in_use(static_cast<size_t>(workers));
  pool.parallel_for(
      units, chunk,
      [&](int64_t begin, int64_t end, int worker) {
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, workers);
        EXPECT_EQ(in_use[static_cast<size_t>(worker)].fetch_add(1), 0) << "two users of one worker's memory";
        ASSERT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) {
          ++runs[static_cast<size_t>(i)];
        }
        in_use[static_cast<size_t>(worker)].fetch_sub(1);
      },
      limit);
  EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), int64_t{0}), units);
  for (const int count : runs) {
    ASSERT_EQ(count, 1);
  }
}

TEST(ThreadPool, EveryUnitOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t units : {0, 1, 2, 7, 64, 1000}) {
      for (const int64_t chunk : {1, 3, 64, 5000}) {
        check_job(pool, units, chunk);
        check_job(pool, units, chunk, 2);
      }
    }
  }
}

TEST(ThreadPool, ManyShortJobsWithAndWithoutSleepInBetween) {
  ThreadPool pool(4);
  for (int i = 0; i < 3000; ++i) {
    check_job(pool, 1 + i % 17, 1 + i % 3);
    if (i % 500 == 0) {
      std::this_thread::sleep_for(5ms);
    }
  }
}

TEST(ThreadPool, ConcurrentCallersAllFinish) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&pool] {
      for (int i = 0; i < 400; ++i) {
        check_job(pool, 1 + i % 40, 1 + i % 4);
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
}

TEST(ThreadPool, NestedJobsRunOnTheirCaller) {
  ThreadPool pool(4);
  std::atomic<int> inner{0};
  pool.parallel_for(16, 1, [&](int64_t, int64_t, int) {
    const auto self = std::this_thread::get_id();
    pool.parallel_for(10, 1, [&](int64_t begin, int64_t end, int worker) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_EQ(worker, 0);
      inner += static_cast<int>(end - begin);
    });
  });
  EXPECT_EQ(inner, 160);
}

TEST(ThreadPool, HelpersTakePart) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  // Both chunks wait for each other: this ends only when two threads run them.
  pool.parallel_for(2, 1, [&](int64_t, int64_t, int) {
    arrived.fetch_add(1);
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (arrived.load() < 2 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(arrived.load(), 2);
  });
}

TEST(ThreadPool, WaitsForAHelperThatIsLate) {
  ThreadPool pool(2);
  std::atomic<bool> helper_joined{false};
  std::atomic<bool> helper_done{false};
  pool.parallel_for(2, 1, [&](int64_t, int64_t, int worker) {
    if (worker == 0) {
      while (!helper_joined) {
        std::this_thread::yield();
      }
      return;
    }
    helper_joined = true;
    std::this_thread::sleep_for(50ms);
    helper_done = true;
  });
  EXPECT_TRUE(helper_done);
}

TEST(ThreadPool, CallableIsNotCopied) {
  struct Counter {
    int64_t sum = 0;
    Counter() = default;
    Counter(const Counter&) = delete;
    Counter& operator=(const Counter&) = delete;
    void operator()(int64_t begin, int64_t end, int) { sum += end - begin; }
  };
  Counter counter;
  ThreadPool(1).parallel_for(42, 5, counter);
  EXPECT_EQ(counter.sum, 42);
}

TEST(ThreadPool, ADispatchAllocatesNothing) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  const auto dispatch = [&] {
    pool.parallel_for(100, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  };
  dispatch();
  const int64_t before = allocations.load();
  for (int i = 0; i < 100; ++i) {
    dispatch();
  }
  EXPECT_EQ(allocations.load(), before);
  EXPECT_EQ(sum, 10100);
}

TEST(ThreadPool, OneThreadCostsNothing) {
  ThreadPool pool(1);
  int64_t sum = 0;
  const auto begin = std::chrono::steady_clock::now();
  constexpr int kCalls = 200000;
  for (int i = 0; i < kCalls; ++i) {
    pool.parallel_for(8, 1, [&](int64_t first, int64_t last, int) { sum += last - first; });
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(sum, int64_t{8} * kCalls);
  EXPECT_LT(spent.count() / kCalls, 1.0) << "microseconds a dispatch";
}

// The child of a fork has the pool but none of its threads.
TEST(ThreadPool, AForkedChildStillComputes) {
  auto pool = std::make_unique<ThreadPool>(3);
  check_job(*pool, 100, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);  // a child that hangs fails
    int64_t sum = 0;
    pool->parallel_for(1000, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    pool.reset();
    ::_exit(sum == 1000 ? 0 : 1);
  }
  check_job(*pool, 100, 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace scalegemm::base
