#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera {

/// What the threads of one rank sleep at until another rank of the host has done something. It lies
/// in memory that the ranks share, and is there as soon as its bytes are zeros. Sleeping costs
/// nothing, and ringing a bell at which nobody sleeps costs no call of the system.
class HostBell {
 public:
  /// How often it has rung. To be read before one looks whether there is something to do.
  uint32_t rings() const { return rings_.load(); }

  /// Any number of threads of any process may ring at once.
  void ring();

  /// Returns when it has rung more than `seen` times, at the latest after `most`, and sometimes
  /// for no reason.
  void sleep(uint32_t seen, std::chrono::nanoseconds most);

 private:
  std::atomic<uint32_t> rings_{0};
  std::atomic<uint32_t> sleepers_{0};
  static_assert(std::atomic<uint32_t>::is_always_lock_free);
};

}  // namespace tessera
