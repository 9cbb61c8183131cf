#include "models/layers/self_attention.h"

#include <cmath>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/rotary.h"
#include "core/trace/trace.h"
#include "models/layers/init.h"
#include "parallel/layers/partition.h"

namespace tessera {

SelfAttention::SelfAttention(ParameterStore& store, const std::string& name,
                             const ModelConfig& config, int layer, Communicator& tp)
    : layer_(layer),
      total_heads_(config.num_heads),
      local_heads_(even_range(config.num_heads, tp.size(), tp.rank(), "model.num_heads").size()),
      first_head_(tp.rank() * local_heads_),
      head_dim_(config.head_dim()),
      dropout_(config.attention_dropout),
      qkv_(store,
           {name + ".qkv", config.hidden_size, config.hidden_size, 3, config.bias,
            static_cast<float>(config.init_stddev)},
           tp),
      output_(store,
              {name + ".output", config.hidden_size, config.hidden_size, 1, config.bias,
               residual_init_stddev(config)},
              tp) {}

AttentionOptions SelfAttention::options(const StepContext& ctx, const AttentionMask& mask) const {
  AttentionOptions options;
  options.scale = 1.0f / std::sqrt(static_cast<float>(head_dim_));
  options.mask = mask;
  options.dropout = ctx.dropout(dropout_, RandomPurpose::attention_dropout, layer_, {});
  options.dropout.first_row = ctx.first_sequence;  // rows of this op are sequences
  options.dropout.sequence_rows = 1;
  options.padded_rows = ctx.padded_rows;
  options.first_head = first_head_;
  options.total_heads = total_heads_;
  return options;
}

Tensor SelfAttention::project(const StepContext& ctx, const Tensor& x,
                              const Visibility& visibility) {
  const Tensor rows = qkv_.forward(ctx, x);  // (B, T, 3 × Hl × D)
  Tensor qkv = rows.view({rows.dim(0), rows.dim(1), 3, local_heads_, head_dim_});
  if (visibility.rotary.defined()) rotary_forward(visibility.rotary, qkv);
  return qkv;
}

Tensor SelfAttention::forward(const StepContext& ctx, const Tensor& x,
                              const Visibility& visibility) {
  const TraceRange range("attention");
  saved_.qkv = project(ctx, x, visibility);
  const int64_t batch = saved_.qkv.dim(0), seq = saved_.qkv.dim(1);
  saved_.out = ctx.arena.allocate({batch, seq, local_heads_, head_dim_}, x.dtype());
  saved_.log_sum_exp = ctx.arena.allocate({batch, local_heads_, seq}, DType::f32);
  saved_.visibility = visibility;
  attention_forward(saved_.qkv, options(ctx, visibility.mask), saved_.out, saved_.log_sum_exp);
  return output_.forward(ctx, saved_.out.view({batch, seq, local_heads_ * head_dim_}));
}

void SelfAttention::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const TraceRange range("attention backward");
  const Arena::Scope scope(ctx.arena);
  const int64_t batch = saved_.qkv.dim(0), seq = saved_.qkv.dim(1);
  const int64_t local_width = local_heads_ * head_dim_;
  const Tensor dout = ctx.arena.allocate(saved_.out.shape(), dy.dtype());
  const Tensor dqkv = ctx.arena.allocate(saved_.qkv.shape(), dy.dtype());
  output_.backward(ctx, dy, dout.view({batch, seq, local_width}));
  attention_backward(dout, saved_.qkv, saved_.out, saved_.log_sum_exp,
                     options(ctx, saved_.visibility.mask), dqkv);
  if (saved_.visibility.rotary.defined()) rotary_backward(saved_.visibility.rotary, dqkv);
  qkv_.backward(ctx, dqkv.view({batch, seq, 3 * local_width}), dx);
}

void SelfAttention::weights(const StepContext& ctx, Tensor weights) const {
  attention_weights(saved_.qkv, saved_.log_sum_exp, options(ctx, saved_.visibility.mask), weights);
}

Tensor SelfAttention::extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                             const Visibility& visibility) {
  const TraceRange range("attention");
  const int64_t batch = x.dim(0), seq = x.dim(1), local_width = local_heads_ * head_dim_;
  if (const auto reason = attention_decode_unsupported_reason(kinds_of(visibility.mask))) {
    fail("attention: {}", *reason);
  }
  if (cache.length() == 0) {
    Tensor out = forward(ctx, x, visibility);
    cache.store(layer_, saved_.qkv);
    return out;
  }
  require(seq == 1,
          "attention: a cache of {} positions is extended by one position at a time, not by {}",
          cache.length(), seq);
  const Tensor qkv = project(ctx, x, visibility);
  cache.store(layer_, qkv);
  const Tensor q = ctx.arena.allocate({batch, local_heads_, head_dim_}, x.dtype());
  const Tensor out = ctx.arena.allocate(q.shape(), x.dtype());
  for (int64_t b = 0; b < batch; ++b) {
    const Tensor parts = qkv.view({batch * 3, local_heads_, head_dim_});  // queries, keys, values
    copy(parts.slice(3 * b, 3 * b + 1), q.slice(b, b + 1));
  }
  const float scale = options(ctx, visibility.mask).scale;
  attention_decode(q, cache.keys(layer_), cache.values(layer_), cache.length() + 1,
                   visibility.mask.window, scale, out);
  return output_.forward(ctx, out.view({batch, 1, local_width}));
}

}  // namespace tessera
