#include "parallel/communicators/host/host_bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tessera {
namespace {

// The C library has no wrapper for futex. Not FUTEX_PRIVATE_FLAG, because other processes ring.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

// Rings and sleepers are sequentially consistent: either the ringing thread sees the sleeper, or
// the sleeper sees the ring.
void HostBell::ring() {
  ++rings_;
  if (sleepers_.load() > 0) futex(rings_, FUTEX_WAKE, INT_MAX, nullptr);
}

void HostBell::sleep(uint32_t seen, std::chrono::nanoseconds most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec timeout{seconds.count(), (most - seconds).count()};
  ++sleepers_;
  futex(rings_, FUTEX_WAIT, seen, &timeout);
  --sleepers_;
}

}  // namespace tessera
