#include "launch/tokenizers/wordpiece/wordpiece_tokenizer.h"

#include <algorithm>
#include <array>

#include "launch/tokenizers/text/word_cache.h"

namespace tessera {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  size_t begin = 0;
  for (size_t at = 0; (at = text.find(from, begin)) != std::string::npos;) {
    result.append(text, begin, at - begin).append(to);
    begin = at + from.size();
  }
  if (begin == 0) return;
  text = result.append(text, begin);
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kReplacements = {
    {{" .", "."},
     {" ?", "?"},
     {" !", "!"},
     {" ,", ","},
     {" ' ", "'"},
     {" n't", "n't"},
     {" 'm", "'m"},
     {" 's", "'s"},
     {" 've", "'ve"},
     {" 're", "'re"}}};

/// Matches clean_up_tokenization() of the Python package `transformers`.
std::string cleaned_up(std::string text) {
  for (const auto& [from, to] : kReplacements) replace_all(text, from, to);
  return text;
}

}  // namespace

void WordPieceTokenizer::append_words(std::string_view text, std::vector<int32_t>& tokens) const {
  for_each_bert_word(text, casing_,
                     [&](std::string_view word) { vocabulary_.append_pieces(word, tokens); });
}

// Splits each chunk between ASCII white space only once, because most are repeated.
std::vector<int32_t> WordPieceTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size() / 4);
  WordCache known(tokens);
  for_each_chunk(text, [&](std::string_view chunk) {
    known.append(chunk, [&] { append_words(chunk, tokens); });
  });
  return tokens;
}

std::vector<int32_t> WordPieceTokenizer::encode_with_special(std::string_view text) const {
  std::vector<int32_t> tokens;
  const auto append = [&](std::string_view plain) {
    const std::vector<int32_t> more = encode(plain);
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  size_t plain_begin = 0;
  for (size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at + 1)) {
    for (const std::string_view name : kBertSpecial) {
      const auto token = vocabulary_.find(name);
      if (!token || text.substr(at, name.size()) != name) continue;
      append(text.substr(plain_begin, at - plain_begin));
      tokens.push_back(*token);
      plain_begin = at + name.size();
    }
  }
  append(text.substr(plain_begin));
  return tokens;
}

std::vector<int32_t> WordPieceTokenizer::named_tokens() const {
  std::vector<int32_t> tokens;
  for (const std::string_view name : kBertSpecial) {
    if (const auto token = vocabulary_.find(name)) tokens.push_back(*token);
  }
  return tokens;
}

size_t WordPieceTokenizer::last_cut(std::string_view text) const {
  return last_bert_word_end(text);
}

size_t WordPieceTokenizer::forced_cut(std::string_view text) const {
  const size_t start = last_character_start(text);
  return start > 0 ? start : text.size();
}

int64_t WordPieceTokenizer::count_invalid(std::string_view text) const {
  return count_invalid_utf8(text);
}

std::string WordPieceTokenizer::decode(std::span<const int32_t> tokens) const {
  const SpecialTokens& special = vocabulary_.special();
  std::string text;
  for (const int32_t token : tokens) {
    require_token(token);
    if (token == special.padding || token == special.start || token == special.end) continue;
    const std::string_view piece = vocabulary_.tokens()[static_cast<size_t>(token)];
    if (!text.empty() && vocabulary_.continues_word(token)) {
      text += piece.substr(kContinuation.size());
    } else {
      if (!text.empty()) text += ' ';
      text += piece;
    }
  }
  return cleaned_up(std::move(text));
}

size_t WordPieceTokenizer::settled_bytes(std::span<const int32_t> tokens) const {
  // Each replacement may begin in the last bytes of its input, all but one of its own length.
  size_t open = 0;
  for (const auto& replacement : kReplacements) open += replacement.first.size() - 1;
  const size_t size = decode(tokens).size();
  return size - std::min(size, open);
}

std::string WordPieceTokenizer::token_text(int32_t token) const {
  require_token(token);
  return vocabulary_.tokens()[static_cast<size_t>(token)];
}

std::vector<bool> WordPieceTokenizer::continues_word() const {
  std::vector<bool> continues(vocabulary_.tokens().size());
  for (size_t i = 0; i < continues.size(); ++i) {
    continues[i] = vocabulary_.continues_word(static_cast<int32_t>(i));
  }
  return continues;
}

Json WordPieceTokenizer::to_json() const {
  Json json = {{"kind", kind()}, {"tokens", vocabulary_.tokens()}};
  if (casing_.strip_accents != casing_.lower_case) json["strip_accents"] = casing_.strip_accents;
  return json;
}

}  // namespace tessera
