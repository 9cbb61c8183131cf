#pragma once

#include <cstddef>

namespace emulator {

/// Bytes of a fiber's stack. AddressSanitizer makes frames larger.
#ifdef __SANITIZE_ADDRESS__
inline constexpr size_t kStackBytes = 256 << 10;
#else
inline constexpr size_t kStackBytes = 64 << 10;
#endif
inline constexpr size_t kPage = 4096;

/// Where a fiber stands while another one runs.
struct Fiber {
  void* stack_pointer = nullptr;
  const std::byte* bottom = nullptr;  ///< of its stack; a page without access lies below
};

/// Where a thread of the host stands while fibers run.
struct HostThread {
  void* stack_pointer = nullptr;
};

/// A fiber with a stack of its own that, when first switched to, calls `entry`, which must not
/// return and calls fiber_entered() first. It lasts as long as the process.
Fiber* make_fiber(void (*entry)());
void fiber_entered();

/// Stops the host's thread until a fiber leaves for it.
void enter_fiber(HostThread& from, Fiber& to);

/// Stops at `from` and goes on at `to`.
void switch_fiber(Fiber& from, Fiber& to);
void leave_fiber(Fiber& from, HostThread& to);

}  // namespace emulator
