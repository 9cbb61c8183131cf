#pragma once

#include <functional>
#include <string>
#include <thread>

/// Streams that stand still for ever: threads of the host wait for what none of them will enqueue
/// any more. All calls but the first are to be made with stream_mutex() held.
namespace emulator {

/// Tells what streams stand still for, if nobody but `waits`' threads could enqueue it; else "".
using Standstill = std::string (*)(const std::function<bool(std::thread::id)>& waits);
/// Adds one that is asked by fail_if_all_wait().
void add_standstill(Standstill tell);

/// Work was enqueued or done: whoever waits may have got what it waits for.
void something_happens();

/// The calling thread waits for the GPU, for what cannot be done now.
class HostWait {
 public:
  HostWait();
  ~HostWait();
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;
};

/// The calling thread has asked whether something is done, and it cannot be done now. One that
/// asks again and again for seconds, in which nothing happens, waits.
void host_has_asked();

/// Ends the process, with what it waits for, if nobody will ever do it.
void fail_if_all_wait();

}  // namespace emulator
