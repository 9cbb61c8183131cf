#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/memory.h"
#include "core/ops/scalar.h"
#include "core/range.h"

namespace tessera {

/// The in-batch contrastive loss of G samples of D texts: an anchor a, its positive p and, if D is
/// 3, a hard negative n (van den Oord et al., "Representation Learning with Contrastive Predictive
/// Coding", 2018; MultipleNegativesRankingLoss of sentence-transformers):
///
///     loss = Σ_g −log( exp(a_g · p_g) / Σ_h (exp(a_g · p_h) + exp(a_g · n_h)) )
///
/// The embeddings have the length √s, so that the products are s times the cosines. If symmetric,
/// positives are queries, too: the loss is the sum of this and Σ_g −log( exp(a_g · p_g) / Σ_h
/// exp(a_h · p_g) ).
class ContrastiveLoss {
 public:
  ContrastiveLoss(Device device, int64_t samples, int64_t texts, bool symmetric);

  /// Adds the losses of the queries of the samples `local` to loss_sum (1) fp64,
  /// and overwrites `gradient` with that of weight × the loss of all samples. embeddings and
  /// gradient (G × D, C) fp32, with the texts of a sample one after the other. All sums have an
  /// order that depends only on the shape. Scratch memory is in `arena`.
  void loss_and_gradient(Arena& arena, const Tensor& embeddings, Range local, float weight,
                         Tensor loss_sum, Tensor gradient) const;

 private:
  /// One direction: each query must find the candidate of its own number. Adds to the loss, and
  /// adds to `gradient` that of weight × the losses. queries (Q) and candidates (≥ Q) int32 are
  /// rows of the embeddings.
  void add(Arena& arena, const Tensor& embeddings, const Tensor& queries, const Tensor& candidates,
           Range local, float weight, Tensor loss_sum, Tensor gradient) const;

  int64_t samples_;
  int64_t texts_;
  bool symmetric_;
  OwnedTensor rows_;     // (D, G) int32: the embeddings of all anchors, positives and negatives
  OwnedTensor targets_;  // (G) int32: 0, 1, ...
};

}  // namespace tessera
