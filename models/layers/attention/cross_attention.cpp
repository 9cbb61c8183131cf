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

AttentionOptions CrossAttention::options(const StepContext& ctx) const {
  AttentionOptions options = heads_.options(ctx, RandomPurpose::cross_attention_dropout);
  const Saved& saved = saved_.at(ctx);
  const EncodedSource& source = *saved.source;
  options.mask.documents = source.target_documents;
  options.memory = {saved.key_values, source.documents, source.padded_rows};
  return options;
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
  attention_forward(saved.queries, options(ctx), saved.out, saved.log_sum_exp);
  return output_.forward(ctx, saved.out.view({rows[0], rows[1], heads_.count * heads_.dim}));
}

void CrossAttention::backward(const StepContext& ctx, const Tensor& dy, Tensor dx) {
  const TraceRange range("cross-attention backward");
  const Arena::Scope scope(ctx.arena);
  const Saved& saved = saved_.at(ctx);
  const EncodedSource& source = *saved.source;
  const int64_t rows = saved.queries.dim(1), source_rows = saved.key_values.dim(1);
  const Shape flat = {1, rows, heads_.count * heads_.dim};
  const Tensor dout = ctx.arena.allocate(saved.out.shape(), dy.dtype());
  const Tensor dqueries = ctx.arena.allocate(saved.queries.shape(), dy.dtype());
  const Tensor dkey_values = ctx.arena.allocate(saved.key_values.shape(), dy.dtype());
  output_.backward(ctx, dy, dout.view(flat));
  attention_backward(dout, saved.queries, saved.out, saved.log_sum_exp, options(ctx), dqueries, {},
                     dkey_values);
  const Tensor dstates = ctx.arena.allocate(source.states.shape(), dy.dtype());
  key_value_.backward(source.context(ctx),
                      dkey_values.view({1, source_rows, 2 * heads_.key_values * heads_.dim}),
                      dstates);
  add(source.gradient, dstates, source.gradient);
  query_.backward(ctx, dqueries.view(flat), dx);
}

void CrossAttention::weights(const StepContext& ctx, Tensor weights) const {
  const Saved& saved = saved_.at(ctx);
  attention_weights(saved.queries, saved.log_sum_exp, options(ctx), weights);
}

}  // namespace tessera
