#pragma once

#include <string>
#include <vector>

#include "launch/data/sample.h"
#include "launch/tokenizers/tokenizer.h"
#include "models/model_config.h"

namespace tessera {

/// A text as the model takes it: BERT's begins with [CLS] and ends with [SEP]. Special tokens that
/// are written in the text are themselves. Throws if a text has no token, or the tokenizer not
/// those that BERT needs.
Sample sample_of_text(const Tokenizer& tokenizer, const ModelConfig& config,
                      const std::string& text);

/// `samples` one after the other as one row, a document each.
Sample packed(const std::vector<Sample>& samples);

}  // namespace tessera
