#pragma once

#include <cstdint>

#include "core/memory.h"
#include "core/parameters/parameter.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Compares the weights of ranks that must hold the same ones: those of a shard on its data ranks,
/// and replicated parameters on the tensor ranks. They differ if a memory, a GPU or a link has
/// corrupted a value, or if hosts round differently.
class ReplicaCheck {
 public:
  /// The references must outlive this.
  ReplicaCheck(const ParameterStore& store, const ParallelGroups& groups);

  /// Throws SharedError, naming the parameter and the ranks that differ from most others, if
  /// weights differ after `step`. Waits for the device. Collective.
  void run(int64_t step);

 private:
  const ParameterStore& store_;
  const ParallelGroups& groups_;
  OwnedTensor sums_;  // (parameters) i64
};

}  // namespace tessera
