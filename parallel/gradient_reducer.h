#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/memory.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/pass_recorder.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Sums gradients over the replicas while the backward pass runs, but for those that ShardedUnits
/// sums. The reduction of a bucket starts when its last gradient is final. Without ZeRO it is an
/// all-reduce, and every rank gets all sums. With ZeRO it is an in-place reduce-scatter over the
/// ranks that share the shards, and then an all-reduce over the copies of a shard: each rank gets
/// the sums of its optimizer shard, and the other gradients are undefined afterwards.
///
/// In bf16 a bucket's gradients are rounded to a copy, which is reduced instead, and its sums are
/// converted back: half the bytes, and two more passes over the gradients. Gradients of a rank's
/// micro-batches have been accumulated in fp32 before, and all that follows is in fp32.
class GradientReducer {
 public:
  /// `store` must be allocated; both arguments must outlive this object. `dtype` is fp32 or bf16.
  /// Throws if the store is sharded over other ranks.
  GradientReducer(const ParameterStore& store, const ParallelGroups& groups,
                  DType dtype = DType::f32);

  /// Bytes of the copies that reduce gradients of `store` in `dtype`.
  static size_t copy_bytes(const ParameterStore& store, DType dtype);
  size_t copy_bytes() const { return rounded_.buffer.bytes(); }

  /// Marks a parameter's gradient as final. Call it once per parameter and step, in the same order
  /// on all replicas. With a recorder, the start of a bucket's reduction is an action of the host.
  void add(const Parameter& parameter, PassRecorder* recorder = nullptr);

  /// Leaves the reducer as if nothing had been added, after a pass that was recorded.
  void forget();

  /// Waits until every gradient is summed. Throws if a parameter was never added.
  void finalize();

 private:
  struct Reduction {
    size_t bucket;
    std::unique_ptr<PendingCollective> pending;
  };

  /// Whether the gradients of a bucket are summed here: if any is trained, and not in ShardedUnits.
  bool sums(size_t bucket) const;
  void start(size_t bucket);
  bool reduces_copies() const { return rounded_.tensor.defined(); }
  std::unique_ptr<PendingCollective> sum(size_t bucket) const;
  /// The gradients of a bucket, or what is reduced instead.
  Tensor reduced(size_t bucket, Range elements) const;
  void progress();

  const ParameterStore& store_;
  Communicator& shards_;
  Communicator& copies_;
  OwnedTensor rounded_;                 ///< bf16; undefined in fp32
  std::vector<int64_t> rounded_begin_;  ///< of each bucket, its first element there
  std::vector<int64_t> missing_;        ///< gradients of each bucket that are not final yet
  std::vector<bool> added_;             ///< by parameter, in the store's order
  std::vector<const Parameter*> parameters_;
  std::vector<Reduction> reductions_;
};

}  // namespace tessera
