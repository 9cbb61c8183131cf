#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

/// Checks of the arguments of ops. Every message names the op and the argument.
namespace tessera {

/// Throws unless `tensor` is fp32 or bf16 with at least one dim.
void require_float(const Tensor& tensor, const char* op, const char* name);

/// Throws unless `tensor` has the shape and dtype of `like`.
void require_like(const Tensor& tensor, const Tensor& like, const char* op, const char* name);

/// Throws unless `out` is exactly `in` or shares no byte with it. An undefined `in` passes.
void require_same_or_disjoint(const Tensor& out, const char* out_name, const Tensor& in,
                              const char* in_name, const char* op);

/// Throws if `out` shares a byte with `in`.
void require_disjoint(const Tensor& out, const char* out_name, const Tensor& in,
                      const char* in_name, const char* op);

/// common_device() for tensors that are not on the meta device.
Device common_device_of(const char* op, std::span<const Tensor* const> tensors);

/// Whether an argument is on the meta device, so there is nothing to compute. A dry run mixes meta
/// activations with real parameters and tokens.
template <typename... Tensors>
bool any_meta(const Tensors&... tensors) {
  return (tensors.device().is_meta() || ...);
}

/// The common device of the defined tensors: meta if any is on it. Throws if they are on different
/// devices.
template <typename... Tensors>
Device common_device(const char* op, const Tensors&... tensors) {
  if (any_meta(tensors...)) return kMeta;
  const Tensor* const all[] = {&tensors...};
  return common_device_of(op, all);
}

}  // namespace tessera
