#pragma once

#include "core/parameter.h"
#include "parallel/communicator.h"

namespace tessera {

/// The Euclidean norm of the whole model's gradient, every element counted once: shards are summed
/// over the tensor ranks, and what the tensor ranks hold in common is counted by the first of them.
/// Call it after the data ranks' sum. The same number on every rank.
double gradient_norm(const ParameterStore& store, Communicator& tp);

}  // namespace tessera
