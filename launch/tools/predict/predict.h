#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "launch/tools/predict/text_model.h"

namespace tessera {

struct Candidate {
  int32_t token = 0;
  double probability = 0.0;
};

/// A text, and the positions in it, in ascending order, whose tokens are unknown.
struct MaskedText {
  Sample sample;
  std::vector<int32_t> places;
};

/// A BERT's predictions for the unknown tokens of at most model.rows() texts: for each text and
/// each of its places, the `top` likeliest tokens of the first `vocab_size`, likeliest first. Both
/// are at least 1. Throws for invalid places, or if the model is not a BERT with its pre-training
/// heads. Collective.
std::vector<std::vector<std::vector<Candidate>>> fill_masks(TextModel& model,
                                                            std::span<const MaskedText> texts,
                                                            int64_t top, int64_t vocab_size);

/// Returns the classification head's prediction for each text, which is one document: the
/// probability of each label or, for regression, the number alone. There are at most model.rows()
/// texts. Throws if the model has no classification head. Collective.
std::vector<std::vector<double>> predict_labels(TextModel& model, std::span<const Sample> texts);

/// The likeliest label of each word of at most model.rows() texts, whose first tokens have targets
/// (WordEncoder). Throws if the model does not label words. Collective.
std::vector<std::vector<int32_t>> predict_word_labels(TextModel& model,
                                                      std::span<const Sample> texts);

/// The embeddings of at most model.rows() texts, (texts, width) fp32, in host memory until the next
/// query of the model. Throws if the model has no embedding head. Collective.
Tensor embed_texts(TextModel& model, std::span<const Sample> texts);

/// Self-attention of a model's only stack or of its decoder, that of its encoder, or
/// cross-attention.
enum class AttentionOf { stack, encoder, cross };

/// The attention weights of some existing layers for a text, from one forward pass: for each layer
/// (H, N, N) fp32 with all heads, (H, Ns, Ns) of an encoder, (H, N, Ns) of cross-attention, the
/// same on every rank. Collective.
std::vector<std::vector<float>> attention_weights_of(QueriedModel& model, const Sample& text,
                                                     AttentionOf of,
                                                     const std::vector<int64_t>& layers);

}  // namespace tessera
