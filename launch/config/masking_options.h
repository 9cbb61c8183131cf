#pragma once

#include <cstdint>

namespace tessera {

/// The unit that is chosen as a whole.
enum class MaskUnit : uint8_t {
  token,       ///< as in Devlin et al., "BERT", 2019
  whole_word,  ///< as in BERT's later models: all tokens of a word, or none
  span,        ///< several words in a row, as in Joshi et al., "SpanBERT", 2020
};

/// How a chosen token is hidden from the model.
enum class MaskHide : uint8_t {
  token,      ///< what replaces it
  attention,  ///< the mask token replaces it, and no token attends to its position
};

struct MaskingOptions {
  double probability = 0.15;     ///< that a token is chosen
  double mask_fraction = 0.8;    ///< of the chosen, replaced by the mask token
  double random_fraction = 0.1;  ///< of the chosen, replaced by a random token; the rest is kept
  MaskUnit unit = MaskUnit::token;
  int64_t max_span = 10;  ///< maximum words in a span, as in SpanBERT
  MaskHide hide = MaskHide::token;

  bool operator==(const MaskingOptions&) const = default;
};

}  // namespace tessera
