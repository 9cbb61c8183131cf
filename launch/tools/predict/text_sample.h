#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/data/sample.h"
#include "launch/tokenizers/tokenizer.h"
#include "models/model_config.h"

namespace tessera {

/// A text as model input: BERT's begins with [CLS] and ends with [SEP]. Special tokens written in
/// the text are recognized. Throws if a text has no token, or the tokenizer lacks those that BERT
/// needs.
Sample sample_of_text(const Tokenizer& tokenizer, const ModelConfig& config,
                      const std::string& text);

/// Ids in decimal as model input, with the same start and end. `where` starts the message about a
/// word that is not an id of the model. Throws also as sample_of_text() does.
Sample sample_of_ids(const Tokenizer& tokenizer, const ModelConfig& config, const std::string& ids,
                     const std::string& where);

/// The positions of mask tokens in `sample`. Throws, naming the text as `what`, if there is none,
/// or if the tokenizer has no mask.
std::vector<int32_t> masked_places(const Sample& sample, const Tokenizer& tokenizer,
                                   std::string_view what);

/// `samples` one after the other in one row, one document each.
Sample packed(const std::vector<Sample>& samples);

}  // namespace tessera
