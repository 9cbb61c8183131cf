#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/arena.h"
#include "core/ops/stochastic_rounding.h"
#include "core/parameters/optimizer_state.h"
#include "launch/config/sections.h"
#include "launch/train/optimizer/muon.h"
#include "launch/train/optimizer/optimizer_groups.h"
#include "parallel/process_grid.h"

namespace tessera {

/// AdamW or Lion over the flat buffers of a store, or Muon for some of its parameters and AdamW for
/// the others. Adjacent parameters of the same group are updated as one range. With stochastic
/// rounding of values or moments, or with 8-bit moments, each parameter is its own range, because
/// its random bits and its blocks are. If replicas share optimizer shards, each updates its own,
/// and a bucket's values are gathered while the next bucket is updated.
class Optimizer {
 public:
  /// All but `settings` must outlive this. `seed` is for stochastic rounding. Throws if the store
  /// is sharded over ranks other than groups.shards.
  Optimizer(const OptimizerSection& settings, OptimizerState& state, const ParallelGroups& groups,
            uint64_t seed = 0);

  /// Applies update number `step` (counted from 0) after multiplying the gradients by `grad_scale`,
  /// (1) fp32 on the store's device, and moves the average of the weights, if the state keeps one,
  /// towards the new ones. Changes nothing if `grad_scale` is NaN. Muon and 8-bit moments take
  /// memory from `scratch`, which may be null otherwise. Collective over the ranks that share
  /// optimizer shards, with Muon over the replicas and their tensor ranks.
  void step(int64_t step, double lr, const Tensor& grad_scale, Arena* scratch = nullptr);

  /// With stochastic rounding: values = masters, rounded with the bits of the last of `steps_done`
  /// steps, as step() left them. Use it for masters loaded from elsewhere, such as a checkpoint, so
  /// that the resumed run is bitwise the same. After swap_average(), with or without stochastic
  /// rounding. Collective like step().
  void round_values(int64_t steps_done);

  /// Exchanges the masters that this rank updates with their average, so that calling it twice
  /// changes no bit. Values follow in round_values(). Not collective.
  void swap_average();

  size_t num_ranges() const { return updates_.size(); }

 private:
  struct Update {
    OptimizerRange range;  ///< its property is the index of the group
    std::optional<StochasticRounding> rounding = {};
    std::optional<StochasticRounding> moment_rounding = {};
  };

  void add_updates(uint64_t seed);
  /// Calls `work` with each update in order, and gathers the values of a bucket after its last
  /// update.
  template <typename Work>
  void for_each_update(const Work& work) const;
  std::unique_ptr<PendingCollective> gather(const FlatBucket& bucket) const;
  /// Updates a range that is not Muon's.
  void update(const Update& update, int64_t step, double lr, const Tensor& grad_scale,
              Arena* scratch) const;

  OptimizerSection settings_;
  OptimizerGroups groups_;
  const OptimizerState& state_;
  int64_t largest_moment_part_;
  Communicator& shards_;
  std::vector<Update> updates_;
  std::optional<Muon> muon_;
  bool swapped_ = false;  // since values were rounded
};

}  // namespace tessera
