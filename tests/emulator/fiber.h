#pragma once

#include <cstddef>

namespace emulator {

/// The size of a fiber's stack in bytes. AddressSanitizer makes frames larger.
#ifdef __SANITIZE_ADDRESS__
inline constexpr size_t kStackBytes = 256 << 10;
#else
inline constexpr size_t kStackBytes = 64 << 10;
#endif
inline constexpr size_t kPage = 4096;

/// The state of a suspended fiber.
struct Fiber {
  void* stack_pointer = nullptr;
  const std::byte* bottom = nullptr;  ///< of its stack; the page below is inaccessible
};

/// The state of a host thread while fibers run.
struct HostThread {
  void* stack_pointer = nullptr;
};

/// Creates a fiber with its own stack. The first switch to it calls `entry`, which must call
/// fiber_entered() first and must not return. It lives as long as the process.
Fiber* make_fiber(void (*entry)());
void fiber_entered();

/// Suspends the host thread until a fiber returns to it.
void enter_fiber(HostThread& from, Fiber& to);

/// Suspends `from` and resumes `to`.
void switch_fiber(Fiber& from, Fiber& to);
void leave_fiber(Fiber& from, HostThread& to);

}  // namespace emulator
