#include "launch/tokenizers/text/added_tokens.h"

#include <unicode/utf8.h>

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/byte_level_words.h"
#include "launch/tokenizers/text/unicode.h"

namespace tessera {
namespace {

size_t byte_of(char c) { return static_cast<unsigned char>(c); }

size_t pair_of(char a, char b) { return byte_of(a) << 8 | byte_of(b); }

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  auto at = static_cast<int64_t>(last_character_start(text));
  UChar32 c = 0;
  U8_NEXT(text.data(), at, static_cast<int64_t>(text.size()), c);
  return is_word_character(c);
}

bool starts_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t at = 0;
  UChar32 c = 0;
  U8_NEXT(text.data(), at, text.size(), c);
  return is_word_character(c);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    require(!token.text.empty(), "the added token {} has no text", token.id);
    finds_plain_ = finds_plain_ || !token.special;
    by_first_byte_[byte_of(token.text.front())].push_back(narrow<int>(i));
    for (size_t at = 0; at + 1 < token.text.size(); ++at) {
      inside_.set(pair_of(token.text[at], token.text[at + 1]));
    }
    if (token.text.size() > 1) {
      starts_.set(pair_of(token.text[0], token.text[1]));
    } else {
      for (int second = 0; second < 256; ++second) {
        starts_.set(pair_of(token.text[0], static_cast<char>(second)));
      }
    }
    if (token.single_word || token.strip_right) ends_.set(byte_of(token.text.back()));
    if (token.single_word || token.strip_left) begins_.set(byte_of(token.text.front()));
  }
  for (std::vector<int>& indices : by_first_byte_) {
    std::stable_sort(indices.begin(), indices.end(), [&](int a, int b) {
      return tokens_[static_cast<size_t>(a)].text.size() >
             tokens_[static_cast<size_t>(b)].text.size();
    });
  }
}

int AddedTokens::find(std::string_view text) const {
  const char second = text.size() > 1 ? text[1] : '\0';
  if (!starts_.test(pair_of(text[0], second)) && text.size() > 1) return -1;
  for (const int index : by_first_byte_[byte_of(text[0])]) {
    const std::string& wanted = tokens_[static_cast<size_t>(index)].text;
    if (text.substr(0, wanted.size()) == wanted) return index;
  }
  return -1;
}

void AddedTokens::split(std::string_view text, bool special,
                        const std::function<void(std::string_view)>& on_text,
                        const std::function<void(int32_t)>& on_token) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const int index = find(text.substr(at));
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    size_t begin = at, end = at + token.text.size();
    at = end;
    if (token.special && !special) continue;
    if (token.single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token.strip_left) {
      begin = std::max(without_trailing_space(text.substr(0, begin)).size(), done);
    }
    if (token.strip_right) {
      end = text.size() - without_leading_space(text.substr(end)).size();
    }
    if (done < begin) on_text(text.substr(done, begin - done));
    on_token(token.id);
    // Behind a token that absorbs white space, the next may start in that white space.
    done = end;
  }
  if (done < text.size()) on_text(text.substr(done));
}

std::string_view AddedTokens::between(std::optional<int32_t> before, std::string_view text,
                                      std::optional<int32_t> after) const {
  if (!before && !after) return text;
  for (const AddedToken& token : tokens_) {
    if (token.strip_right && token.id == before) text = without_leading_space(text);
    if (token.strip_left && token.id == after) text = without_trailing_space(text);
  }
  return text;
}

bool AddedTokens::may_cut(char last, char first) const {
  if (!finds_plain_) return true;
  return !inside_.test(pair_of(last, first)) && !ends_.test(byte_of(last)) &&
         !begins_.test(byte_of(first));
}

}  // namespace tessera
