#include "launch/train/diagnosis/layer_norms.h"

#include <algorithm>
#include <cmath>

#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"

namespace tessera {
namespace {

/// Sums the squares of a member of the shards of trained parameters. Each element counts once.
std::vector<double> squares_of(const OptimizerState& state, const ParallelGroups& groups,
                               Tensor OptimizerShard::*member) {
  const ParameterStore& store = state.store();
  const auto count = std::ssize(store.parameters());
  const OwnedTensor squares({count}, DType::f64, store.device()), found({count}, DType::f64);
  fill(squares.tensor, 0.0);
  int64_t i = 0;
  for (const Parameter& parameter : store.parameters()) {
    const Tensor& own = state.of(parameter).*member;
    if (!parameter.frozen && groups.counts_here(parameter) && own.numel() > 0)
      add_sum_of_squares(own, squares.tensor.slice(i, i + 1));
    ++i;
  }
  copy(squares.tensor, found.tensor);
  groups.world.all_reduce(found.tensor);
  const auto values = found.tensor.span<double>();
  return {values.begin(), values.end()};
}

}  // namespace

std::vector<double> weight_squares(const OptimizerState& state, const ParallelGroups& groups) {
  return squares_of(state, groups, &OptimizerShard::master);
}

std::vector<double> gradient_squares(const OptimizerState& state, const ParallelGroups& groups) {
  return squares_of(state, groups, &OptimizerShard::grad);
}

std::string_view layer_of(std::string_view parameter) {
  size_t end = 0;
  const auto next = [&] { end = parameter.find('.', end == 0 ? 0 : end + 1); };
  next();
  const std::string_view stack = parameter.substr(0, end);
  if (stack == "encoder" || stack == "decoder") next();
  if (parameter.substr(0, end).ends_with("blocks")) next();
  return parameter.substr(0, end);
}

std::vector<LayerNorms> layer_norms(const ParameterStore& store, const ParameterSquares& squares) {
  std::vector<LayerNorms> layers;
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.frozen) continue;
    const std::string_view name = layer_of(parameter.name);
    auto layer = std::ranges::find(layers, name, &LayerNorms::layer);
    if (layer == layers.end()) layer = layers.insert(layers.end(), LayerNorms{std::string(name)});
    layer->parameters += parameter.global_shape.numel();
    layer->weights += squares.weights[parameter.index];
    layer->gradients += squares.gradients[parameter.index];
  }
  for (LayerNorms& layer : layers) {
    layer.weights = std::sqrt(layer.weights);
    layer.gradients = std::sqrt(layer.gradients);
  }
  return layers;
}

}  // namespace tessera
