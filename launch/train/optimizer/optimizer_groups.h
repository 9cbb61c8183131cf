#pragma once

#include <string>
#include <vector>

#include "core/parameters/optimizer_state.h"
#include "launch/config/sections.h"
#include "parallel/process_grid.h"

namespace tessera {

/// Whether training leaves a parameter as it is: optimizer.frozen has it, or the model has low-rank
/// adapters and it is neither theirs, nor in optimizer.trained, nor of a head that classifies.
bool is_frozen(const StepOptions& options, const std::string& parameter);

/// Whether a pattern matches the name of a parameter, or of a layer that has a low-rank adapter.
bool matches_parameter(const std::string& pattern, const ParameterStore& store);
bool matches_adapted_layer(const std::string& pattern, const ParameterStore& store);

/// The settings that the optimizer shares among some parameters.
struct OptimizerGroup {
  double lr_factor = 1.0;
  double weight_decay = 0.0;
  bool whole_matrices = false;  ///< of weights that Muon updates

  bool operator==(const OptimizerGroup&) const = default;
};

/// The groups of all parameters.
struct OptimizerGroups {
  std::vector<OptimizerGroup> groups;
  std::vector<int> group_of;  ///< indices into `groups`, in the order of the store
};

/// Whether Muon updates a parameter: the weight of a linear layer in a block.
bool updates_matrices(const OptimizerSection& settings, const Parameter& parameter);

/// The state that the optimizer keeps of each parameter.
OptimizerStateSpec state_spec(const OptimizerSection& settings);

/// Applies optimizer.weight_decay, lr_scales and layer_lr_decay, and of µP the factors of the
/// learning rate. A layer's number is in its name, "blocks.3" or "decoder.blocks.3".
OptimizerGroups optimizer_groups(const OptimizerSection& settings, const ParameterStore& store);

/// Freezes and allocates the parameters of a model for training on this rank, and allocates the
/// optimizer's state. Throws if a pattern of the options matches no name, or if nothing is
/// left to train.
OptimizerState allocate_for_training(const StepOptions& options, const ParallelGroups& groups,
                                     Device device, ParameterStore& store);

}  // namespace tessera
