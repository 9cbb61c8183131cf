#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/tokenizers/text/text_normalizer.h"

// The contents of a SentencePiece model file (Kudo and Richardson 2018), parsed without the
// library: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto

namespace tessera {

/// The maximum size of a model; published models are below 6 MB.
inline constexpr size_t kMaxSentencePieceBytes = size_t{64} << 20;
/// The maximum number of pieces; published models have up to 256,000.
inline constexpr size_t kMaxPieces = size_t{1} << 20;

/// How text is normalized before it is split.
struct SentencePieceNormalization {
  std::string charsmap;  ///< passed check_charsmap()
  bool dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

struct SentencePieceModel {
  enum class Algorithm : uint8_t { unigram = 1, bpe = 2 };
  enum class PieceType : uint8_t {
    normal = 1,
    unknown = 2,       ///< stands for text without pieces
    control = 3,       ///< stands for no text
    user_defined = 4,  ///< always a piece when it occurs in text
    unused = 5,
    byte = 6,  ///< "<0x0A>", for text without other pieces
  };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;

    /// Returns whether writing the piece's text can mean the piece itself.
    bool is_symbol() const { return type == PieceType::control || type == PieceType::user_defined; }
  };
  using Normalization = SentencePieceNormalization;

  Algorithm algorithm = Algorithm::unigram;
  std::vector<Piece> pieces;
  bool whitespace_as_suffix = false;
  bool byte_fallback = false;
  /// Names of special pieces, and the text of unknown ones; without a value, the library's
  /// defaults.
  std::optional<std::string> unknown, start, end, padding, unknown_surface;
  Normalization normalization;
  std::optional<Normalization> denormalization;
  /// The bytes at which text can be cut so that the tokens of the parts are those of the whole.
  /// Empty if there are none (see part_ends()).
  std::string cuts;

  /// Returns the symbol with this text, if any.
  std::optional<int32_t> find_symbol(std::string_view text) const;

  /// Serializes the fields above, and nothing else, for the library.
  std::string serialized() const;
};

/// Parses a model file. Throws, starting with `source`, unless the following holds, so that the
/// library behaves predictably: fields have their types; there are at most kMaxPieces distinct
/// pieces, each valid UTF-8 of 1 to 1000 bytes without NUL and with a finite score; exactly one
/// piece is unknown; there is one piece per byte if and only if byte fallback is on; at most 64
/// user-defined pieces are nested prefixes; the model is unigram or BPE; check_charsmap() accepts
/// its rules.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& source);

}  // namespace tessera
