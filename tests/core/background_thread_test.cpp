#include "core/threads/background_thread.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <new>
#include <string>

#include "core/error.h"

namespace tessera {
namespace {

TEST(BackgroundThread, RunsJobsInOrderOnItsThread) {
  BackgroundThread background;
  background.wait();  // no job: a no-op
  const std::thread::id here = std::this_thread::get_id();
  std::thread::id first, there;
  for (int job = 0; job < 100; ++job) {
    int done = 0;
    background.start([&] {
      done = job + 1;
      there = std::this_thread::get_id();
    });
    background.wait();
    EXPECT_EQ(done, job + 1);
    if (job == 0) first = there;
    EXPECT_EQ(there, first);
    EXPECT_NE(there, here);
  }
}

TEST(BackgroundThread, ReportsWhetherJobIsRunning) {
  BackgroundThread background;
  EXPECT_FALSE(background.running());
  std::promise<void> may_end;
  background.start([&] { may_end.get_future().wait(); });
  EXPECT_TRUE(background.running());
  EXPECT_FALSE(background.failed());
  EXPECT_THROW(background.start([] {}), Error);
  may_end.set_value();
  background.wait();
  EXPECT_FALSE(background.running());
}

TEST(BackgroundThread, ThrowsJobErrorOnce) {
  BackgroundThread background;
  background.start([] { fail("no disk"); });
  while (background.running()) std::this_thread::yield();
  EXPECT_TRUE(background.failed());
  EXPECT_THROW(background.start([] {}), Error);
  try {
    background.wait();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "no disk");
  }
  EXPECT_FALSE(background.failed());
  background.wait();
  background.start([] { throw std::bad_alloc(); });
  EXPECT_THROW(background.wait(), std::bad_alloc);
}

TEST(BackgroundThread, DiscardDropsError) {
  BackgroundThread background;
  background.discard();  // no job: a no-op
  background.start([] { fail("no disk"); });
  background.discard();
  EXPECT_FALSE(background.failed());
  background.start([] {});
  background.wait();
}

TEST(BackgroundThread, DestructorWaitsForJob) {
  std::atomic<bool> done = false;
  {
    BackgroundThread background;
    background.start([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
      fail("which nobody hears");
    });
  }
  EXPECT_TRUE(done);
}

TEST(BackgroundThread, UsesNoOpenMpThreadsAndNoSignals) {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(4);
  BackgroundThread background;
  int there = 0;
  bool blocked = false;
  background.start([&] {
    there = omp_get_max_threads();
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = sigismember(&mask, SIGTERM) == 1;
  });
  background.wait();
  EXPECT_EQ(there, 1);
  EXPECT_TRUE(blocked);
  EXPECT_EQ(omp_get_max_threads(), 4);
  omp_set_num_threads(threads);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
}

}  // namespace
}  // namespace tessera
