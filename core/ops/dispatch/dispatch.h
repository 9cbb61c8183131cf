#pragma once

#include <type_traits>
#include <utility>

#include "core/device.h"
#include "core/ops/device_ops.h"
#include "core/trace/trace.h"

namespace tessera {

/// Calls the implementation of an op for `device` with `arguments`. All implementations come from
/// core/ops/device_ops.inc, so their signatures are equal. That of the meta device logs the op's
/// work; without it, an op does not link. Call it within the op's OpRange.
template <auto kCpuOp, auto kCudaOp, auto kMetaOp, typename... Arguments>
void dispatch(Device device, Arguments&&... arguments) {
  static_assert(std::is_same_v<decltype(kCpuOp), decltype(kCudaOp)>);
  static_assert(std::is_same_v<decltype(kCpuOp), decltype(kMetaOp)>);
  if (device.is_meta()) return kMetaOp(std::forward<Arguments>(arguments)...);
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return kCudaOp(std::forward<Arguments>(arguments)...);
  }
  kCpuOp(std::forward<Arguments>(arguments)...);
}

/// The same for what only GPUs do in one kernel: `device` is a GPU or meta.
template <auto kCudaOp, auto kMetaOp, typename... Arguments>
void dispatch_fused(Device device, Arguments&&... arguments) {
  static_assert(std::is_same_v<decltype(kCudaOp), decltype(kMetaOp)>);
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return kCudaOp(std::forward<Arguments>(arguments)...);
  }
  kMetaOp(std::forward<Arguments>(arguments)...);
}

}  // namespace tessera
