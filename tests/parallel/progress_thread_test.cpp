#include "parallel/communicators/host/progress_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tessera {
namespace {

/// Finishes after a given number of calls of make_progress(), each of which does something.
class Countdown : public Progressable {
 public:
  explicit Countdown(int left, bool rings) : left_(left), rings_(rings) {}

  Progress make_progress() override {
    moved_by_ = std::this_thread::get_id();
    ++calls_;
    if (left_ > 0) --left_;
    return left_ == 0 ? Progress::finished : rings_ ? Progress::some : Progress::nothing;
  }
  bool rings() const override { return rings_; }

  void add(int more) { left_ += more; }
  int left() const { return left_; }
  int calls() const { return calls_; }
  std::thread::id moved_by() const { return moved_by_; }

  void wait_until_finished() const {
    while (left_ > 0) std::this_thread::yield();
  }

 private:
  std::atomic<int> left_, calls_{0};
  std::atomic<std::thread::id> moved_by_;
  bool rings_;
};

TEST(ProgressThread, MovesOnWhatIsWatchedUntilItHasFinished) {
  HostBell bell;
  Countdown first(100, /*rings=*/true), second(3, /*rings=*/false);
  ProgressThread thread(bell);
  thread.watch(first);
  thread.watch(second);
  first.wait_until_finished();
  second.wait_until_finished();
  EXPECT_NE(first.moved_by(), std::this_thread::get_id());
  thread.forget(first);
  thread.forget(second);
  EXPECT_EQ(first.calls(), 100);
  EXPECT_EQ(second.calls(), 3);
}

TEST(ProgressThread, TakesUpAgainWhatHadFinished) {
  HostBell bell;
  Countdown work(1, /*rings=*/true);
  ProgressThread thread(bell);
  // Watch it repeatedly, each time just as the thread releases it.
  for (int round = 0; round < 1000; ++round) {
    thread.watch(work);
    work.wait_until_finished();
    work.add(1);
  }
  thread.watch(work);
  work.wait_until_finished();
  thread.forget(work);
  EXPECT_EQ(work.left(), 0);
  EXPECT_GE(work.calls(), 1001);
}

/// Never has work.
class Idle : public Progressable {
 public:
  Progress make_progress() override {
    ++calls_;
    return Progress::nothing;
  }
  bool rings() const override { return true; }
  int calls() const { return calls_; }

 private:
  std::atomic<int> calls_{0};
};

TEST(ProgressThread, LooksAtWhatRingsWhenTheBellRings) {
  HostBell bell;
  Idle idle;
  ProgressThread thread(bell);
  thread.watch(idle);
  for (int ring = 0; ring < 10; ++ring) {
    const int before = idle.calls();
    while (idle.calls() == before) bell.ring();
  }
  thread.forget(idle);
  const int after = idle.calls();
  bell.ring();
  EXPECT_EQ(idle.calls(), after);
}

TEST(ProgressThread, EndsWithSomethingUnderWay) {
  HostBell bell;
  Idle idle;
  {
    ProgressThread thread(bell);
    thread.watch(idle);
    while (idle.calls() == 0) std::this_thread::yield();
  }
  const int after = idle.calls();
  bell.ring();
  EXPECT_EQ(idle.calls(), after);
}

}  // namespace
}  // namespace tessera
