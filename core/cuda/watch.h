#pragma once

#include <functional>

namespace tessera::cuda {

/// What the calling thread looks at while it waits for its GPU, as long as the Watch lives: `look`
/// throws if what the GPU does may never end, as where another rank is gone. It is to be created
/// and destroyed on the thread that waits.
class Watch {
 public:
  explicit Watch(std::function<void()> look);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Returns when `done` returns true, and looks at all of the calling thread's watches meanwhile
  /// and then: what has ended because it failed throws.
  static void until(const std::function<bool()>& done);

  /// Whether the calling thread has any.
  static bool any();

 private:
  static void look_at_all();

  std::function<void()> look_;
};

}  // namespace tessera::cuda
