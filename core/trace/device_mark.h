#pragma once

#include <memory>

#include "core/device.h"

namespace tessera {

/// A point in a device's work that the host can wait for. On the CPU, where work is done when a
/// call returns, waiting is a no-op.
class DeviceMark {
 public:
  explicit DeviceMark(Device device);

  /// Marks the end of what this thread has enqueued so far.
  void record();
  /// Waits for the work before the last record() and throws its errors. A second wait() does not
  /// query the device, so any thread may call it.
  void wait();

 private:
  struct Release {
    void operator()(void* event) const;
  };
  std::unique_ptr<void, Release> event_;
  bool recorded_ = false;  // since the last wait()
};

}  // namespace tessera
