#pragma once

#include <string>
#include <vector>

#include "launch/tokenizers/huggingface_part.h"

namespace tessera {

/// An item of "added_tokens" of a tokenizer.json.
struct HuggingFaceToken {
  std::string text;
  Json id;
  bool special = false;
  bool strip_left = false;
  bool strip_right = false;
  bool single_word = false;
  bool normalized = false;
};

/// Reads "added_tokens" of the file `json`; throws, starting with `source`, if an item has a
/// setting whose effect is unknown.
std::vector<HuggingFaceToken> read_added_tokens(const Json& json, const std::string& source);

/// Returns the model's vocabulary and the added tokens, by id.
std::vector<std::string> all_tokens(const HuggingFacePart& model,
                                    const std::vector<HuggingFaceToken>& added,
                                    const std::string& source);

}  // namespace tessera
