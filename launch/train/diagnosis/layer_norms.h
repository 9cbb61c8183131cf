#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/parameters/optimizer_state.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Σ x² of each parameter of the whole model, in the store's order; 0 if it is frozen.
struct ParameterSquares {
  std::vector<double> weights;
  std::vector<double> gradients;
};

/// Return Σ x² of masters, or of gradients that are summed over the ranks, before or after the
/// step. The same on every rank. Wait for the device. Collective.
std::vector<double> weight_squares(const OptimizerState& state, const ParallelGroups& groups);
std::vector<double> gradient_squares(const OptimizerState& state, const ParallelGroups& groups);

/// Euclidean norms of a layer.
struct LayerNorms {
  std::string layer;       ///< "blocks.3", "embedding", "decoder.blocks.0"
  int64_t parameters = 0;  ///< elements
  double weights = 0.0;
  double gradients = 0.0;
};

/// The layer of a parameter, by its name.
std::string_view layer_of(std::string_view parameter);

/// Sums the squares of each layer, in the order of the model, without frozen parameters.
std::vector<LayerNorms> layer_norms(const ParameterStore& store, const ParameterSquares& squares);

}  // namespace tessera
