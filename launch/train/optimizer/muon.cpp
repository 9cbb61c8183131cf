#include "launch/train/optimizer/muon.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/muon.h"
#include "core/trace/work_log.h"
#include "launch/train/optimizer/moment_parts.h"
#include "launch/train/optimizer/orthogonalize.h"
#include "launch/train/optimizer/value_rounding.h"
#include "launch/train/optimizer/weight_parts.h"
#include "parallel/communicators/traffic.h"

namespace tessera {
namespace {

/// The root mean square of AdamW's updates, which Liu et al. measured.
constexpr double kUpdateSize = 0.2;

Tensor row(const Tensor& matrix, size_t i) {
  const auto at = static_cast<int64_t>(i);
  return matrix.slice(at, at + 1).view({matrix.dim(1)});
}

Tensor part_of(const Tensor& update, Range elements) {
  return update.slice(elements.begin, elements.end);
}

}  // namespace

Muon::Muon(const OptimizerSection& settings, const OptimizerGroups& groups,
           const OptimizerState& state, const ParallelGroups& ranks, uint64_t seed)
    : settings_(settings),
      state_(state),
      precision_(state.store().precision()),
      largest_moment_part_(largest_moment_part(state.store())),
      tp_(*ranks.tp),
      replicas_(ranks.shards->size() > 1 ? *ranks.shards : *ranks.replicas) {
  for (const Parameter& p : state.store().parameters()) {
    const OptimizerGroup& group = groups.groups[static_cast<size_t>(groups.group_of[p.index])];
    if (p.frozen || !group.whole_matrices) continue;
    Weight& weight = weights_.emplace_back(Weight{&p, group, {}, {}});
    const Range own = state.of(p).elements;
    if (settings.stochastic_rounding) weight.rounding = value_rounding(p, own, seed);
    if (state.moment_dtype() == DType::bf16) weight.moment_rounding = moment_rounding(p, own, seed);
  }
  // Slots are equal on all tensor ranks.
  std::ranges::stable_sort(weights_, std::greater<>(),
                           [](const Weight& weight) { return weight.parameter->slot_size; });
  scratch_bytes_ = most_scratch();
}

size_t Muon::most_scratch() const {
  const WorkLog::Scope unlogged(nullptr);
  Arena arena(kMeta);
  for (const Weight& weight : weights_) orthogonalize_weight(*weight.parameter, {}, arena);
  return arena.peak();
}

void Muon::step(int64_t step, double lr, const Tensor& grad_scale, Arena& scratch) const {
  const TrafficScope traffic(Traffic::optimizer);
  const auto ranks = static_cast<size_t>(replicas_.size()) * static_cast<size_t>(tp_.size());
  for (size_t first = 0; first < weights_.size(); first += ranks) {
    const Arena::Scope scope(scratch);
    const size_t count = std::min(ranks, weights_.size() - first);
    Round round{std::span(weights_).subspan(first, count), {}};
    constexpr int64_t kAligned = kAlignment / sizeof(bfloat16);
    const int64_t slot = round_up(round.weights.front().parameter->slot_size, kAligned);
    round.updates = scratch.allocate({static_cast<int64_t>(ranks), slot}, precision_);
    add_gradients(round, step, grad_scale, scratch);
    orthogonalize_own(round, scratch);
    replicas_.all_gather(updates_of_replica(round), round.updates);
    for (size_t i = 0; i < count; ++i) {
      const Weight& weight = round.weights[i];
      const OptimizerShard& own = state_.of(*weight.parameter);
      if (own.elements.empty()) continue;
      MuonStep settings{static_cast<float>(lr * weight.group.lr_factor),
                        static_cast<float>(weight.group.weight_decay)};
      if (weight.rounding) settings.rounding = at_step(*weight.rounding, step + 1);
      muon_step(settings, grad_scale, part_of(row(round.updates, i), own.elements), own.master,
                own.value);
    }
  }
}

/// The place in a round of the first weight that this rank's replica takes.
size_t Muon::first_place() const {
  return static_cast<size_t>(replicas_.rank()) * static_cast<size_t>(tp_.size());
}

// (T, slot)
Tensor Muon::updates_of_replica(const Round& round) const {
  const auto first = static_cast<int64_t>(first_place());
  return round.updates.slice(first, first + tp_.size());
}

void Muon::add_gradients(const Round& round, int64_t step, const Tensor& grad_scale,
                         Arena& scratch) const {
  const bool shares_momentum = state_.store().layout().sharding().sharded();
  MuonMomentum momentum{static_cast<float>(settings_.momentum), settings_.nesterov};
  if (shares_momentum) fill(round.updates, 0.0);
  const size_t first = first_place(), end = first + static_cast<size_t>(tp_.size());
  for (size_t i = 0; i < round.weights.size(); ++i) {
    const Weight& weight = round.weights[i];
    const OptimizerShard& own = state_.of(*weight.parameter);
    if (own.elements.empty()) continue;
    if (weight.moment_rounding) {
      momentum.moment_rounding = at_step(*weight.moment_rounding, step + 1);
    }
    const bool used = shares_momentum || (first <= i && i < end);
    const Tensor update = used ? part_of(row(round.updates, i), own.elements) : Tensor();
    for_each_moment_part(largest_moment_part_, own, &scratch,
                         [&](Range part, const Tensor& exp_avg, const Tensor& /*exp_avg_sq*/) {
                           muon_momentum(momentum, grad_scale, part_of(own.grad, part), exp_avg,
                                         used ? part_of(update, part) : Tensor());
                         });
  }
  // Adds zeros to the elements of one rank, which is exact.
  if (shares_momentum) replicas_.reduce_scatter(round.updates, updates_of_replica(round));
}

void Muon::orthogonalize_own(const Round& round, Arena& scratch) const {
  const Tensor updates = updates_of_replica(round);
  const int ranks = tp_.size();
  Tensor own = updates, others = updates;  // shards of a weight by tensor rank: (T, slot)
  if (ranks > 1) {
    own = scratch.allocate(updates.shape(), updates.dtype());
    others = scratch.allocate(updates.shape(), updates.dtype());
  }
  // Calls exchange(t, weight, update, shards) for the weight that tensor rank t takes.
  const auto for_each_weight = [&](auto&& exchange) {
    for (int t = 0; t < ranks; ++t) {
      const size_t place = first_place() + static_cast<size_t>(t);
      if (place >= round.weights.size()) return;
      exchange(t, *round.weights[place].parameter, row(updates, static_cast<size_t>(t)),
               t == tp_.rank() ? own : others);
    }
  };
  for_each_weight(
      [&](int /*t*/, const Parameter& weight, const Tensor& update, const Tensor& shards) {
        if (parts_of(weight, ranks) > 1) tp_.all_gather(update, shards);
      });
  for_each_weight([&](int t, const Parameter& weight, const Tensor& update, const Tensor& shards) {
    if (t != tp_.rank()) return;
    std::vector<Tensor> parts = {update};
    if (parts_of(weight, ranks) > 1) {
      parts.clear();
      for (size_t i = 0; i < static_cast<size_t>(ranks); ++i) parts.push_back(row(shards, i));
    }
    orthogonalize_weight(weight, parts, scratch);
  });
  {
    // As much as any rank needs, so that a dry run of one rank measures it for all.
    const Arena::Scope scope(scratch);
    scratch.allocate({narrow<int64_t>(scratch_bytes_)}, DType::u8);
  }
  for_each_weight([&](int t, const Parameter& weight, const Tensor& update, const Tensor& shards) {
    if (ranks == 1) return;
    if (parts_of(weight, ranks) == 1) return tp_.broadcast(update, t);
    tp_.broadcast(shards, t);
    copy(row(shards, static_cast<size_t>(tp_.rank())), update);
  });
}

/// Without `parts`, only takes memory from `scratch`.
void Muon::orthogonalize_weight(const Parameter& weight, std::span<const Tensor> parts,
                                Arena& scratch) const {
  for (const MatrixPlace& place : matrices_of(weight)) {
    if (place.rows == 0 || place.columns == 0) continue;
    const Arena::Scope scope(scratch);
    const Tensor matrix = scratch.allocate({place.rows, place.columns}, precision_);
    const auto larger = static_cast<double>(std::max(place.rows, place.columns));
    copy_to_matrix(weight, place, parts, matrix);
    orthogonalize(matrix, settings_.ns_steps, static_cast<float>(kUpdateSize * std::sqrt(larger)),
                  scratch);
    copy_from_matrix(weight, place, matrix, parts);
  }
}

}  // namespace tessera
