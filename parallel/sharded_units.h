#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/memory.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/process_grid.h"
#include "parallel/step_context.h"

namespace tessera {

/// ZeRO stages 2 and 3 for the blocks of a model, of which a rank keeps only its shards of the
/// gradients and, in stage 3, of the values.
///
/// Values: a pass finds those of a block in one of two slots of the largest block's size. The
/// all-gather of the block that comes next runs while this one computes. A slot keeps its block
/// until another one needs it or the values change, so that the backward pass finds those of the
/// last two blocks.
///
/// Gradients: the backward pass of a block writes them to one of two slots. Then they are
/// reduce-scattered, which runs while the next block computes, and added to this rank's shard. So
/// each micro-batch has a reduction. Replicas that hold copies of a shard sum it once per step.
///
/// Slots are chosen by the number of the unit, so their addresses are the same in every pass. All
/// ranks that share the shards must run the same passes.
class ShardedUnits final : public UnitListener {
 public:
  using Observer = std::function<void(const Parameter&)>;

  /// Has nothing to do, and no memory, unless the layout of `store` shards gradients or values.
  /// `store` must be allocated. Gradients are reduced in `reduce_dtype`, fp32 or bf16. All
  /// references must outlive this.
  ShardedUnits(ParameterStore& store, const ParallelGroups& groups, DType reduce_dtype);

  void begin(const StepContext& ctx, const UnitUse& use) override;
  void end(const StepContext& ctx, const UnitUse& use) override;

  /// From now on, gradients overwrite those of the step before.
  void begin_step();
  /// Waits until every gradient of the step is summed.
  void finish_step();
  /// Call it after the shards of values have changed: slots no longer count.
  void forget_values();
  /// Until it is replaced by an empty one, `observer` sees each gradient of a block before it is
  /// summed over ranks.
  void observe(Observer observer) { observer_ = std::move(observer); }

  size_t value_bytes() const;
  size_t gradient_bytes() const;

 private:
  using Pending = std::unique_ptr<PendingCollective>;

  struct ValueSlot {
    Buffer trained, frozen;
    std::optional<size_t> unit;
    Pending pending_trained, pending_frozen;
  };
  struct GradientSlot {
    Buffer gradients, rounded;   // fp32, and bf16 to reduce in
    std::optional<size_t> unit;  // whose sum is pending
    std::optional<size_t> like;  // the gaps between gradients are those of this unit, and zero
    bool direct = false;         // whether the sum is written to the shard
    bool last = false;           // whether this is the last micro-batch
    Pending pending;
  };

  const FlatBucket& bucket_of(size_t unit) const;
  bool shards_gradients(size_t unit) const { return bucket_of(unit).shards_gradients(); }
  UnitValues values_in(const ValueSlot& slot, size_t unit) const;
  Tensor gradients_in(const GradientSlot& slot, size_t unit) const;
  Tensor reduced_in(const GradientSlot& slot, size_t unit) const;
  Tensor shard_of_gradients(size_t unit) const;

  /// The work of the host when a block begins, and when its backward pass ends.
  void arrive(const UnitUse& use);
  void reduce(size_t unit, bool last);

  /// Zeroes the gaps between the gradients of a unit.
  void clear_gaps(GradientSlot& slot, size_t unit);

  void gather(size_t unit);
  void settle(GradientSlot& slot);
  void sum_copies(size_t unit);

  ParameterStore& store_;
  Communicator& shards_;
  Communicator& copies_;
  DType reduce_dtype_;
  std::vector<ValueSlot> values_;        // two, or none
  std::vector<GradientSlot> gradients_;  // likewise
  std::vector<bool> has_sum_;            // by unit: whether the step has a sum of a micro-batch
  std::vector<Pending> copied_;          // by unit: sums over the copies
  Observer observer_;
};

}  // namespace tessera
