#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "launch/tokenizers/special_tokens.h"

namespace tessera {

/// Returns the existing special tokens, sorted and unique. Throws if one is outside the vocabulary.
std::vector<int32_t> special_ids(const VocabularyTraits& traits);

/// Throws unless the vocabulary has all special tokens with these names ("unknown", "start", "end",
/// "padding", "mask"). The message says what `purpose` lacks and which tokenizers have it.
void require_special_tokens(const VocabularyTraits& traits,
                            std::initializer_list<std::string_view> names,
                            std::string_view purpose);

}  // namespace tessera
