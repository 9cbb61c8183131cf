#include "core/device_mark.h"

#include "core/cuda/runtime.h"

namespace tessera {

DeviceMark::DeviceMark(Device device) {
  if constexpr (kHasCuda) {
    if (device.is_cuda()) event_.reset(cuda::make_event());
  }
}

void DeviceMark::record() {
  if constexpr (kHasCuda) {
    if (event_) cuda::record_event(event_.get());
  }
}

void DeviceMark::wait() {
  if constexpr (kHasCuda) {
    if (event_) cuda::wait_for_event(event_.get());
  }
}

void DeviceMark::Release::operator()(void* event) const {
  if constexpr (kHasCuda) cuda::release_event(event);
}

}  // namespace tessera
