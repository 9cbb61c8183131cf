#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launch/support/input/text_part.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// What a thread tokenizes at a time.
struct InputPart {
  std::variant<TextPart, JsonLines> content;
  int64_t position = 0;  ///< bytes of all inputs, as the files are, that were read until then

  /// Bytes in memory.
  size_t size() const;
};

/// The tokens of an InputPart.
struct TokenPart {
  std::vector<int32_t> tokens;
  std::vector<Mark> marks;
  int64_t position = 0;
  int64_t bytes = 0;    ///< of text
  int64_t unknown = 0;  ///< tokens
  int64_t invalid = 0;  ///< characters that stand for invalid UTF-8
  int64_t malformed_lines = 0;
  std::string first_malformed;  ///< what was wrong with the first of them, and where
};

/// Where text of kPieceBytes is cut, so that it can be tokenized before more of it is known: where
/// the tokens are the same as without, or, if there is no such place, all the same.
size_t cut_of(const Tokenizer& tokenizer, std::string_view text);

/// The tokens of a part; threads may call it at the same time.
TokenPart encode_part(const Tokenizer& tokenizer, const TextPart& part);

}  // namespace tessera
