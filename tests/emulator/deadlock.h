#pragma once

#include <functional>
#include <string>
#include <thread>

/// Detects deadlocks: host threads that wait for work which none of them will enqueue any more. All
/// functions except the first require stream_mutex().
namespace emulator {

/// Describes what streams wait for, if only threads for which `waits` is true could enqueue it;
/// otherwise returns "".
using DeadlockCheck = std::string (*)(const std::function<bool(std::thread::id)>& waits);
/// Adds a function for fail_if_all_wait() to ask.
void add_deadlock_check(DeadlockCheck tell);

/// Work was enqueued or done, so waiting threads may be able to continue.
void something_happens();

/// The calling thread waits for GPU work that cannot be done now.
class HostWait {
 public:
  HostWait();
  ~HostWait();
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;
};

/// The calling thread has polled for work that cannot be done now. A thread that polls repeatedly
/// for seconds, during which nothing happens, counts as waiting.
void host_has_asked();

/// Ends the process with a report if all threads wait for work that nobody will ever enqueue.
void fail_if_all_wait();

}  // namespace emulator
