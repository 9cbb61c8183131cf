#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/data/images/image_dataset.h"
#include "launch/generation/queried_model.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tools/attention/attention_report.h"
#include "launch/tools/predict/text_sample.h"

namespace tessera {

/// The layers and heads to report; empty means all.
struct AttentionChoice {
  std::vector<int64_t> layers;
  std::vector<int64_t> heads;
};

/// Computes a model's attention weights and mask for each sample. Leaves `checkpoint` empty. A
/// layer that only one stack of an encoder–decoder has is reported of this stack alone. Throws if
/// the model has no such layer or head, or a sample is too long. Collective.
AttentionReport record_attention(QueriedModel& model, const Tokenizer& tokenizer,
                                 const std::vector<Sample>& samples, const AttentionChoice& choice);

/// As above, for a model of images. Images have the model's size. Collective.
AttentionReport record_attention(QueriedModel& model, const std::vector<Pixels>& images,
                                 const AttentionChoice& choice);

}  // namespace tessera
