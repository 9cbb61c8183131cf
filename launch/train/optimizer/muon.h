#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/arena.h"
#include "core/ops/stochastic_rounding.h"
#include "core/parameters/optimizer_state.h"
#include "launch/config/sections.h"
#include "launch/train/optimizer/optimizer_groups.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Muon for the weights of linear layers in blocks (Jordan et al., "Muon: An optimizer for hidden
/// layers in neural networks", 2024): each matrix is moved by its orthogonalized momentum, times
/// 0.2 × √(larger of rows and columns), so that the root mean square of an update is about AdamW's
/// (Liu et al., "Muon is Scalable for LLM Training", 2025).
///
/// A matrix is orthogonalized as a whole, on one rank. The D replicas of T tensor ranks take one
/// weight per rank at a time, the largest weights first:
///
///  1. Each rank adds the gradients that it owns to their momentum. If replicas share the
///     momentum, a reduce-scatter collects the shard of each weight on the one that takes it.
///  2. The tensor rank that takes a weight gathers its shards.
///  3. All compute at once.
///  4. A broadcast returns each update to the tensor ranks, and an all-gather to the replicas.
///  5. Each rank moves the weights that it owns.
///
/// Updates are exchanged in compute precision.
class Muon {
 public:
  /// `state` and `ranks` must outlive this.
  Muon(const OptimizerSection& settings, const OptimizerGroups& groups, const OptimizerState& state,
       const ParallelGroups& ranks, uint64_t seed);

  /// Applies update number `step`, counted from 0, like Optimizer::step(), to masters and to the
  /// values that this rank owns. Collective over the replicas and their tensor ranks. The first
  /// rank of each group has the largest weights; `scratch` has the same size on all ranks.
  void step(int64_t step, double lr, const Tensor& grad_scale, Arena& scratch) const;

 private:
  struct Weight {
    const Parameter* parameter;
    OptimizerGroup group;
    std::optional<StochasticRounding> rounding, moment_rounding;
  };
  /// Weights that different ranks take, and their updates.
  struct Round {
    std::span<const Weight> weights;
    Tensor updates;  // (D × T, the largest local shard) in compute precision
  };

  size_t first_place() const;
  Tensor updates_of_replica(const Round& round) const;
  void add_gradients(const Round& round, int64_t step, const Tensor& grad_scale,
                     Arena& scratch) const;
  void orthogonalize_own(const Round& round, Arena& scratch) const;
  void orthogonalize_weight(const Parameter& weight, std::span<const Tensor> parts,
                            Arena& scratch) const;
  size_t most_scratch() const;

  OptimizerSection settings_;
  const OptimizerState& state_;
  DType precision_;
  int64_t largest_moment_part_;
  Communicator& tp_;
  Communicator& replicas_;
  std::vector<Weight> weights_;  // from the largest on
  size_t scratch_bytes_ = 0;     // for the weight that needs most
};

}  // namespace tessera
