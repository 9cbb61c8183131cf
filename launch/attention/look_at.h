#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/attention/attention_report.h"
#include "launch/predict/text_model.h"
#include "launch/tokenizer/tokenizer.h"

namespace tessera {

/// What to look at: layers and heads, where empty all of them.
struct AttentionChoice {
  std::vector<int64_t> layers;
  std::vector<int64_t> heads;
};

/// A text as the model takes it: BERT's begins with [CLS] and ends with [SEP]. Special tokens that
/// are written in the text are themselves. Throws if a text has no token, or the tokenizer not
/// those that BERT needs.
Sample sample_of_text(const Tokenizer& tokenizer, const ModelConfig& config,
                      const std::string& text);

/// `samples` one after the other as one row, a document each.
Sample packed(const std::vector<Sample>& samples);

/// The attention weights of a model for each sample, and what its mask hides. `checkpoint` is left
/// empty. Throws if the model has no such layer or head, or a sample is too long. Collective.
AttentionReport look_at_attention(TextModel& model, const Tokenizer& tokenizer,
                                  const std::vector<Sample>& samples,
                                  const AttentionChoice& choice);

}  // namespace tessera
