#include "models/layers/self_attention.h"

#include <cmath>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/query_groups.h"
#include "core/ops/rotary.h"
#include "core/trace/trace.h"
#include "models/layers/init.h"
#include "parallel/layers/partition.h"

namespace tessera {
namespace {

/// The projection to queries, keys and values: three matrices or, in grouped-query attention, one
/// whose rows are the queries, key and value of one group after the other, so that a range of rows
/// has whole groups.
LinearSpec qkv_spec(const std::string& name, const ModelConfig& config) {
  const auto stddev = static_cast<float>(config.init_stddev);
  const int64_t groups = config.resolved_kv_heads();
  if (groups == config.num_heads) {
    return {name, config.hidden_size, config.attention_size(), 3, config.qkv_bias(), stddev};
  }
  const int64_t rows = (config.num_heads + 2 * groups) * config.resolved_head_dim();
  return {name, config.hidden_size, rows, 1, config.qkv_bias(), stddev};
}

}  // namespace

SelfAttention::SelfAttention(ParameterStore& store, const std::string& name,
                             const ModelConfig& config, int layer, Communicator& tp)
    : layer_(layer),
      total_heads_(config.num_heads),
      local_heads_(even_range(config.num_heads, tp.size(), tp.rank(), "model.num_heads").size()),
      first_head_(tp.rank() * local_heads_),
      local_groups_(
          even_range(config.resolved_kv_heads(), tp.size(), tp.rank(), "model.num_kv_heads")
              .size()),
      head_dim_(config.resolved_head_dim()),
      dropout_(config.attention_dropout),
      qkv_(store, qkv_spec(name + ".qkv", config), tp),
      output_(store,
              {name + ".output", config.attention_size(), config.hidden_size, 1,
               config.linear_bias(), residual_init_stddev(config)},
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
  const Shape rows = ctx.rows.global_shape_of(x.shape());
  const Shape shape = {rows[0], rows[1], 3, local_heads_, head_dim_};
  Tensor qkv;
  if (is_grouped()) {
    qkv = ctx.arena.allocate(shape, x.dtype());
    const Arena::Scope scope(ctx.arena);
    repeat_key_values(qkv_.forward(ctx, x).view(grouped_shape(shape)), qkv);
  } else {
    qkv = qkv_.forward(ctx, x).view(shape);
  }
  if (visibility.rotary.defined()) rotary_forward(visibility.rotary, qkv);
  return qkv;
}

Shape SelfAttention::grouped_shape(const Shape& qkv) const {
  return {qkv[0], qkv[1], local_groups_, local_heads_ / local_groups_ + 2, head_dim_};
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
  if (!is_grouped()) return qkv_.backward(ctx, dqkv.view({batch, seq, 3 * local_width}), dx);
  const Tensor dgrouped = ctx.arena.allocate(grouped_shape(dqkv.shape()), dy.dtype());
  repeat_key_values_backward(dqkv, dgrouped);
  qkv_.backward(ctx, dgrouped.view({batch, seq, local_width + 2 * local_groups_ * head_dim_}), dx);
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
