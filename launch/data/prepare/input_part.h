#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launch/data/prepare/min_hash.h"
#include "launch/support/files/checksum.h"
#include "launch/support/input/text_part.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// The unit of work of a tokenizing thread.
struct InputPart {
  std::variant<TextPart, TextLines> content;
  int64_t position = 0;  ///< bytes of all inputs, as stored, that were read up to here
  /// Rows that were skipped while this was read, and the problem with the first of them. Lines are
  /// parsed later.
  int64_t malformed_rows = 0;
  std::string first_malformed = {};

  /// Returns the bytes in memory.
  size_t size() const;
};

/// Counts about a text besides its tokens.
struct TextCounts {
  int64_t bytes = 0;    ///< of text, or of lines of ids
  int64_t unknown = 0;  ///< number of tokens
  int64_t invalid = 0;  ///< characters that replace invalid UTF-8

  TextCounts& operator+=(const TextCounts& other);
};

/// The tokens before a mark and after the previous one.
struct TokenPiece {
  TextCounts counts;
  Hash128 hash;  ///< of the text, or of the ids; Hash128{} if there is none
};

/// The tokens of an InputPart. A text is cut into the same pieces whichever files and parts it was
/// in, so their hashes identify it.
struct TokenPart {
  std::vector<int32_t> tokens;
  std::vector<Mark> marks;
  std::vector<TokenPiece> pieces;    ///< one before each mark
  std::vector<uint32_t> signatures;  ///< MinHash::size() values for each mark, if asked for
  int64_t position = 0;
  int64_t bytes = 0;            ///< of all pieces
  int64_t malformed_lines = 0;  ///< or rows
  std::string first_malformed;  ///< problem with the first of them, and its position
};

/// Returns where to cut text of kPieceBytes, to tokenize it before the rest is known: a place that
/// does not change the tokens, or, if there is none, a forced cut.
size_t cut_of(const Tokenizer& tokenizer, std::string_view text);

/// Tokenizes a part, with the signatures of its pieces unless `near` is null. Thread-safe.
TokenPart encode_part(const Tokenizer& tokenizer, const TextPart& part, const MinHash* near);

}  // namespace tessera
