#include "models/layers/attention/self_attention.h"

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/rotary.h"
#include "core/trace/trace.h"
#include "models/layers/attention/context_attention.h"
#include "models/layers/gradient_pair.h"
#include "models/layers/init.h"
#include "models/layers/low_rank.h"
#include "models/output_rows.h"

namespace tessera {
namespace {

/// Whether rows of the projection are groups: with grouped-query attention or QK norm.
bool is_grouped(const ModelConfig& config) { return heads_in_group(config) > 1 || config.qk_norm; }

/// The projection to queries, keys and values: three matrices, or one whose rows are the queries,
/// key and value of one group after the other, so that a range of rows has whole groups.
LinearSpec qkv_spec(const std::string& name, const ModelConfig& config) {
  const auto stddev = static_cast<float>(config.init_stddev);
  const int64_t d = config.resolved_head_dim(), groups = config.resolved_kv_heads();
  const LowRank adapter = low_rank_of(config, name);
  if (!is_grouped(config)) {
    return hidden_linear(config, {name, config.hidden_size, config.attention_size(), 3,
                                  config.qkv_bias(), stddev, d, adapter});
  }
  const int64_t rows = (heads_in_group(config) + 2) * d;
  LinearSpec spec{name,   config.hidden_size, groups * rows, 1, config.qkv_bias(), stddev, rows,
                  adapter};
  spec.unit_rows = {heads_in_group(config) * d, d, d};
  return hidden_linear(config, spec);
}

Parameter* declare_norm(ParameterStore& store, const std::string& name, const ModelConfig& config) {
  if (!config.qk_norm) return nullptr;
  ParameterSpec spec{name + ".weight", {config.resolved_head_dim()}, {}, Init::ones()};
  spec.partial_over = kReplicaAxes | AxisSet{Axis::tensor};
  return &store.declare(spec);
}

}  // namespace

SelfAttention::SelfAttention(ParameterStore& store, const std::string& name,
                             const ModelConfig& config, int layer, Communicator& tp)
    : heads_(config, layer, tp),
      is_grouped_(is_grouped(config)),
      norm_eps_(static_cast<float>(config.norm_eps)),
      qkv_(store, qkv_spec(name + ".qkv", config), tp),
      query_norm_(declare_norm(store, name + ".query_norm", config)),
      key_norm_(declare_norm(store, name + ".key_norm", config)),
      output_(store,
              hidden_linear(config,
                            {name + ".output", config.attention_size(), config.hidden_size, 1,
                             config.output_bias(), residual_init_stddev(config),
                             heads_.in_group * heads_.dim, low_rank_of(config, name + ".output")}),
              tp) {}

AttentionOptions SelfAttention::options(const StepContext& ctx,
                                        const Visibility& visibility) const {
  AttentionOptions options = heads_.options(ctx, RandomPurpose::attention_dropout);
  options.mask = visibility.mask;
  options.position_bias = visibility.position_bias;
  if (ctx.cut == nullptr) return options;
  options.memory.documents = ctx.cut->documents;
  options.memory.padded_rows = {ctx.cut->padded_rows, ctx.padded_rows.seq_length};
  options.memory.positions = visibility.positions;
  return options;
}

Tensor SelfAttention::project(const StepContext& ctx, const Tensor& x,
                              const Visibility& visibility) {
  const Shape rows = ctx.rows.global_shape_of(x.shape());
  const Shape shape = {rows[0], rows[1], heads_.count + 2 * heads_.key_values, heads_.dim};
  Tensor qkv;
  if (query_norm_ != nullptr) {
    const Shape groups = grouped_shape(shape);
    Saved& saved = saved_.at(ctx);
    saved.grouped = qkv_.forward(ctx, x).view(groups);
    saved.rstd =
        ctx.arena.allocate({groups[0] * groups[1] * groups[2], heads_.in_group + 1}, DType::f32);
    qkv = ctx.arena.allocate(shape, x.dtype());
    normalize_and_split(saved.grouped, norm(), qkv, saved.rstd);
  } else if (is_grouped_) {
    qkv = ctx.arena.allocate(shape, x.dtype());
    const Arena::Scope scope(ctx.arena);
    split_groups(qkv_.forward(ctx, x).view(grouped_shape(shape)), qkv);
  } else {
    qkv = qkv_.forward(ctx, x).view(shape);
  }
  if (visibility.rotary.defined()) {
    rotary_forward(visibility.rotary, heads_.count + heads_.key_values, qkv);
  }
  return qkv;
}

Shape SelfAttention::grouped_shape(const Shape& qkv) const {
  return {qkv[0], qkv[1], heads_.key_values, heads_.in_group + 2, heads_.dim};
}

Tensor SelfAttention::forward(const StepContext& ctx, const Tensor& x, const Visibility& visibility,
                              const OutputRows* outputs) {
  const TraceRange range("attention");
  Saved& saved = saved_.at(ctx);
  saved.qkv = project(ctx, x, visibility);
  const int64_t batch = saved.qkv.dim(0), seq = saved.qkv.dim(1);
  saved.out = ctx.arena.allocate({batch, seq, heads_.count, heads_.dim}, x.dtype());
  saved.log_sum_exp = ctx.arena.allocate({batch, heads_.count, seq}, DType::f32);
  saved.visibility = visibility;
  saved.outputs = outputs;
  const AttentionOptions how = options(ctx, visibility);
  if (ctx.cut == nullptr) {
    attention_forward(saved.qkv, how, saved.out, saved.log_sum_exp);
  } else {
    const Arena::Scope scope(ctx.arena);
    ContextAttention(ctx, saved.qkv, how, visibility.sees_halo)
        .forward(saved.out, saved.log_sum_exp);
  }
  const Tensor out = saved.out.view({batch, seq, heads_.count * heads_.dim});
  if (outputs == nullptr) return output_.forward(ctx, out);
  return output_.forward(outputs->context(ctx), outputs->choose(ctx, out));
}

void SelfAttention::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const TraceRange range("attention backward");
  const Arena::Scope scope(ctx.arena);
  const Saved& saved = saved_.at(ctx);
  const int64_t batch = saved.qkv.dim(0), seq = saved.qkv.dim(1);
  const int64_t local_width = heads_.count * heads_.dim;
  const Tensor dout = ctx.arena.allocate(saved.out.shape(), dy.dtype());
  const Tensor dqkv = ctx.arena.allocate(saved.qkv.shape(), dy.dtype());
  const AttentionOptions how = options(ctx, saved.visibility);
  {
    const Arena::Scope of_context(ctx.arena);
    std::optional<ContextAttention> context;  // keys travel during the projection's backward pass
    if (ctx.cut != nullptr) context.emplace(ctx, saved.qkv, how, saved.visibility.sees_halo);
    output_backward(ctx, dy, dout.view({batch, seq, local_width}));
    const Tensor& dbias = saved.visibility.dposition_bias;
    if (context) {
      context->backward(dout, saved.out, saved.log_sum_exp, dqkv, dbias);
    } else {
      attention_backward(dout, saved.qkv, saved.out, saved.log_sum_exp, how, dqkv, dbias);
    }
  }
  if (saved.visibility.rotary.defined()) {
    rotary_backward(saved.visibility.rotary, heads_.count + heads_.key_values, dqkv);
  }
  const Shape projected = {batch, seq, dqkv.dim(2) * heads_.dim};
  if (!is_grouped_) return qkv_.backward(ctx, dqkv.view(projected), dx);
  const Shape groups = grouped_shape(dqkv.shape());
  const Tensor dgrouped = ctx.arena.allocate(groups, dy.dtype());
  groups_backward(ctx, dqkv, dgrouped);
  qkv_.backward(ctx, dgrouped.view(projected), dx);
}

void SelfAttention::output_backward(const StepContext& ctx, const Tensor& dy, const Tensor& dout) {
  const OutputRows* outputs = saved_.at(ctx).outputs;
  if (outputs == nullptr) return output_.backward(ctx, dy, dout);
  const Arena::Scope scope(ctx.arena);
  const Tensor chosen = ctx.arena.allocate({1, outputs->index.numel(), dout.dim(2)}, dy.dtype());
  output_.backward(outputs->context(ctx), dy, chosen);
  outputs->choose_backward(chosen, dout);
}

void SelfAttention::groups_backward(const StepContext& ctx, const Tensor& dqkv,
                                    const Tensor& dgrouped) {
  if (query_norm_ == nullptr) return split_groups_backward(dqkv, dgrouped);
  const Arena::Scope scope(ctx.arena);
  const Saved& saved = saved_.at(ctx);
  const GradientPair gradients = next_gradients(ctx, *query_norm_, key_norm_);
  normalize_and_split_backward(dqkv, saved.grouped, norm(), saved.rstd, dgrouped, gradients.first,
                               gradients.second, gradients.accumulate);
  ctx.gradient_is_final(*key_norm_);
  ctx.gradient_is_final(*query_norm_);
}

void SelfAttention::weights(const StepContext& ctx, Tensor weights) const {
  const Saved& saved = saved_.at(ctx);
  require(!saved.visibility.positions.defined(),
          "the attention weights of a batch that is cut over context ranks are on none of them");
  attention_weights(saved.qkv, saved.log_sum_exp, options(ctx, saved.visibility), weights);
}

Tensor SelfAttention::extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                             const Visibility& visibility) {
  const TraceRange range("attention");
  const int64_t batch = x.dim(0), seq = x.dim(1), local_width = heads_.count * heads_.dim;
  if (const auto reason = attention_decode_unsupported_reason(kinds_of(visibility.mask))) {
    fail("attention: {}", *reason);
  }
  const AttentionMask& mask = visibility.mask;
  if (cache.length() == 0) {
    require(seq >= mask.prefix,
            "attention: a cache starts with {} positions, but the {} of the prefix see each other: "
            "start with all of them",
            seq, mask.prefix);
    Tensor out = forward(ctx, x, visibility);
    cache.store(heads_.layer, saved_.at(ctx).qkv);
    return out;
  }
  require(seq == 1,
          "attention: a cache of {} positions is extended by one position at a time, not by {}",
          cache.length(), seq);
  const Tensor qkv = project(ctx, x, visibility);
  cache.store(heads_.layer, qkv);
  const Tensor q = ctx.arena.allocate({batch, heads_.count, heads_.dim}, x.dtype());
  const Tensor out = ctx.arena.allocate(q.shape(), x.dtype());
  for (int64_t b = 0; b < batch; ++b) {
    const Tensor heads = qkv.view({batch * qkv.dim(2), heads_.dim});
    const int64_t first = b * qkv.dim(2);
    copy(heads.slice(first, first + heads_.count),
         q.slice(b, b + 1).view({heads_.count, heads_.dim}));
  }
  attention_decode(q, cache.keys(heads_.layer), cache.values(heads_.layer), cache.length() + 1,
                   options(ctx, visibility), out);
  return output_.forward(ctx, out.view({batch, 1, local_width}));
}

}  // namespace tessera
