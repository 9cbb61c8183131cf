#pragma once

#include <cstdint>
#include <vector>

#include "core/memory.h"
#include "core/parameters/optimizer_state.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Compares what ranks must hold alike: values, masters, moments with their scales, and the average
/// of the weights; of replicated parameters on all ranks, of others on the data ranks. They differ
/// if a memory, a GPU or a link has corrupted a number, or if hosts round differently. What
/// replicas share (ZeRO, and the masters of frozen parameters) has copies only on the tensor ranks,
/// if the parameter is replicated there, and on the replicas that do not share it (parallel.shard).
class ReplicaCheck {
 public:
  /// The references must outlive this.
  ReplicaCheck(const OptimizerState& state, const ParallelGroups& groups);

  /// Throws SharedError, naming the parameter and the ranks that differ from most others, if copies
  /// differ after `step`. Waits for the device. Collective.
  void run(int64_t step);

  /// The ranks that hold a tensor alike.
  enum class Copies : uint8_t { world, replicas, tensor_ranks, copies };
  struct Compared {
    const Parameter& parameter;
    const char* what;
    Tensor tensor;
    Copies copies;
  };

 private:
  std::vector<int64_t> checksums() const;

  const ParallelGroups& groups_;
  std::vector<Compared> compared_;  // the same list on all ranks
  OwnedTensor sums_;                // (compared_) i64
};

}  // namespace tessera
