#include "models/layers/self_attention.h"

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/rotary.h"
#include "core/trace/trace.h"
#include "models/layers/init.h"
#include "parallel/layers/partition.h"

namespace tessera {
namespace {

int64_t heads_in_group(const ModelConfig& config) {
  return config.num_heads / config.resolved_kv_heads();
}

/// Whether rows of the projection are groups: with grouped-query attention or QK norm.
bool is_grouped(const ModelConfig& config) { return heads_in_group(config) > 1 || config.qk_norm; }

/// The projection to queries, keys and values: three matrices, or one whose rows are the queries,
/// key and value of one group after the other, so that a range of rows has whole groups.
LinearSpec qkv_spec(const std::string& name, const ModelConfig& config) {
  const auto stddev = static_cast<float>(config.init_stddev);
  const int64_t d = config.resolved_head_dim(), groups = config.resolved_kv_heads();
  if (!is_grouped(config)) {
    return {name, config.hidden_size, config.attention_size(), 3, config.qkv_bias(), stddev, d};
  }
  const int64_t rows = (heads_in_group(config) + 2) * d;
  return {name, config.hidden_size, groups * rows, 1, config.qkv_bias(), stddev, rows};
}

Parameter* declare_norm(ParameterStore& store, const std::string& name, const ModelConfig& config) {
  if (!config.qk_norm) return nullptr;
  ParameterSpec spec{name + ".weight", {config.resolved_head_dim()}, {}, Init::ones()};
  spec.gradient_sum = GradientSum::local_heads;
  return &store.declare(spec);
}

}  // namespace

Range local_heads(const ModelConfig& config, int tensor_ranks, int rank) {
  const Range groups = split_range(config.resolved_kv_heads(), tensor_ranks, rank);
  const int64_t in_group = heads_in_group(config);
  return {groups.begin * in_group, groups.end * in_group};
}

SelfAttention::SelfAttention(ParameterStore& store, const std::string& name,
                             const ModelConfig& config, int layer, Communicator& tp)
    : layer_(layer),
      total_heads_(config.num_heads),
      first_head_(local_heads(config, tp.size(), tp.rank()).begin),
      local_heads_(local_heads(config, tp.size(), tp.rank()).size()),
      in_group_(heads_in_group(config)),
      local_kv_heads_(local_heads_ / in_group_),
      head_dim_(config.resolved_head_dim()),
      scale_(static_cast<float>(config.resolved_attention_scale())),
      is_grouped_(is_grouped(config)),
      dropout_(config.attention_dropout),
      norm_eps_(static_cast<float>(config.norm_eps)),
      qkv_(store, qkv_spec(name + ".qkv", config), tp),
      query_norm_(declare_norm(store, name + ".query_norm", config)),
      key_norm_(declare_norm(store, name + ".key_norm", config)),
      output_(store,
              {name + ".output", config.attention_size(), config.hidden_size, 1,
               config.output_bias(), residual_init_stddev(config), in_group_ * head_dim_},
              tp) {}

AttentionOptions SelfAttention::options(const StepContext& ctx,
                                        const Visibility& visibility) const {
  AttentionOptions options;
  options.scale = scale_;
  options.mask = visibility.mask;
  options.position_bias = visibility.position_bias;
  options.dropout = ctx.dropout(dropout_, RandomPurpose::attention_dropout, layer_, {});
  options.dropout.first_row = ctx.first_sequence;  // rows of this op are sequences
  options.dropout.sequence_rows = 1;
  options.padded_rows = ctx.padded_rows;
  options.first_head = first_head_;
  options.total_heads = total_heads_;
  options.kv_heads = local_kv_heads_;
  return options;
}

Tensor SelfAttention::project(const StepContext& ctx, const Tensor& x,
                              const Visibility& visibility) {
  const Shape rows = ctx.rows.global_shape_of(x.shape());
  const Shape shape = {rows[0], rows[1], local_heads_ + 2 * local_kv_heads_, head_dim_};
  Tensor qkv;
  if (query_norm_ != nullptr) {
    const Shape groups = grouped_shape(shape);
    saved_.grouped = qkv_.forward(ctx, x).view(groups);
    saved_.rstd =
        ctx.arena.allocate({groups[0] * groups[1] * groups[2], in_group_ + 1}, DType::f32);
    qkv = ctx.arena.allocate(shape, x.dtype());
    normalize_and_split(saved_.grouped, norm(), qkv, saved_.rstd);
  } else if (is_grouped_) {
    qkv = ctx.arena.allocate(shape, x.dtype());
    const Arena::Scope scope(ctx.arena);
    split_groups(qkv_.forward(ctx, x).view(grouped_shape(shape)), qkv);
  } else {
    qkv = qkv_.forward(ctx, x).view(shape);
  }
  if (visibility.rotary.defined()) {
    rotary_forward(visibility.rotary, local_heads_ + local_kv_heads_, qkv);
  }
  return qkv;
}

Shape SelfAttention::grouped_shape(const Shape& qkv) const {
  return {qkv[0], qkv[1], local_kv_heads_, in_group_ + 2, head_dim_};
}

Tensor SelfAttention::forward(const StepContext& ctx, const Tensor& x,
                              const Visibility& visibility) {
  const TraceRange range("attention");
  saved_.qkv = project(ctx, x, visibility);
  const int64_t batch = saved_.qkv.dim(0), seq = saved_.qkv.dim(1);
  saved_.out = ctx.arena.allocate({batch, seq, local_heads_, head_dim_}, x.dtype());
  saved_.log_sum_exp = ctx.arena.allocate({batch, local_heads_, seq}, DType::f32);
  saved_.visibility = visibility;
  attention_forward(saved_.qkv, options(ctx, visibility), saved_.out, saved_.log_sum_exp);
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
                     options(ctx, saved_.visibility), dqkv, saved_.visibility.dposition_bias);
  if (saved_.visibility.rotary.defined()) {
    rotary_backward(saved_.visibility.rotary, local_heads_ + local_kv_heads_, dqkv);
  }
  const Shape projected = {batch, seq, dqkv.dim(2) * head_dim_};
  if (!is_grouped_) return qkv_.backward(ctx, dqkv.view(projected), dx);
  const Shape groups = grouped_shape(dqkv.shape());
  const Tensor dgrouped = ctx.arena.allocate(groups, dy.dtype());
  groups_backward(ctx, dqkv, dgrouped);
  qkv_.backward(ctx, dgrouped.view(projected), dx);
}

void SelfAttention::groups_backward(const StepContext& ctx, const Tensor& dqkv,
                                    const Tensor& dgrouped) {
  if (query_norm_ == nullptr) return split_groups_backward(dqkv, dgrouped);
  // Nothing else touches these gradients, so both are valid or neither is.
  const Accumulate accumulate = query_norm_->next_accumulate();
  key_norm_->next_accumulate();
  normalize_and_split_backward(dqkv, saved_.grouped, norm(), saved_.rstd, dgrouped,
                               query_norm_->grad, key_norm_->grad, accumulate);
  ctx.gradient_is_final(*key_norm_);
  ctx.gradient_is_final(*query_norm_);
}

void SelfAttention::weights(const StepContext& ctx, Tensor weights) const {
  attention_weights(saved_.qkv, saved_.log_sum_exp, options(ctx, saved_.visibility), weights);
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
    const Tensor heads = qkv.view({batch * qkv.dim(2), head_dim_});
    const int64_t first = b * qkv.dim(2);
    copy(heads.slice(first, first + local_heads_),
         q.slice(b, b + 1).view({local_heads_, head_dim_}));
  }
  const float scale = options(ctx, visibility).scale;
  attention_decode(q, cache.keys(layer_), cache.values(layer_), cache.length() + 1,
                   visibility.mask.window, scale, visibility.position_bias, out);
  return output_.forward(ctx, out.view({batch, 1, local_width}));
}

}  // namespace tessera
