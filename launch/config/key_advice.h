#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Lower case with underscores and without dashes in front, so that --num-layers is num_layers.
std::string as_key(std::string_view word);

/// Whether a word, also one with dashes as in --train.steps, is "section.key" of a key.
bool is_config_key(std::string_view word);

/// The values that a key allows, in words: "true or false". "" for no key.
std::string allowed_values(std::string_view key);

/// The keys that a word means: the key itself, those of this name in any section, the one that
/// another framework calls so, or those that it most likely misspells.
struct KeyAdvice {
  std::vector<std::string> keys;  ///< "section.key"
  std::string remark = {};        ///< what to know about the difference, or why there is no key
  bool is_guess = false;          ///< the word is misspelled, or none of these
};
KeyAdvice advice_for(std::string_view word);

/// Advises what to write instead of an unknown key of `section`, or of an unknown word at the top
/// level if `section` is "".
std::string unknown_key_advice(std::string_view section, std::string_view word);

}  // namespace tessera
