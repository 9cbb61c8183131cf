#pragma once

#include <string>

#include "launch/tokenizers/bpe/bpe_description.h"
#include "launch/tokenizers/huggingface_part.h"

namespace tessera {

/// Reads the parts of a tokenizer.json, `json`, whose model is "BPE": of bytes if its decoder is
/// "ByteLevel", of characters if the model has "byte_fallback". Throws, naming the setting, if
/// anything unsupported would change tokens.
BpeDescription read_huggingface_bpe(const Json& json, HuggingFacePart& model,
                                    const std::string& source);

/// Does the same for a model "Unigram".
BpeDescription read_huggingface_unigram(const Json& json, HuggingFacePart& model,
                                        const std::string& source);

/// The inverse of both, without "added_tokens", "post_processor" and the model's "vocab" and
/// "merges": "normalizer", "pre_tokenizer", "decoder" and "model".
Json huggingface_bpe_parts(const BpeDescription& bpe);

}  // namespace tessera
