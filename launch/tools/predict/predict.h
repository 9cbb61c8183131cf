#pragma once

#include <cstdint>
#include <vector>

#include "launch/tools/predict/text_model.h"

namespace tessera {

struct Candidate {
  int32_t token = 0;
  double probability = 0.0;
};

/// What a BERT would put in place of some tokens: for each of the `places`, which are of the text
/// and ascend, the `top` likeliest tokens of the first `vocab_size`, the likeliest first; both are
/// at least 1. Throws if the places are others, or if the model is not a BERT with its pre-training
/// heads. Collective.
std::vector<std::vector<Candidate>> fill_places(TextModel& model, const Sample& text,
                                                const std::vector<int32_t>& places, int64_t top,
                                                int64_t vocab_size);

/// The probability of each label for a text, which is one document. Throws if the model has no
/// classification head. Collective.
std::vector<double> label_probabilities(TextModel& model, const Sample& text);

/// The attention weights of some layers, which the model has, for a text, from one forward pass:
/// for each (H, N, N) fp32, all heads, whole on every rank. Collective.
std::vector<std::vector<float>> attention_weights_of(TextModel& model, const Sample& text,
                                                     const std::vector<int64_t>& layers);

}  // namespace tessera
