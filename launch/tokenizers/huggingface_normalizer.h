#pragma once

#include <string>
#include <vector>

#include "launch/support/text/json.h"
#include "launch/tokenizers/text/text_normalizer.h"

namespace tessera {

/// Returns the items of a "Sequence" whose list is called `key`, or else the part itself; nothing
/// for null. `where` names the part in messages.
std::vector<const Json*> steps_of(const Json& json, const std::string& where, const char* key);

/// Reads "normalizer" of the tokenizer.json `json`. Throws, naming it, for a step that is not among
/// `allowed`, which `allowed_names` says in words.
Normalizer read_normalizer(const Json& json, const std::string& source, const Normalizer& allowed,
                           const char* allowed_names);

/// Reads "normalizer" for a unigram model, which supports all steps.
Normalizer read_normalizer(const Json& json, const std::string& source);

/// The inverse: a part, or null without steps.
Json normalizer_json(const Normalizer& steps);

}  // namespace tessera
