#include "launch/tokenizers/wordpiece/wordpiece_vocabulary.h"

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/vocabulary_file.h"

namespace tessera {
namespace {

bool is_continuation(std::string_view token) {
  return token.size() > kContinuation.size() && token.substr(0, 2) == kContinuation;
}

std::string name_of(size_t token, TokenName name) {
  return name == TokenName::line ? fmt::format("line {}", token + 1)
                                 : fmt::format("token {}", token);
}

/// `where` names the token.
void check_token(std::string_view token, const std::string& where) {
  require(!token.empty(), "{} is empty: is this a vocabulary?", where);
  require(token.size() <= kMaxTokenBytes,
          "{} has {} bytes, but at most {} are allowed: is this a vocabulary?", where, token.size(),
          kMaxTokenBytes);
  require(count_invalid_utf8(token) == 0, "{} is not valid UTF-8: {}", where, quote(token));
}

/// Returns whether this byte starts a UTF-8 character.
bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

WordPieceVocabulary::WordPieceVocabulary(std::vector<std::string> tokens, const std::string& source,
                                         TokenName name)
    : tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view token = tokens_[i];
    check_token(token, source + ": " + name_of(i, name));
    const auto [place, is_new] = ids_.emplace(token, narrow<int32_t>(i));
    require(is_new, "{}: {} and {} are both {}", source,
            name_of(static_cast<size_t>(place->second), name), name_of(i, name), quote(token));
    if (is_continuation(token)) {
      continuations_.emplace(token.substr(kContinuation.size()), narrow<int32_t>(i));
    }
    longest_ = std::max(longest_, token.size());
  }
  special_ = {.unknown = find("[UNK]"),
              .start = find("[CLS]"),
              .end = find("[SEP]"),
              .padding = find("[PAD]"),
              .mask = find("[MASK]")};
  require(special_.unknown.has_value(),
          "{}: has {} tokens, but no [UNK], which stands for words without pieces: is this the "
          "vocabulary of a WordPiece tokenizer?",
          source, tokens_.size());
}

WordPieceVocabulary WordPieceVocabulary::read(const std::string& path) {
  const MappedFile file = open_vocabulary_file(path, '\n');
  std::vector<std::string> tokens;
  for (std::string_view rest = file.text(); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    tokens.emplace_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {std::move(tokens), path, TokenName::line};
}

WordPieceVocabulary WordPieceVocabulary::from_json(const JsonObject& object) {
  std::vector<std::string> tokens;
  for (const Json& token : object.list("tokens")) {
    require(token.is_string(), "{}: item {} of \"tokens\" must be a string, but is {}",
            object.where(), tokens.size(), json_type(token));
    tokens.push_back(token.get<std::string>());
  }
  return {std::move(tokens), object.where()};
}

std::optional<int32_t> WordPieceVocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

bool WordPieceVocabulary::continues_word(int32_t token) const {
  return is_continuation(tokens_[static_cast<size_t>(token)]);
}

void WordPieceVocabulary::append_pieces(std::string_view word, std::vector<int32_t>& out) const {
  if (is_too_long(word)) {
    out.push_back(unknown());
    return;
  }
  const size_t first = out.size();
  for (size_t begin = 0; begin < word.size();) {
    const Ids& ids = begin == 0 ? ids_ : continuations_;
    size_t end = std::min(word.size(), begin + longest_);
    auto found = ids.find(word.substr(begin, end - begin));
    while (found == ids.end() && --end > begin) {
      if (starts_character(word[end])) found = ids.find(word.substr(begin, end - begin));
    }
    if (found == ids.end()) {
      out.resize(first);
      out.push_back(unknown());
      return;
    }
    out.push_back(found->second);
    begin = end;
  }
}

bool is_too_long(std::string_view word) {
  constexpr int64_t kMostCharacters = 100;
  return std::count_if(word.begin(), word.end(), starts_character) > kMostCharacters;
}

std::string vocabulary_text(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) {
    text += token;
    text += '\n';
  }
  return text;
}

}  // namespace tessera
