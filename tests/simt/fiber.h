#pragma once

#include <cstddef>

namespace simt {

/// Bytes of a fiber's stack. AddressSanitizer makes frames larger.
#ifdef __SANITIZE_ADDRESS__
inline constexpr size_t kStackBytes = 256 << 10;
#else
inline constexpr size_t kStackBytes = 64 << 10;
#endif
inline constexpr size_t kPage = 4096;

/// Where a thread of the host, or a fiber, stands while another one runs.
struct Context {
  void* stack_pointer = nullptr;
  const void* bottom = nullptr;  ///< lowest byte of its stack; a page without access lies below
  size_t bytes = 0;
  void* fake_stack = nullptr;  ///< AddressSanitizer's
};

/// A context with a stack of its own that, when first switched to, calls `entry`, which must not
/// return. It lasts as long as the process.
Context make_fiber(void (*entry)());

/// Stops at `from` and goes on at `to`.
void switch_context(Context& from, Context& to);

/// To be called first in a fiber's entry.
void fiber_entered();

}  // namespace simt
