#pragma once

#include "models/layers/attention/cross_attention.h"
#include "models/layers/embeddings.h"
#include "models/token_batch.h"
#include "models/transformer.h"

namespace tessera {

/// The encoder of an encoder–decoder: embeddings and a stack of blocks that see the whole source.
class Encoder {
 public:
  /// Declares the word table, which the decoder shares.
  Encoder(ParameterStore& store, const ModelConfig& config, Communicator& tp);

  /// Encodes the sources of a batch, whose target texts have the cumulative lengths
  /// `target_documents`. The result,
  /// whose tensors are in ctx.arena, is valid until the next pass with this slot.
  const EncodedSource& forward(const StepContext& ctx, const SourceTokens& source,
                               const Tensor& target_documents);

  /// Allocates the gradient of the output, zeros, for a decoder's backward pass.
  void start_gradient(const StepContext& ctx);

  /// Runs backward of the last pass with the gradient that the decoder has added. Marks all
  /// gradients as final, including that of the word table.
  void backward(const StepContext& ctx);

  /// Computes the self-attention weights (1, Hl, Ns, Ns) fp32 of a layer in the last pass, as
  /// SelfAttention::weights does.
  void weights(const StepContext& ctx, int64_t layer, const Tensor& weights) const;

  Embeddings& embeddings() { return embeddings_; }
  /// See Transformer::listen().
  void listen(UnitListener* units) { transformer_.listen(units); }

 private:
  Embeddings embeddings_;
  Transformer transformer_;
  InFlight<EncodedSource> encoded_;
};

}  // namespace tessera
