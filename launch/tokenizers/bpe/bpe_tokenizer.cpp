#include "launch/tokenizers/bpe/bpe_tokenizer.h"

#include <xxhash.h>

#include <algorithm>

#include "launch/support/text/printable_text.h"
#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/byte_level_words.h"

namespace tessera {

size_t BpeTokenizer::WordHash::operator()(std::string_view word) const {
  return XXH3_64bits(word.data(), word.size());
}

/// Appends the tokens of words, and caches those of words seen before.
class BpeTokenizer::Encoding {
 public:
  Encoding(const BpeTokenizer& tokenizer, std::vector<int32_t>& tokens)
      : tokenizer_(tokenizer), tokens_(tokens) {}

  /// The bytes of `word` must live as long as this object.
  void add(std::string_view word) {
    const auto single = tokenizer_.single_.find(word);
    if (single != tokenizer_.single_.end()) {
      tokens_.push_back(single->second);
      return;
    }
    const auto [place, is_new] = known_.try_emplace(word);
    auto& [begin, count] = place->second;
    if (is_new) {
      join(word);
      begin = tokens_.size();
      count = word_.size();
      tokens_.insert(tokens_.end(), word_.begin(), word_.end());
    } else {
      for (size_t i = begin; i < begin + count; ++i) tokens_.push_back(tokens_[i]);
    }
  }

 private:
  struct Place {
    size_t begin = 0;
    size_t count = 0;
  };

  void join(std::string_view word) {
    word_.resize(word.size());
    std::transform(word.begin(), word.end(), word_.begin(),
                   [&](char byte) { return tokenizer_.vocabulary_.byte_token(byte); });
    tokenizer_.merges_.join(word_, workspace_);
  }

  const BpeTokenizer& tokenizer_;
  std::vector<int32_t>& tokens_;
  std::unordered_map<std::string_view, Place, WordHash> known_;
  std::vector<int32_t> word_;
  BpeMerges::Workspace workspace_;
};

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), merges_(vocabulary_.merges()) {
  std::vector<int32_t> word;
  BpeMerges::Workspace workspace;
  single_.reserve(vocabulary_.size());
  for (int32_t token = 0; token < vocab_size(); ++token) {
    if (vocabulary_.is_special(token)) continue;
    word.clear();
    for (const char byte : vocabulary_.bytes(token)) word.push_back(vocabulary_.byte_token(byte));
    merges_.join(word, workspace);
    if (word.size() == 1) single_.emplace(vocabulary_.bytes(token), token);
  }
  for (const int32_t token : vocabulary_.special_tokens()) {
    special_by_byte_[static_cast<unsigned char>(vocabulary_.text(token).front())].push_back(token);
  }
  for (std::vector<int32_t>& tokens : special_by_byte_) {
    std::stable_sort(tokens.begin(), tokens.end(), [&](int32_t a, int32_t b) {
      return vocabulary_.text(a).size() > vocabulary_.text(b).size();
    });
  }
}

void BpeTokenizer::append(std::string_view text, std::vector<int32_t>& tokens) const {
  std::string spaced;
  if (vocabulary_.add_prefix_space() && !text.empty() && text.front() != ' ') {
    text = spaced.append(" ").append(text);
  }
  tokens.reserve(tokens.size() + text.size() / 4);
  Encoding encoding(*this, tokens);
  for_each_byte_level_word(text, [&](std::string_view word) { encoding.add(word); });
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  append(text, tokens);
  return tokens;
}

std::optional<int32_t> BpeTokenizer::special_at(std::string_view text) const {
  for (const int32_t token : special_by_byte_[static_cast<unsigned char>(text.front())]) {
    const std::string& name = vocabulary_.text(token);
    if (text.substr(0, name.size()) == name) return token;
  }
  return std::nullopt;
}

std::vector<int32_t> BpeTokenizer::encode_with_special(std::string_view text) const {
  std::vector<int32_t> tokens;
  size_t plain_begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto token = special_at(text.substr(at));
    if (!token) {
      ++at;
      continue;
    }
    std::string_view plain = text.substr(plain_begin, at - plain_begin);
    if (vocabulary_.strips_left(*token)) plain = without_trailing_space(plain);
    append(plain, tokens);
    tokens.push_back(*token);
    at += vocabulary_.text(*token).size();
    plain_begin = at;
  }
  append(text.substr(plain_begin), tokens);
  return tokens;
}

size_t BpeTokenizer::last_cut(std::string_view text) const {
  // If text gets a space prefix, only text that starts with a space can be cut off.
  return last_byte_level_word_end(text, vocabulary_.add_prefix_space());
}

size_t BpeTokenizer::forced_cut(std::string_view text) const {
  const size_t start = last_character_start(text);
  return start > 0 ? start : text.size();
}

std::string BpeTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  text.reserve(4 * tokens.size());
  for (const int32_t token : tokens) {
    require_token(token);
    text += vocabulary_.bytes(token);
  }
  return text;
}

std::string BpeTokenizer::token_text(int32_t token) const {
  require_token(token);
  if (vocabulary_.is_special(token)) return vocabulary_.text(token);
  return printable(vocabulary_.bytes(token));
}

std::optional<int32_t> BpeTokenizer::end_of_document() const {
  const auto end = vocabulary_.find_special("<|endoftext|>");
  return end ? end : vocabulary_.find_special("</s>");
}

std::vector<bool> BpeTokenizer::continues_word() const {
  std::vector<bool> continues(vocabulary_.size());
  for (int32_t token = 0; token < vocab_size(); ++token) {
    const std::string_view bytes = vocabulary_.bytes(token);
    continues[static_cast<size_t>(token)] =
        !bytes.empty() && std::string_view(" \t\n\v\f\r").find(bytes.front()) == bytes.npos;
  }
  return continues;
}

Json BpeTokenizer::to_json() const {
  Json json = tessera::to_json(vocabulary_.description());
  json["kind"] = kind();
  return json;
}

}  // namespace tessera
