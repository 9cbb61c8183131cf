#pragma once

#include <type_traits>

#include "core/device.h"
#include "core/ops/device_ops.h"
#include "core/trace/output_watch.h"
#include "core/trace/trace.h"

namespace tessera {

/// Shows the outputs of an op, which are its parameters of type Tensor, to the thread's watch.
template <typename... Parameters, typename... Arguments>
void show_outputs(void (*)(Parameters...), const Arguments&... arguments) {
  OutputWatch* watch = OutputWatch::current();
  if (watch == nullptr) return;
  const OutputWatch::Scope none(nullptr);
  const auto show = [&]<typename Parameter>(std::type_identity<Parameter>, const auto& argument) {
    if constexpr (std::is_same_v<Parameter, Tensor>) {
      if (argument.defined()) watch->wrote(argument);
    }
  };
  (show(std::type_identity<Parameters>(), arguments), ...);
}

/// Calls the implementation of an op for `device` with `arguments`. All implementations come from
/// core/ops/device_ops.inc, so their signatures are equal. That of the meta device logs the op's
/// work; without it, an op does not link. Call it within the op's OpRange.
template <auto kCpuOp, auto kCudaOp, auto kMetaOp, typename... Arguments>
void dispatch(Device device, const Arguments&... arguments) {
  static_assert(std::is_same_v<decltype(kCpuOp), decltype(kCudaOp)>);
  static_assert(std::is_same_v<decltype(kCpuOp), decltype(kMetaOp)>);
  if (device.is_meta()) return kMetaOp(arguments...);
  if constexpr (kHasCuda) {
    if (device.is_cuda()) {
      kCudaOp(arguments...);
      return show_outputs(kCudaOp, arguments...);
    }
  }
  kCpuOp(arguments...);
  show_outputs(kCpuOp, arguments...);
}

/// dispatch() for ops that only GPUs fuse into one kernel: `device` is a GPU or meta.
template <auto kCudaOp, auto kMetaOp, typename... Arguments>
void dispatch_fused(Device device, const Arguments&... arguments) {
  static_assert(std::is_same_v<decltype(kCudaOp), decltype(kMetaOp)>);
  if constexpr (kHasCuda) {
    if (device.is_cuda()) {
      kCudaOp(arguments...);
      return show_outputs(kCudaOp, arguments...);
    }
  }
  kMetaOp(arguments...);
}

}  // namespace tessera
