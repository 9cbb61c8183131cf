#pragma once

#include <memory>

#include "parallel/communicator.h"

namespace tessera {

/// The borders of a tensor-parallel region, in conjugate pairs: each one's backward is the other's
/// forward (Shoeybi et al., "Megatron-LM", 2019, functions f and g).
///
///   copy_to_tp      forward: nothing; every rank has x       backward: the sum of the ranks' dx
///   reduce_from_tp  forward: the sum of the ranks' parts     backward: nothing; every rank has dy

/// Starts the sum of the ranks' partial dx, in place; other work may run until the result's wait().
[[nodiscard]] inline std::unique_ptr<PendingCollective> copy_to_tp_backward(Tensor dx,
                                                                            Communicator& tp) {
  return tp.all_reduce_async(dx);
}

/// y becomes the sum of the ranks' partial y.
inline void reduce_from_tp_forward(Tensor y, Communicator& tp) { tp.all_reduce(y); }

}  // namespace tessera
