#include "models/encoder.h"

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/trace/trace.h"

namespace tessera {
namespace {

ModelConfig encoder_config(ModelConfig config) {
  config.seq_length = config.resolved_source_length();
  return config;
}

}  // namespace

// The decoder's layers are counted first, so that caches and random numbers of both differ.
Encoder::Encoder(ParameterStore& store, const ModelConfig& config, Communicator& tp)
    : embeddings_(store, encoder_config(config), tp, {.name = "encoder.", .dropout_id = 1}),
      transformer_(store, encoder_config(config), tp,
                   {.name = "encoder.",
                    .first_layer = static_cast<int>(config.resolved_decoder_layers()),
                    .next_unit = "between stacks"}) {}

const EncodedSource& Encoder::forward(const StepContext& ctx, const SourceTokens& source,
                                      const Tensor& target_documents) {
  const TraceRange range("encoder");
  require(source.tokens.defined(), "an encoder-decoder needs batches with source texts");
  EncodedSource& encoded = encoded_.at(ctx);
  encoded = {.padded_rows = {source.padded_rows, source.seq_length},
             .rows = ctx.rows.of(source.num_tokens()),
             .states = {},
             .documents = source.cut.defined() ? source.cut.documents : source.documents,
             .target_documents = target_documents,
             .cut = source.cut.defined() ? &source.cut : nullptr};
  const StepContext pass = encoded.context(ctx);
  AttentionMask mask;
  mask.documents = source.cut.defined() ? source.cut.own_documents : source.documents;
  const Shape row = {1, source.num_tokens()};
  const Tensor x =
      embeddings_.forward(pass, source.tokens.view(row), source.positions.view(row), {});
  encoded.states = transformer_.forward(pass, x, mask, source.positions);
  return encoded;
}

void Encoder::start_gradient(const StepContext& ctx) {
  EncodedSource& encoded = encoded_.at(ctx);
  encoded.gradient = ctx.arena.allocate(encoded.states.shape(), encoded.states.dtype());
  fill(encoded.gradient, 0.0);
}

void Encoder::backward(const StepContext& ctx) {
  const TraceRange range("encoder backward");
  const EncodedSource& encoded = encoded_.at(ctx);
  const StepContext pass = encoded.context(ctx);
  const Tensor dx = transformer_.backward(pass, encoded.gradient);
  if (dx.defined()) embeddings_.backward(pass, dx);
}

void Encoder::weights(const StepContext& ctx, int64_t layer, const Tensor& weights) const {
  transformer_.attention(layer).weights(encoded_.at(ctx).context(ctx), weights);
}

}  // namespace tessera
