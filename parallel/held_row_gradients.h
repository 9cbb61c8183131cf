#pragma once

#include <cstdint>
#include <vector>

#include "core/arena.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// The gradients that with sequence parallelism are still to be summed over the tensor ranks: those
/// of norms, of the biases behind row-parallel layers and of position and type embeddings, to which
/// each rank has added the rows that it holds (GradientRows::held).
class HeldRowGradients {
 public:
  /// A run of neighbours with so many elements is summed where it is; shorter ones, which are many,
  /// together in a copy.
  static constexpr int64_t kAlone = int64_t{1} << 18;

  /// `store` is allocated; it and `tp` must outlive this.
  HeldRowGradients(const ParameterStore& store, Communicator& tp);

  /// Sums those that this rank updates: the same bits on every tensor rank. Once a step, after the
  /// data ranks' sum. Takes room from `arena`. Collective over the tensor ranks.
  void sum(Arena& arena) const;

  int64_t num_elements() const;

 private:
  Communicator& tp_;
  std::vector<Tensor> alone_;
  std::vector<Tensor> together_;
};

}  // namespace tessera
