#pragma once

#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/communicators/communicator.h"
#include "parallel/in_flight.h"

namespace tessera {

/// Embeddings of documents: their pooled hidden states (pooling.h), scaled to one length, as
/// sentence-transformers' modules Pooling and Normalize. It has no parameters. Its input is the n
/// local rows (ctx.rows).
class EmbeddingHead {
 public:
  EmbeddingHead(Pooling pooling, Communicator& tp) : pooling_(pooling), tp_(tp) {}

  /// hidden (n, C) → embeddings (S, C) fp32 in ctx.arena. Saves what the backward pass needs.
  Tensor forward(const StepContext& ctx, const Tensor& hidden, const TokenBatch& batch,
                 float length);

  /// Adds to dhidden (n, C), given the gradient of the embeddings, (S, C) fp32.
  void backward(const StepContext& ctx, const Tensor& gradient, const TokenBatch& batch,
                Tensor dhidden);

 private:
  struct Saved {
    float length = 1.0f;
    Tensor embeddings;    // (S, C) fp32
    Tensor inverse_norm;  // (S) fp32
  };

  Pooling pooling_;
  Communicator& tp_;
  InFlight<Saved> saved_;
};

}  // namespace tessera
