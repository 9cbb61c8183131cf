#pragma once

#include <functional>

namespace tessera::cuda {

/// A check that the calling thread runs while it waits for its GPU, for the lifetime of the object.
/// `check` throws if the GPU's work may never end, for example because another rank is gone. Create
/// and destroy it on the thread that waits.
class WaitCheck {
 public:
  explicit WaitCheck(std::function<void()> check);
  ~WaitCheck();
  WaitCheck(const WaitCheck&) = delete;
  WaitCheck& operator=(const WaitCheck&) = delete;

  /// Returns when `done` returns true. Runs all checks of the calling thread while it waits and
  /// once at the end, so that work that ended because it failed throws.
  static void wait_until(const std::function<bool()>& done);

  /// Whether the calling thread has any.
  static bool any();

 private:
  static void run_all();

  std::function<void()> check_;
};

}  // namespace tessera::cuda
