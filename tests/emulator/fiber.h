#pragma once

#include <cstddef>

namespace emulator {

/// Whether each thread of a block has its own fiber, as seen by ThreadSanitizer (TSan), which then
/// finds races between them. Otherwise a fiber runs one thread after the other until one waits.
#ifdef EMULATOR_FINDS_RACES
inline constexpr bool kFindsRaces = true;
#else
inline constexpr bool kFindsRaces = false;
#endif

/// The size of a fiber's stack in bytes. Sanitizers make frames larger.
#if defined(__SANITIZE_ADDRESS__) || defined(EMULATOR_FINDS_RACES)
inline constexpr size_t kStackBytes = 256 << 10;
#else
inline constexpr size_t kStackBytes = 64 << 10;
#endif
inline constexpr size_t kPage = 4096;

/// The state of a suspended fiber.
struct Fiber {
  void* stack_pointer = nullptr;
  const std::byte* bottom = nullptr;  ///< of its stack; the page below is inaccessible
  void* tsan = nullptr;               ///< what TSan calls a fiber
};

/// The state of a host thread while fibers run.
struct HostThread {
  void* stack_pointer = nullptr;
  void* tsan = nullptr;
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
