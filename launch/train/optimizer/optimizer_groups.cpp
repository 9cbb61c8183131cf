#include "launch/train/optimizer/optimizer_groups.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/name_pattern.h"
#include "launch/support/text/json.h"
#include "launch/train/diagnosis/layer_norms.h"
#include "launch/train/run_layout.h"
#include "parallel/layers/low_rank_adapter.h"

namespace tessera {
namespace {

/// A block's place in its stack.
struct BlockName {
  std::string_view stack;  ///< "blocks" or "decoder.blocks"
  int64_t number;
};

std::optional<BlockName> block_of(std::string_view parameter) {
  const std::string_view layer = layer_of(parameter);
  const size_t dot = layer.rfind('.');
  if (dot == std::string_view::npos || !layer.substr(0, dot).ends_with("blocks")) {
    return std::nullopt;
  }
  BlockName block{layer.substr(0, dot), 0};
  const std::string_view rest = layer.substr(dot + 1);
  if (std::from_chars(rest.data(), rest.data() + rest.size(), block.number).ec != std::errc()) {
    return std::nullopt;
  }
  return block;
}

bool is_of_embeddings(std::string_view parameter) {
  return parameter.find("embedding.") != std::string_view::npos;
}

/// How many layers of a model are above each parameter's, as in Clark et al., "ELECTRA" (2020):
/// none are above the heads and the final norm, all are above the embeddings.
class LayerDepth {
 public:
  explicit LayerDepth(const ParameterStore& store) {
    for (const Parameter& parameter : store.parameters()) {
      const auto block = block_of(parameter.name);
      if (!block) continue;
      int64_t& count = blocks_[std::string(block->stack)];
      count = std::max(count, block->number + 1);
      most_ = std::max(most_, count);
    }
  }

  int64_t operator()(const std::string& parameter) const {
    if (const auto block = block_of(parameter)) {
      return blocks_.at(std::string(block->stack)) - block->number;
    }
    return is_of_embeddings(parameter) ? most_ + 1 : 0;
  }

 private:
  std::map<std::string, int64_t> blocks_;  // per stack
  int64_t most_ = 0;
};

/// The factor of the learning rate in maximal update parametrization. A weight n times as wide adds
/// n times as many products, and updates of AdamW and Lion, whose elements all have about the same
/// size, are aligned with their inputs, so they must be n times smaller (Yang et al., "Tensor
/// Programs V", 2022, table 3). Muon's updates, whose elements are as large as AdamW's, are
/// orthogonal, so that their largest singular value is only √n times as large (Yang, Simon,
/// Bernstein, "A Spectral Condition for Feature Learning", 2023). The decay of a step, which is lr
/// × weight_decay, stays that of the base model, as in microsoft/mup.
double mup_update_scale(const Parameter& parameter, const OptimizerGroup& group) {
  if (parameter.role != WidthRole::hidden) return 1.0;
  return 1.0 / (group.whole_matrices ? std::sqrt(parameter.width_mult) : parameter.width_mult);
}

void check_pattern(const std::string& key, const std::string& pattern,
                   const ParameterStore& store) {
  if (matches_parameter(pattern, store)) return;
  const auto& parameters = store.parameters();
  std::vector<std::string> some;
  for (const Parameter& parameter : parameters) {
    if (some.size() < 8) some.push_back(parameter.name);
  }
  fail(
      "{} has the pattern {}, but no parameter has such a name. * stands for any text. The model "
      "has {} parameters: {}{}",
      key, quote(pattern), parameters.size(), fmt::join(some, ", "),
      parameters.size() > some.size() ? ", ..." : "");
}

void check_adapters(const ModelConfig& model, const ParameterStore& store) {
  if (model.lora_rank == 0) return;
  for (const std::string& pattern : model.lora_targets) {
    require(matches_adapted_layer(pattern, store),
            "model.lora_targets has the pattern {}, but no linear layer within the blocks has such "
            "a name, such as blocks.0.attention.qkv or blocks.0.mlp.down: `tessera inspect` of a "
            "checkpoint lists them",
            quote(pattern));
  }
}

}  // namespace

bool matches_parameter(const std::string& pattern, const ParameterStore& store) {
  return std::ranges::any_of(store.parameters(),
                             [&](const Parameter& p) { return matches(pattern, p.name); });
}

bool matches_adapted_layer(const std::string& pattern, const ParameterStore& store) {
  return std::ranges::any_of(store.parameters(), [&](const Parameter& p) {
    return is_of_low_rank_adapter(p.name) && matches(pattern, p.name.substr(0, p.name.rfind('.')));
  });
}

bool is_frozen(const StepOptions& options, const std::string& parameter) {
  if (matches_any(options.optimizer.frozen, parameter)) return true;
  if (options.model.lora_rank == 0 || is_of_low_rank_adapter(parameter)) return false;
  if (matches_any(options.optimizer.trained, parameter)) return false;
  const bool classifies = options.model.head == Head::classification ||
                          options.model.head == Head::token_classification;
  return !classifies || !(parameter.starts_with("classifier.") || parameter.starts_with("pooler."));
}

bool updates_matrices(const OptimizerSection& settings, const Parameter& parameter) {
  return settings.name == OptimizerName::muon && parameter.matrices.has_value();
}

OptimizerStateSpec state_spec(const OptimizerSection& settings) {
  return {settings.moment_dtype,
          [settings](const Parameter& parameter) {
            return settings.name != OptimizerName::lion && !updates_matrices(settings, parameter);
          },
          settings.ema_decay > 0.0};
}

OptimizerGroups optimizer_groups(const OptimizerSection& settings, const ParameterStore& store) {
  const LayerDepth depth(store);
  OptimizerGroups result;
  for (const Parameter& parameter : store.parameters()) {
    OptimizerGroup group;
    group.weight_decay = parameter.decay ? settings.weight_decay : 0.0;
    group.whole_matrices = updates_matrices(settings, parameter);
    for (const auto& [pattern, factor] : settings.lr_scales) {
      if (matches(pattern, parameter.name)) group.lr_factor = factor;
    }
    group.lr_factor *=
        std::pow(settings.layer_lr_decay, static_cast<double>(depth(parameter.name)));
    const double update = mup_update_scale(parameter, group);
    group.lr_factor *= update;
    group.weight_decay /= update;
    auto found = std::ranges::find(result.groups, group);
    if (found == result.groups.end()) found = result.groups.insert(found, group);
    result.group_of.push_back(static_cast<int>(found - result.groups.begin()));
  }
  return result;
}

OptimizerState allocate_for_training(const StepOptions& options, const ParallelGroups& groups,
                                     Device device, ParameterStore& store) {
  for (const std::string& pattern : options.optimizer.frozen) {
    check_pattern("optimizer.frozen", pattern, store);
  }
  for (const std::string& pattern : options.optimizer.trained) {
    check_pattern("optimizer.trained", pattern, store);
  }
  for (const auto& scale : options.optimizer.lr_scales) {
    check_pattern("optimizer.lr_scales", scale.first, store);
  }
  check_adapters(options.model, store);
  store.freeze([&](const Parameter& parameter) { return is_frozen(options, parameter.name); });
  require(std::ranges::any_of(store.parameters(), [](const Parameter& p) { return !p.frozen; }),
          "optimizer.frozen has all parameters: leave some to train");
  const OptimizerSection& optimizer = options.optimizer;
  require(optimizer.name != OptimizerName::muon ||
              std::ranges::any_of(
                  store.parameters(),
                  [&](const Parameter& p) { return !p.frozen && updates_matrices(optimizer, p); }),
          "optimizer.name is muon, but optimizer.frozen has all weights of the blocks, which are "
          "what it updates: leave some to train, or choose adamw");
  if (sequence_shard(options.parallel, groups).split()) store.shard_rows();
  require(
      groups.grid.shape().shards == options.parallel.grid_shape().shards,
      "parallel.zero {} and parallel.shard {} have other shards than the groups of ranks, which "
      "were made for {} (0: all replicas): make the groups with parallel.grid_shape()",
      options.parallel.zero, options.parallel.shard, groups.grid.shape().shards);
  store.allocate(device, options.precision, StoreFor::training,
                 sharding_of_trained(options.parallel, groups),
                 sharding_of_frozen(options.parallel, groups));
  return OptimizerState(store, state_spec(optimizer));
}

}  // namespace tessera
