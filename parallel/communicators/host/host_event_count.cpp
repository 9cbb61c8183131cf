#include "parallel/communicators/host/host_event_count.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tessera {
namespace {

// The C library has no wrapper for futex. Not FUTEX_PRIVATE_FLAG, because other processes notify.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

// count_ and sleepers_ are sequentially consistent: either the notifying thread sees the sleeper,
// or the sleeper sees the new count.
void HostEventCount::notify() {
  ++count_;
  if (sleepers_.load() > 0) futex(count_, FUTEX_WAKE, INT_MAX, nullptr);
}

void HostEventCount::wait_for(uint32_t seen, std::chrono::nanoseconds most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec timeout{seconds.count(), (most - seconds).count()};
  ++sleepers_;
  futex(count_, FUTEX_WAIT, seen, &timeout);
  --sleepers_;
}

}  // namespace tessera
