#pragma once

#include <memory>

#include "core/device.h"

namespace tessera {

/// A point in the order of a device's work that the host can wait for. On the CPU, where work is
/// done when a call returns, there is nothing to wait for.
class DeviceMark {
 public:
  explicit DeviceMark(Device device);

  /// Now: behind all that this thread has enqueued.
  void record();
  /// Returns when the work before the last record() is done. Throws what went wrong in it. When
  /// that was waited for before, it asks no device, so that any thread may call it.
  void wait();

 private:
  struct Release {
    void operator()(void* event) const;
  };
  std::unique_ptr<void, Release> event_;
  bool recorded_ = false;  // since the last wait()
};

}  // namespace tessera
