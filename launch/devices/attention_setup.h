#pragma once

#include "core/ops/cuda/attention/cudnn_attention_plan.h"
#include "launch/config/run_config.h"
#include "launch/data/loading/batch_buffers.h"
#include "models/architecture.h"

namespace tessera {

/// The attention of a run's training steps, as far as it is known before there is data.
inline cuda::AttentionSetup attention_setup(const RunConfig& config) {
  cuda::AttentionSetup setup;
  setup.mask = traits_of(config.model).mask_kinds();
  setup.mask.hidden_keys = batch_shape(1, config.model, config.mlm).hides_targets;
  setup.dtype = config.run.precision;
  setup.head_dim = config.model.resolved_head_dim();
  setup.dropout = config.model.attention_dropout > 0.0;
  setup.position_bias = config.model.has_position_bias();
  setup.positions = config.parallel.context > 1;
  return setup;
}

}  // namespace tessera
