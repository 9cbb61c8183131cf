#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// The unchecked contents of the files of a byte-level BPE tokenizer.
struct BpeDescription {
  /// By id: bytes in GPT-2's alphabet (byte_alphabet.h), special tokens verbatim.
  std::vector<std::string> tokens;
  /// "LEFT RIGHT": two tokens that merge into one, in order of priority.
  std::vector<std::string> merges;
  /// Tokens declared as special. There may be others (bpe_vocabulary.h).
  std::vector<int32_t> special;
  /// Special tokens that absorb the preceding white space, such as RoBERTa's "<mask>".
  std::vector<int32_t> strip_left;
  /// Whether to put a space before text that does not start with one.
  bool add_prefix_space = false;

  /// For messages: "gpt2/vocab.json".
  std::string tokens_source;
  /// For messages, before the number of a merge: "gpt2/merges.txt: line ".
  std::string merges_source;
  /// The number of the first merge in messages.
  int64_t first_merge = 1;

  std::string where_merge(size_t index) const;
};

/// Reads vocab.json, an object of token: id, and merges.txt from `folder`. Throws, naming the file
/// and the token or line, if either is invalid.
BpeDescription read_bpe_folder(const std::string& folder);

/// Reads an object with "tokens", "merges", "special", "add_prefix_space" and optionally
/// "strip_left".
BpeDescription bpe_from_json(const JsonObject& object);

/// The inverse of bpe_from_json(), without the kind.
Json to_json(const BpeDescription& bpe);

/// Return the contents of a vocab.json and a merges.txt.
std::string bpe_vocabulary_text(const std::vector<std::string>& tokens);
std::string bpe_merges_text(const std::vector<std::string>& merges);

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

/// Returns the items of a list of strings; throws, starting with `where`, for anything else.
std::vector<std::string> strings_of(const Json& list, const std::string& where);

}  // namespace tessera
