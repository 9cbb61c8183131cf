#pragma once

#include "core/ops/attention.h"
#include "core/range.h"
#include "models/model_config.h"
#include "parallel/communicators/communicator.h"
#include "parallel/step_context.h"

namespace tessera {

/// The heads of a tensor rank: whole groups that share a key and a value, as evenly as possible. A
/// rank may have none.
Range local_heads(const ModelConfig& config, int tensor_ranks, int rank);

inline int64_t heads_in_group(const ModelConfig& config) {
  return config.num_heads / config.resolved_kv_heads();
}

/// A tensor rank's heads, for self- and cross-attention.
struct LocalHeads {
  LocalHeads(const ModelConfig& config, int layer, const Communicator& tp);

  /// The options of attention, without its mask. `purpose` is that of the weights' dropout.
  AttentionOptions options(const StepContext& ctx, RandomPurpose purpose) const;

  int layer;
  int64_t total;  ///< of all ranks
  int64_t first, count;
  int64_t in_group, key_values;
  int64_t dim;  ///< columns of a head
  float scale;
  double dropout;
};

}  // namespace tessera
