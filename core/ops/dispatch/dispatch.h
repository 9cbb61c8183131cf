#pragma once

#include <type_traits>
#include <utility>

#include "core/device.h"
#include "core/ops/device_ops.h"

namespace tessera {

/// Calls the implementation of an op for `device` with `arguments`; does nothing on the meta
/// device. Both implementations come from core/ops/device_ops.inc, so their signatures are equal.
template <auto kCpuOp, auto kCudaOp, typename... Arguments>
void dispatch(Device device, Arguments&&... arguments) {
  static_assert(std::is_same_v<decltype(kCpuOp), decltype(kCudaOp)>);
  if (device.is_meta()) return;
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return kCudaOp(std::forward<Arguments>(arguments)...);
  }
  kCpuOp(std::forward<Arguments>(arguments)...);
}

}  // namespace tessera
