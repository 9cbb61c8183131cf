#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// What the files of a byte-level BPE tokenizer say, not checked yet.
struct BpeDescription {
  /// By number: bytes in GPT-2's alphabet (byte_alphabet.h), special tokens as they are written.
  std::vector<std::string> tokens;
  /// "LEFT RIGHT", two tokens that become one, the most urgent first.
  std::vector<std::string> merges;
  /// Tokens that are said to be special; there may be more that are (bpe_vocabulary.h).
  std::vector<int32_t> special;
  /// Special tokens that take the white space before them with them, as RoBERTa's "<mask>".
  std::vector<int32_t> strip_left;
  /// Whether a space goes before text that does not start with one.
  bool add_prefix_space = false;

  /// For messages: "gpt2/vocab.json".
  std::string tokens_source;
  /// For messages, before the number of a merge: "gpt2/merges.txt: line ".
  std::string merges_source;
  /// The number of the first merge in messages.
  int64_t first_merge = 1;

  std::string where_merge(size_t index) const;
};

/// Of `folder`, which holds a vocab.json, an object of token: number, and a merges.txt. Throws,
/// naming the file and the token or line, if one is not what it should be.
BpeDescription read_bpe_folder(const std::string& folder);

/// Of an object with "tokens", "merges", "special", "add_prefix_space" and, where there are such,
/// "strip_left".
BpeDescription bpe_from_json(const JsonObject& object);

/// That object, without its kind.
Json to_json(const BpeDescription& bpe);

/// The bytes of a vocab.json and of a merges.txt.
std::string bpe_vocabulary_text(const std::vector<std::string>& tokens);
std::string bpe_merges_text(const std::vector<std::string>& merges);

/// Puts tokens that come with their numbers in order.
class NumberedTokens {
 public:
  /// `source` names them in messages.
  explicit NumberedTokens(std::string source) : source_(std::move(source)) {}

  /// Throws unless `id` is an integer of 32 bits, not below 0, and the token was not added before
  /// with another number.
  void add(const std::string& token, const Json& id);
  /// As a vocabulary's object of token: number.
  void add_all(const Json& vocabulary);

  /// Token i is the i-th. Throws unless their numbers are 0 to size - 1.
  std::vector<std::string> in_order() const;

 private:
  std::string source_;
  std::map<std::string, int32_t> tokens_;
};

/// The items of a list of strings; throws, starting with `where`, if it is anything else.
std::vector<std::string> strings_of(const Json& list, const std::string& where);

}  // namespace tessera
