#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/parameters/optimizer_state.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/save/local_tensor.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The tensors of a run that a checkpoint stores, as views: the weights in fp32 (the masters)
/// under the parameters' names, the moments, in their dtype or, if they are 8-bit, in fp32, as
/// "<name>/exp_avg" and, where the optimizer keeps a second one, "<name>/exp_avg_sq", and the
/// average, if there is one, as "<name>/ema". Only those that this rank writes: of several ranks
/// with the same piece, one does.
std::vector<LocalTensor> local_tensors(const OptimizerState& state, const ParallelGroups& groups);

/// An upper bound on the bytes of local_tensors() on this rank and on those that hold the same,
/// each piece aligned, whichever tensor ranks write what all of them have.
size_t largest_checkpoint_share(const OptimizerState& state, const ParallelGroups& groups);

/// The name of a parameter with a NaN or infinite weight among those this rank updates; nullopt if
/// there is none.
std::optional<std::string> not_finite_parameter(const OptimizerState& state);

/// Loads the weights into a store that has no optimizer state, rounded to nearest if its precision
/// is bf16.
void load_weights(Checkpoint& checkpoint, ParameterStore& store);

/// For fine-tuning: loads the weights that the checkpoint has. Heads that it lacks, or has for
/// another number of labels, keep their values, and so does a classifier if `other_labels`; heads
/// that only it has are dropped. Returns a sentence that names both, or "". Throws if anything but
/// a head is missing on either side. The average begins with these weights.
std::string load_matching_weights(Checkpoint& checkpoint, OptimizerState& state, bool other_labels);

/// Whether a checkpoint has the optimizer state of a parameter: not if it was frozen.
bool has_optimizer_state(const Checkpoint& checkpoint, const std::string& parameter);

/// As in optimizer.moment_dtype: "fp32", "bf16", or "int8" for 8-bit codes.
std::string_view moment_dtype_name(DType dtype);

/// Whether a checkpoint has no optimizer state, as after an import.
bool has_weights_alone(const Checkpoint& checkpoint);

/// Loads weights, moments and the average. The moments' dtype may differ from the stored one: fp32
/// is rounded to nearest bf16, or encoded. At step 0 the moments are zero, so a checkpoint of that
/// step may lack them. If it has no average, that of `state` begins with the weights.
void load_training_state(Checkpoint& checkpoint, OptimizerState& state);

}  // namespace tessera
