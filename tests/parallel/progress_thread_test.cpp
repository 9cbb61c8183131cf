#include "parallel/communicators/host/progress_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tessera {
namespace {

/// Finishes after a given number of calls of make_progress(), each of which does something.
class Countdown : public Progressable {
 public:
  explicit Countdown(int left, bool notifies) : left_(left), notifies_(notifies) {}

  Progress make_progress() override {
    moved_by_ = std::this_thread::get_id();
    ++calls_;
    if (left_ > 0) --left_;
    return left_ == 0 ? Progress::finished : notifies_ ? Progress::some : Progress::nothing;
  }
  bool notifies() const override { return notifies_; }

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
  bool notifies_;
};

TEST(ProgressThread, DrivesWatchedWorkUntilFinished) {
  HostEventCount event;
  Countdown first(100, /*notifies=*/true), second(3, /*notifies=*/false);
  ProgressThread thread(event);
  thread.watch(first);
  thread.watch(second);
  first.wait_until_finished();
  second.wait_until_finished();
  EXPECT_NE(first.moved_by(), std::this_thread::get_id());
  thread.remove(first);
  thread.remove(second);
  EXPECT_EQ(first.calls(), 100);
  EXPECT_EQ(second.calls(), 3);
}

TEST(ProgressThread, ResumesFinishedWork) {
  HostEventCount event;
  Countdown work(1, /*notifies=*/true);
  ProgressThread thread(event);
  // Watch it repeatedly, each time just as the thread releases it.
  for (int round = 0; round < 1000; ++round) {
    thread.watch(work);
    work.wait_until_finished();
    work.add(1);
  }
  thread.watch(work);
  work.wait_until_finished();
  thread.remove(work);
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
  bool notifies() const override { return true; }
  int calls() const { return calls_; }

 private:
  std::atomic<int> calls_{0};
};

TEST(ProgressThread, PollsNotifyingWorkOnlyWhenNotified) {
  HostEventCount event;
  Idle idle;
  ProgressThread thread(event);
  thread.watch(idle);
  for (int i = 0; i < 10; ++i) {
    const int before = idle.calls();
    while (idle.calls() == before) event.notify();
  }
  thread.remove(idle);
  const int after = idle.calls();
  event.notify();
  EXPECT_EQ(idle.calls(), after);
}

TEST(ProgressThread, EndsWithPendingWork) {
  HostEventCount event;
  Idle idle;
  {
    ProgressThread thread(event);
    thread.watch(idle);
    while (idle.calls() == 0) std::this_thread::yield();
  }
  const int after = idle.calls();
  event.notify();
  EXPECT_EQ(idle.calls(), after);
}

}  // namespace
}  // namespace tessera
