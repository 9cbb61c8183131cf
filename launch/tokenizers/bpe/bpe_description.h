#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/support/text/json.h"
#include "launch/tokenizers/text/byte_level_words.h"
#include "launch/tokenizers/text/text_normalizer.h"

namespace tessera {

/// Texts that SentencePiece's "▁" is put in front of, as in the pre-tokenizer "Metaspace".
enum class PrefixMark : uint8_t {
  never,
  first,   ///< the start of a text
  always,  ///< also the text after an added token
};

/// The unchecked contents of the files of a BPE tokenizer, or of one with a unigram model, which
/// differs only in how a word is split.
struct BpeDescription {
  /// By id: bytes in GPT-2's alphabet (byte_alphabet.h), special tokens verbatim. With
  /// `characters` all are verbatim.
  std::vector<std::string> tokens;
  /// "LEFT RIGHT": two tokens that merge into one, in order of priority.
  std::vector<std::string> merges;
  /// Tokens declared as special. There may be others (bpe_vocabulary.h).
  std::vector<int32_t> special;
  /// Tokens that are found in any text before it is split into words, such as ModernBERT's runs of
  /// spaces.
  std::vector<int32_t> added;
  /// Added tokens that absorb the preceding white space, such as RoBERTa's "<mask>", or the
  /// following one; those that are found in normalized text; those that are found only as words.
  std::vector<int32_t> strip_left, strip_right, normalized, single_word;
  /// Whether to put a space before text that does not start with one.
  bool add_prefix_space = false;
  /// Applied to text before it is split into words.
  Normalizer normalizer;
  std::vector<WordRule> words = {WordRule::gpt2};  ///< each splits the words of the one before
  /// Whether a word that is a token is not split, even if no merges make it.
  bool ignore_merges = false;

  /// Whether merges join characters, as in Llama 2, instead of bytes. A character that is no token
  /// becomes bytes, "<0x0A>".
  bool characters = false;
  /// The scores of a unigram model (unigram_pieces.h), which also has `characters` and no merges:
  /// those of its pieces, which are the first tokens. Empty for BPE.
  std::vector<double> scores;
  int32_t unknown = 0;         ///< the piece for unknown characters
  bool byte_fallback = false;  ///< whether their bytes are tokens instead, as always in BPE

  /// With `characters`: whether words end at white space, which is dropped.
  bool split_spaces = false;
  /// With `characters`: whether spaces become "▁" after normalization, and what gets one in front.
  std::optional<PrefixMark> metaspace;
  /// With `metaspace`: whether each "▁" starts a word.
  bool split_words = false;
  /// With `characters`: whether decoding drops a space at the start; with `metaspace_decoder`, all
  /// spaces of the first token.
  bool strip_start = false;
  bool metaspace_decoder = false;  ///< of a unigram model

  /// For messages: "gpt2/vocab.json".
  std::string tokens_source;
  /// For messages, before the number of a merge: "gpt2/merges.txt: line ".
  std::string merges_source;
  /// The number of the first merge in messages.
  int64_t first_merge = 1;

  bool is_unigram() const { return !scores.empty(); }
  /// Whether a character that is no token becomes bytes.
  bool falls_back() const { return is_unigram() ? byte_fallback : characters; }

  std::string where_merge(size_t index) const;

  /// Whether a vocab.json and a merges.txt say all of it, except for `strip_left`.
  bool is_plain() const;
};

/// Reads vocab.json, an object of token: id, and merges.txt from `folder`. Throws, naming the file
/// and the token or line, if either is invalid.
BpeDescription read_bpe_folder(const std::string& folder);

/// Reads an object with "tokens", "special", "add_prefix_space", "merges" unless it has "scores",
/// and optionally the other members of BpeDescription.
BpeDescription bpe_from_json(const JsonObject& object);

/// The inverse of bpe_from_json(), without the kind.
Json to_json(const BpeDescription& bpe);

/// Return the contents of a vocab.json and a merges.txt.
std::string bpe_vocabulary_text(const std::vector<std::string>& tokens);
std::string bpe_merges_text(const std::vector<std::string>& merges);

std::string_view to_string(WordRule rule);
std::string_view to_string(PrefixMark mark);

/// Collects tokens with their ids, in any order.
class NumberedTokens {
 public:
  /// `source` names the tokens in messages.
  explicit NumberedTokens(std::string source) : source_(std::move(source)) {}

  /// Throws unless `id` is a non-negative 32-bit integer, and the token was not added before with
  /// another id.
  void add(const std::string& token, const Json& id);
  /// Adds a vocabulary: an object of token: id.
  void add_all(const Json& vocabulary);

  /// Returns the tokens by id. Throws unless the ids are 0 to size - 1.
  std::vector<std::string> in_order() const;

 private:
  std::string source_;
  std::map<std::string, int32_t> tokens_;
};

/// Returns the items of a list of numbers, which is not empty; throws, starting with `where`, for
/// anything else.
std::vector<double> scores_of(const Json& list, const std::string& where);

/// Returns the items of a list of strings; throws, starting with `where`, for anything else.
std::vector<std::string> strings_of(const Json& list, const std::string& where);

}  // namespace tessera
