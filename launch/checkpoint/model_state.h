#pragma once

#include <string>
#include <vector>

#include "core/parameters/parameter.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/save/save_plan.h"

namespace tessera {

/// What of a store goes into a checkpoint, as views: the weights in fp32 (the masters) under the
/// parameters' names, and AdamW's moments as "<name>/exp_avg" and "<name>/exp_avg_sq"; of those
/// that several owners share, what this rank owns.
std::vector<HeldTensor> held_tensors(const ParameterStore& store);

/// The name of a parameter of which a weight that this rank updates is NaN or infinite; "" if none
/// is.
std::string not_finite_parameter(const ParameterStore& store);

/// Weights alone; for a store that was allocated for inference, too.
void load_weights(Checkpoint& checkpoint, ParameterStore& store);

/// For fine-tuning: the weights that the checkpoint has. Heads that it has not, or for another
/// number of labels, keep what they are, and so does a classifier for `other_labels`; those that
/// only it has are left out. Returns a sentence that names both, or "" if there are none. Throws if
/// anything but a head is missing on either side.
std::string load_matching_weights(Checkpoint& checkpoint, ParameterStore& store, bool other_labels);

/// Whether there is nothing of an optimizer in a checkpoint, as in one that was imported.
bool has_weights_alone(const Checkpoint& checkpoint);

/// Weights and AdamW's moments. Those of step 0 are zeros: a checkpoint of that step need not have
/// them.
void load_training_state(Checkpoint& checkpoint, ParameterStore& store);

}  // namespace tessera
