#include "core/trace/device_mark.h"

#include "core/cuda/runtime.h"

namespace tessera {

DeviceMark::DeviceMark(Device device) {
  if constexpr (kHasCuda) {
    if (device.is_cuda()) event_.reset(cuda::make_event());
  }
}

void DeviceMark::record() {
  if constexpr (kHasCuda) {
    if (!event_) return;
    cuda::record_event(event_.get());
    recorded_ = true;
  }
}

void DeviceMark::wait() {
  if constexpr (kHasCuda) {
    if (!recorded_) return;
    cuda::wait_for_event(event_.get());
    recorded_ = false;
  }
}

void DeviceMark::Release::operator()(void* event) const {
  if constexpr (kHasCuda) cuda::release_event(event);
}

}  // namespace tessera
