#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera {

/// Wakes the threads of one rank when another rank of the host has done something. It lies in
/// shared memory and is valid as soon as its bytes are zero. Sleeping uses no CPU, and notifying
/// without sleepers makes no system call.
class HostEventCount {
 public:
  /// Number of notifications so far. Read it before checking whether there is work.
  uint32_t count() const { return count_.load(); }

  /// Any number of threads of any process may notify concurrently.
  void notify();

  /// Returns when count() exceeds `seen`, after `most` at the latest, and sometimes spuriously.
  void wait_for(uint32_t seen, std::chrono::nanoseconds most);

 private:
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> sleepers_{0};
  static_assert(std::atomic<uint32_t>::is_always_lock_free);
};

}  // namespace tessera
