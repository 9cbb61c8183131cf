#include "models/layers/attention/local_heads.h"

#include "parallel/layers/partition.h"

namespace tessera {

Range local_heads(const ModelConfig& config, int tensor_ranks, int rank) {
  const Range groups = split_range(config.resolved_kv_heads(), tensor_ranks, rank);
  const int64_t in_group = heads_in_group(config);
  return {groups.begin * in_group, groups.end * in_group};
}

LocalHeads::LocalHeads(const ModelConfig& config, int its_layer, const Communicator& tp)
    : layer(its_layer),
      total(config.num_heads),
      first(local_heads(config, tp.size(), tp.rank()).begin),
      count(local_heads(config, tp.size(), tp.rank()).size()),
      in_group(heads_in_group(config)),
      key_values(count / in_group),
      dim(config.resolved_head_dim()),
      scale(static_cast<float>(config.resolved_attention_scale())),
      dropout(config.attention_dropout) {}

AttentionOptions LocalHeads::options(const StepContext& ctx, RandomPurpose purpose) const {
  AttentionOptions options;
  options.scale = scale;
  options.dropout = ctx.dropout(dropout, purpose, layer, {});
  options.dropout.first_row = ctx.first_sequence;  // rows of this op are sequences
  options.dropout.sequence_rows = 1;
  options.padded_rows = ctx.padded_rows;
  options.first_head = first;
  options.total_heads = total;
  options.kv_heads = key_values;
  return options;
}

}  // namespace tessera
