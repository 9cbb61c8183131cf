#include "launch/tokenizers/sentencepiece/sentencepiece_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <unordered_set>

#include "core/checked.h"
#include "core/error.h"
#include "launch/support/text/json.h"
#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/charsmap.h"
#include "launch/tokenizers/wordpiece/wordpiece_vocabulary.h"

namespace tessera {
namespace {

using Model = SentencePieceModel;
using Type = Model::PieceType;

/// The current field of a message. The functions throw, starting with `where`, if the field has
/// another wire type.
struct Field {
  protozero::pbf_reader& reader;
  const std::string& where;

  uint32_t number() const { return reader.tag(); }

  void require_type(protozero::pbf_wire_type type) const {
    require(reader.wire_type() == type, "{}: field {} has wire type {} instead of {}", where,
            number(), static_cast<int>(reader.wire_type()), static_cast<int>(type));
  }
  int32_t as_int() const {
    require_type(protozero::pbf_wire_type::varint);
    const int64_t value = reader.get_int64();
    require(std::numeric_limits<int32_t>::min() <= value &&
                value <= std::numeric_limits<int32_t>::max(),
            "{}: field {} is {}, which has more than 32 bits", where, number(), value);
    return static_cast<int32_t>(value);
  }
  bool as_bool() const {
    const int32_t value = as_int();
    require(value == 0 || value == 1, "{}: field {} is {} instead of 0 or 1", where, number(),
            value);
    return value == 1;
  }
  float as_float() const {
    require_type(protozero::pbf_wire_type::fixed32);
    return reader.get_float();
  }
  std::string_view as_bytes() const {
    require_type(protozero::pbf_wire_type::length_delimited);
    const protozero::data_view bytes = reader.get_view();
    return {bytes.data(), bytes.size()};
  }
};

/// Calls `body` with each field of an untrusted message whose number is in `known`. Skips others.
template <typename Body>
void for_each_field(std::string_view message, const std::string& where,
                    std::initializer_list<uint32_t> known, Body&& body) {
  try {
    protozero::pbf_reader reader(message.data(), message.size());
    while (reader.next()) {
      if (std::find(known.begin(), known.end(), reader.tag()) == known.end()) {
        reader.skip();
      } else {
        body(Field{reader, where});
      }
    }
  } catch (const protozero::exception& error) {
    fail("{}: is damaged: {}", where, error.what());
  }
}

Type piece_type(const Field& field) {
  const int32_t type = field.as_int();
  require(1 <= type && type <= 6, "{}: has type {}, but must have 1 to 6", field.where, type);
  return static_cast<Type>(type);
}

Model::Piece read_piece(std::string_view message, size_t index, const std::string& source) {
  const std::string where = fmt::format("{}: piece {}", source, index);
  Model::Piece piece;
  for_each_field(message, where, {1, 2, 3}, [&](const Field& field) {
    if (field.number() == 1) piece.text = field.as_bytes();
    if (field.number() == 2) piece.score = field.as_float();
    if (field.number() == 3) piece.type = piece_type(field);
  });
  const std::string& text = piece.text;
  require(!text.empty() && text.size() <= kMaxTokenBytes, "{}: has {} bytes, but must have 1 to {}",
          where, text.size(), kMaxTokenBytes);
  require(count_invalid_utf8(text) == 0 && text.find('\0') == std::string::npos,
          "{}: {} is not valid UTF-8 without NUL", where, quote(text));
  require(std::isfinite(piece.score), "{}: {} has the score {}", where, quote(text), piece.score);
  return piece;
}

void read_trainer_spec(std::string_view message, const std::string& source, Model& model) {
  const std::string where = source + ": its training";
  const auto text = [&](const Field& field) {
    const std::string_view bytes = field.as_bytes();
    require(bytes.size() <= kMaxTokenBytes && count_invalid_utf8(bytes) == 0 &&
                bytes.find('\0') == std::string_view::npos,
            "{}: field {} is not a name", where, field.number());
    return std::string(bytes);
  };
  for_each_field(message, where, {3, 24, 35, 44, 45, 46, 47, 48}, [&](const Field& field) {
    if (field.number() == 3) {
      const int32_t algorithm = field.as_int();
      require(algorithm == 1 || algorithm == 2,
              "{}: is a model of kind {}, but only unigram (1) and BPE (2) are supported", source,
              algorithm);
      model.algorithm = static_cast<Model::Algorithm>(algorithm);
    }
    if (field.number() == 24) model.whitespace_as_suffix = field.as_bool();
    if (field.number() == 35) model.byte_fallback = field.as_bool();
    if (field.number() == 44) model.unknown_surface = text(field);
    if (field.number() == 45) model.unknown = text(field);
    if (field.number() == 46) model.start = text(field);
    if (field.number() == 47) model.end = text(field);
    if (field.number() == 48) model.padding = text(field);
  });
}

void read_normalization(std::string_view message, const std::string& where,
                        Model::Normalization& normalization) {
  for_each_field(message, where, {2, 3, 4, 5}, [&](const Field& field) {
    if (field.number() == 2) normalization.charsmap = field.as_bytes();
    if (field.number() == 3) normalization.dummy_prefix = field.as_bool();
    if (field.number() == 4) normalization.remove_extra_whitespaces = field.as_bool();
    if (field.number() == 5) normalization.escape_whitespaces = field.as_bool();
  });
}

bool is_one_character(std::string_view text) { return last_character_start(text) == 0; }

/// The model must have all byte pieces, "<0x00>" to "<0xFF>", or none.
void check_byte_pieces(const Model& model, const std::string& source) {
  std::unordered_set<std::string_view> found;
  for (const Model::Piece& piece : model.pieces) {
    if (piece.type == Type::byte) found.insert(piece.text);
  }
  const size_t wanted = model.byte_fallback ? 256 : 0;
  require(found.size() == wanted, "{}: has {} pieces for bytes instead of {}", source, found.size(),
          wanted);
  for (size_t byte = 0; byte < wanted; ++byte) {
    const std::string name = fmt::format("<0x{:02X}>", byte);
    require(found.count(name) == 1, "{}: has no piece {}", source, name);
  }
}

/// The library finds all pieces that are prefixes of a text and has room for 64.
void check_user_defined(const Model& model, const std::string& source) {
  constexpr size_t kMostNested = 64;
  std::vector<std::string_view> texts;
  for (const Model::Piece& piece : model.pieces) {
    if (piece.type == Type::user_defined) texts.push_back(piece.text);
  }
  std::sort(texts.begin(), texts.end());
  std::vector<std::string_view> nested;
  for (const std::string_view text : texts) {
    while (!nested.empty() && text.substr(0, nested.back().size()) != nested.back()) {
      nested.pop_back();
    }
    nested.push_back(text);
    require(nested.size() <= kMostNested,
            "{}: more than {} user-defined pieces are prefixes of one another; the last is {}",
            source, kMostNested, quote(text));
  }
}

void check_pieces(const Model& model, const std::string& source) {
  require(!model.pieces.empty(), "{}: has no pieces: is this a SentencePiece model?", source);
  std::unordered_set<std::string_view> texts;
  size_t unknown = 0;
  size_t normal = 0;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const Model::Piece& piece = model.pieces[i];
    require(texts.insert(piece.text).second, "{}: piece {}, {}, is a duplicate", source, i,
            quote(piece.text));
    const bool is_text = piece.type == Type::normal || piece.type == Type::user_defined ||
                         piece.type == Type::unused;
    // When merging characters, the library uses the piece of that name, whatever its type.
    require(is_text || !is_one_character(piece.text),
            "{}: piece {}, {}, is a single character, which only text pieces may be", source, i,
            quote(piece.text));
    if (piece.type == Type::unknown) ++unknown;
    if (is_text) ++normal;
  }
  require(unknown == 1, "{}: has {} unknown pieces instead of 1", source, unknown);
  require(normal > 0, "{}: has {} pieces, but none for text", source, model.pieces.size());
  check_byte_pieces(model, source);
  check_user_defined(model, source);
}

/// Returns the spaces and line ends at which text can be cut: each is one space in any context,
/// leading, trailing and repeated spaces are removed, text starts like a word, and no piece spans
/// words.
std::string cuts_of(const Model& model, const CharsmapFacts& facts) {
  const Model::Normalization& rules = model.normalization;
  if (!rules.dummy_prefix || !rules.remove_extra_whitespaces || !rules.escape_whitespaces ||
      model.whitespace_as_suffix || facts.makes_space_marks) {
    return "";
  }
  bool has_mark = false;
  for (const Model::Piece& piece : model.pieces) {
    if (piece.text.find(kSpaceMark, 1) != std::string::npos) return "";
    if (piece.type == Type::user_defined &&
        piece.text.find_first_of(facts.spaces) != std::string::npos) {
      return "";
    }
    has_mark |= piece.text == kSpaceMark &&
                (piece.type == Type::normal || piece.type == Type::user_defined);
  }
  // Without a mark, unknown text before and inside a word would merge into one unknown piece.
  return has_mark ? facts.spaces : "";
}

void write(protozero::pbf_writer message, const Model::Normalization& rules) {
  message.add_bytes(2, rules.charsmap);
  message.add_bool(3, rules.dummy_prefix);
  message.add_bool(4, rules.remove_extra_whitespaces);
  message.add_bool(5, rules.escape_whitespaces);
}

}  // namespace

std::optional<int32_t> SentencePieceModel::find_symbol(std::string_view text) const {
  const auto found = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return piece.is_symbol() && piece.text == text;
  });
  if (found == pieces.end()) return std::nullopt;
  return narrow<int32_t>(found - pieces.begin());
}

std::string SentencePieceModel::serialized() const {
  std::string bytes;
  protozero::pbf_writer message(bytes);
  for (const Piece& piece : pieces) {
    protozero::pbf_writer part(message, 1);
    part.add_bytes(1, piece.text);
    part.add_float(2, piece.score);
    part.add_enum(3, static_cast<int32_t>(piece.type));
  }
  {
    protozero::pbf_writer training(message, 2);
    training.add_enum(3, static_cast<int32_t>(algorithm));
    training.add_bool(24, whitespace_as_suffix);
    training.add_bool(35, byte_fallback);
    if (unknown_surface) training.add_bytes(44, *unknown_surface);
    if (unknown) training.add_bytes(45, *unknown);
    if (start) training.add_bytes(46, *start);
    if (end) training.add_bytes(47, *end);
    if (padding) training.add_bytes(48, *padding);
  }
  write({message, 3}, normalization);
  if (denormalization) write({message, 5}, *denormalization);
  return bytes;
}

SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& source) {
  require(bytes.size() <= kMaxSentencePieceBytes,
          "{}: has {} bytes, but a SentencePiece model has at most {}: is this one?", source,
          bytes.size(), kMaxSentencePieceBytes);
  Model model;
  for_each_field(bytes, source, {1, 2, 3, 5}, [&](const Field& field) {
    switch (field.number()) {
      case 1:
        require(model.pieces.size() < kMaxPieces, "{}: has more than {} pieces", source,
                kMaxPieces);
        model.pieces.push_back(read_piece(field.as_bytes(), model.pieces.size(), source));
        break;
      case 2:
        read_trainer_spec(field.as_bytes(), source, model);
        break;
      case 3:
        read_normalization(field.as_bytes(), source, model.normalization);
        break;
      case 5:
        if (!model.denormalization) model.denormalization.emplace();
        read_normalization(field.as_bytes(), source, *model.denormalization);
        break;
      default:  // self-tests of the model, and fields of later versions
        break;
    }
  });
  check_pieces(model, source);
  const CharsmapFacts facts = check_charsmap(model.normalization.charsmap, source);
  if (model.denormalization) check_charsmap(model.denormalization->charsmap, source);
  model.cuts = cuts_of(model, facts);
  return model;
}

}  // namespace tessera
