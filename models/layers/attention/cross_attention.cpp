#include "models/layers/attention/cross_attention.h"

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/trace/trace.h"
#include "models/layers/init.h"
#include "models/layers/low_rank.h"

namespace tessera {

StepContext EncodedSource::context(const StepContext& ctx) const {
  StepContext pass = ctx;
  pass.padded_rows = padded_rows;
  pass.rows = rows;
  pass.cut = cut;
  return pass;
}

// The units of all three projections are groups, so that a rank's queries have their keys.
CrossAttention::CrossAttention(ParameterStore& store, const std::string& name,
                               const ModelConfig& config, int layer, Communicator& tp)
    : heads_(config, layer, tp),
      query_(store,
             hidden_linear(config,
                           {name + ".query", config.hidden_size, config.attention_size(), 1,
                            config.qkv_bias(), static_cast<float>(config.init_stddev),
                            heads_.in_group * heads_.dim, low_rank_of(config, name + ".query")}),
             tp),
      key_value_(store,
                 hidden_linear(config, {name + ".key_value", config.hidden_size,
                                        config.resolved_kv_heads() * heads_.dim, 2,
                                        config.qkv_bias(), static_cast<float>(config.init_stddev),
                                        heads_.dim, low_rank_of(config, name + ".key_value")}),
                 tp),
      output_(store,
              hidden_linear(config,
                            {name + ".output", config.attention_size(), config.hidden_size, 1,
                             config.output_bias(), residual_init_stddev(config),
                             heads_.in_group * heads_.dim, low_rank_of(config, name + ".output")}),
              tp) {}

AttentionOptions CrossAttention::options(const StepContext& ctx, const Tensor& key_values) const {
  AttentionOptions options = heads_.options(ctx, RandomPurpose::cross_attention_dropout);
  const EncodedSource& source = *saved_.at(ctx).source;
  options.mask.documents = source.target_documents;
  options.memory = {key_values, source.documents, source.padded_rows};
  if (source.cut != nullptr) options.memory.padded_rows.index = source.cut->padded_rows;
  return options;
}

std::optional<ContextRows> CrossAttention::gather_keys(const StepContext& ctx) const {
  const Saved& saved = saved_.at(ctx);
  const Tensor& own = saved.key_values;
  if (saved.source->cut == nullptr || own.dim(2) == 0) return std::nullopt;
  const Shape rows = {own.dim(1), own.dim(2) * own.dim(3)};
  std::optional<ContextRows> all(std::in_place, ctx, *saved.source->cut, rows[0], rows[1],
                                 own.dtype());
  copy(own.view(rows), all->own());
  all->gather();
  return all;
}

Tensor CrossAttention::gathered_keys(std::optional<ContextRows>& rows) const {
  const Tensor all = rows->finish_gather();
  return all.view({1, all.dim(0), 2 * heads_.key_values, heads_.dim});
}

Tensor CrossAttention::project(const StepContext& ctx, const EncodedSource& source) {
  const Tensor projected = key_value_.forward(source.context(ctx), source.states);
  return projected.view({1, projected.dim(1), 2 * heads_.key_values, heads_.dim});
}

Tensor CrossAttention::forward(const StepContext& ctx, const Tensor& x,
                               const EncodedSource& source) {
  const TraceRange range("cross-attention");
  const Shape rows = ctx.rows.global_shape_of(x.shape());
  const int64_t count = rows[0] * rows[1];
  Saved& saved = saved_.at(ctx);
  saved.source = &source;
  saved.queries = query_.forward(ctx, x).view({1, count, heads_.count, heads_.dim});
  saved.key_values = source.key_values.empty()
                         ? project(ctx, source)
                         : source.key_values[static_cast<size_t>(heads_.layer)];
  saved.out = ctx.arena.allocate(saved.queries.shape(), x.dtype());
  saved.log_sum_exp = ctx.arena.allocate({1, heads_.count, count}, DType::f32);
  {
    const Arena::Scope scope(ctx.arena);
    std::optional<ContextRows> all = gather_keys(ctx);
    const Tensor key_values = all ? gathered_keys(all) : saved.key_values;
    attention_forward(saved.queries, options(ctx, key_values), saved.out, saved.log_sum_exp);
  }
  return output_.forward(ctx, saved.out.view({rows[0], rows[1], heads_.count * heads_.dim}));
}

void CrossAttention::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const TraceRange range("cross-attention backward");
  const Arena::Scope scope(ctx.arena);
  const Saved& saved = saved_.at(ctx);
  const EncodedSource& source = *saved.source;
  const Shape flat = {1, saved.queries.dim(1), heads_.count * heads_.dim};
  const Tensor dout = ctx.arena.allocate(saved.out.shape(), dy.dtype());
  const Tensor dqueries = ctx.arena.allocate(saved.queries.shape(), dy.dtype());
  std::optional<ContextRows> all = gather_keys(ctx);
  output_.backward(ctx, dy, dout.view(flat));
  const Tensor key_values = all ? gathered_keys(all) : saved.key_values;
  Tensor dkey_values = ctx.arena.allocate(key_values.shape(), dy.dtype());
  attention_backward(dout, saved.queries, saved.out, saved.log_sum_exp, options(ctx, key_values),
                     dqueries, {}, dkey_values);
  const int64_t columns = key_values.dim(2) * key_values.dim(3);
  if (all) {  // the sum travels while the queries' gradients are computed
    all->sum(dkey_values.view({key_values.dim(1), columns}));
    dkey_values = all->own();
  }
  query_.backward(ctx, dqueries.view(flat), dx);
  if (all) all->finish_sum();
  const Tensor dstates = ctx.arena.allocate(source.states.shape(), dy.dtype());
  key_value_.backward(source.context(ctx), dkey_values.view({1, saved.key_values.dim(1), columns}),
                      dstates);
  add(source.gradient, dstates, source.gradient);
}

void CrossAttention::weights(const StepContext& ctx, Tensor weights) const {
  const Saved& saved = saved_.at(ctx);
  attention_weights(saved.queries, saved.log_sum_exp, options(ctx, saved.key_values), weights);
}

}  // namespace tessera
