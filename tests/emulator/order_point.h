#pragma once

#ifdef EMULATOR_FINDS_RACES
#include <sanitizer/tsan_interface.h>
#endif

namespace emulator {

/// Tells ThreadSanitizer that whatever came before a release comes before what follows an acquire.
/// Does nothing in other builds.
class OrderPoint {
 public:
  void release() {
#ifdef EMULATOR_FINDS_RACES
    __tsan_release(this);
#endif
  }
  void acquire() {
#ifdef EMULATOR_FINDS_RACES
    __tsan_acquire(this);
#endif
  }
};

}  // namespace emulator
