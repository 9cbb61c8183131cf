#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// A model of SentencePiece (Kudo and Richardson 2018) as its file says it, read without its
// library: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto

namespace tessera {

/// U+2581: what a space is in pieces.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
/// A larger model is refused; published ones are below 6 MB.
inline constexpr size_t kMaxSentencePieceBytes = size_t{64} << 20;
/// More pieces are refused; published models have 256,000 at most.
inline constexpr size_t kMaxPieces = size_t{1} << 20;

/// What is done to text before it is cut.
struct SentencePieceNormalization {
  std::string charsmap;  ///< check_charsmap() took it
  bool dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

struct SentencePieceModel {
  enum class Algorithm : uint8_t { unigram = 1, bpe = 2 };
  enum class PieceType : uint8_t {
    normal = 1,
    unknown = 2,       ///< stands for what has no pieces
    control = 3,       ///< stands for no text
    user_defined = 4,  ///< always a piece where it stands in the text
    unused = 5,
    byte = 6,  ///< "<0x0A>", of what has no other pieces
  };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;

    /// Whether a person means the token itself by writing it.
    bool is_symbol() const { return type == PieceType::control || type == PieceType::user_defined; }
  };
  using Normalization = SentencePieceNormalization;

  Algorithm algorithm = Algorithm::unigram;
  std::vector<Piece> pieces;
  bool whitespace_as_suffix = false;
  bool byte_fallback = false;
  /// Names of pieces, and what an unknown one shows as; without a value the library's own.
  std::optional<std::string> unknown, start, end, padding, unknown_surface;
  Normalization normalization;
  std::optional<Normalization> denormalization;
  /// The bytes at which a text can be cut, so that its parts have together the tokens of the whole;
  /// empty where there are none (see part_ends()).
  std::string cuts;

  /// The piece that is a symbol of this text, if there is one.
  std::optional<int32_t> find_symbol(std::string_view text) const;

  /// As the library reads it, with nothing in it that is not above.
  std::string serialized() const;
};

/// The model that the bytes of a file hold. Throws, starting with `source`, unless all of this
/// holds, so that the library does nothing unexpected with it: the fields have their types; at most
/// kMaxPieces pieces, each different, valid UTF-8 of 1 to 1000 bytes without NUL, with a finite
/// score; exactly one unknown piece; one piece for each byte if and only if unknown text falls back
/// to bytes; at most 64 user-defined pieces that start with one another; unigram or BPE; rules that
/// check_charsmap() takes.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& source);

}  // namespace tessera
