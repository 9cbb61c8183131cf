#pragma once

#include <cstdint>
#include <vector>

#include "core/arena.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Sums over the tensor ranks the gradients of which each has a part (partial_over): always those
/// of parameters that see only the local heads, the weights of QK norm; with sequence parallelism
/// also those that see only the local rows: norms, biases after row-parallel layers, and position
/// and type embeddings.
class PartialGradients {
 public:
  /// A contiguous range with at least this many elements is reduced in place. The many shorter
  /// ranges are copied into one buffer and reduced together.
  static constexpr int64_t kAlone = int64_t{1} << 18;

  /// `store` must be allocated. `store` and `tp` must outlive this object.
  PartialGradients(const ParameterStore& store, Communicator& tp);

  /// Sums the gradients that this rank updates; every tensor rank gets the same bits. Call it once
  /// per step, after gradients are summed over the data ranks. Allocates scratch memory in `arena`.
  /// Collective over the tensor ranks.
  void sum(Arena& arena) const;

  int64_t num_elements() const;

 private:
  Communicator& tp_;
  std::vector<Tensor> alone_;
  std::vector<Tensor> together_;
};

}  // namespace tessera
