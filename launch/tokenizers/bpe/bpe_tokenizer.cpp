#include "launch/tokenizers/bpe/bpe_tokenizer.h"

#include <xxhash.h>

#include <algorithm>
#include <deque>

#include "launch/support/text/printable_text.h"
#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/byte_level_words.h"
#include "launch/tokenizers/tokenizer_spec.h"

namespace tessera {

size_t BpeTokenizer::WordHash::operator()(std::string_view word) const {
  return XXH3_64bits(word.data(), word.size());
}

/// Appends the tokens of texts, and caches those of words seen before.
class BpeTokenizer::Encoding {
 public:
  Encoding(const BpeTokenizer& tokenizer, std::vector<int32_t>& tokens)
      : tokenizer_(tokenizer), bpe_(tokenizer.vocabulary_.description()), tokens_(tokens) {}

  /// Appends the tokens of `text`, whose bytes must live as long as this object.
  void add_text(std::string_view text, bool special, const TextNeighbors& neighbors) {
    add_parts(tokenizer_.before_normalizing_, text, special, neighbors,
              [&](std::string_view part, const TextNeighbors& beside_part) {
                add_parts(tokenizer_.after_normalizing_, normalized(part, beside_part), special,
                          beside_part,
                          [&](std::string_view words, const TextNeighbors& beside_words) {
                            add_words(words, beside_words);
                          });
              });
  }

 private:
  struct Place {
    size_t begin = 0;
    size_t count = 0;
  };

  /// Appends the tokens of `added` in a text, and calls `on_part` with what is between them and its
  /// neighbors.
  template <typename OnPart>
  void add_parts(const AddedTokens& added, std::string_view text, bool special,
                 const TextNeighbors& neighbors, OnPart&& on_part) {
    text = added.between(neighbors.before, text, neighbors.after);
    if (text.empty()) return;
    if (!added.may_find(special)) return on_part(text, neighbors);
    added.split(
        text, special,
        [&](std::string_view part) {
          TextNeighbors beside = neighbors;
          if (part.data() != text.data()) beside = {.before = tokens_.back()};
          if (part.end() != text.end()) beside.after.reset();  // split() knows the next one
          on_part(part, beside);
        },
        [&](int32_t token) { tokens_.push_back(token); });
  }

  std::string_view normalized(std::string_view text, const TextNeighbors& neighbors) {
    if (bpe_.normalizer.empty()) return text;
    if (!bpe_.characters && is_composed(text)) return text;
    // A token that is found in normalized text does not divide what is normalized.
    const bool continues =
        neighbors.follows_text ||
        (neighbors.before && std::ranges::binary_search(bpe_.normalized, *neighbors.before));
    std::string& made = made_.emplace_back(text);
    moved_ = normalize_part(made, bpe_.normalizer, continues);
    return made;
  }

  void add_words(std::string_view text, const TextNeighbors& neighbors) {
    const auto on_word = [this](std::string_view word) { add(word); };
    if (bpe_.split_spaces) return add_spaced_words(text, neighbors, on_word);
    if (bpe_.characters) {
      tokenizer_.for_each_character_word(marked(text, neighbors), on_word);
      return;
    }
    if (bpe_.add_prefix_space && !neighbors.follows_text && text.front() != ' ') {
      text = made_.emplace_back(" ").append(text);
    }
    for_each_word(bpe_.words, text, on_word);
  }

  template <typename OnWord>
  void add_spaced_words(std::string_view text, TextNeighbors neighbors, OnWord&& on_word) {
    std::string_view rest = without_leading_space(text);
    if (rest.size() < text.size() || neighbors.after_space) neighbors.follows_text = false;
    while (!rest.empty()) {
      const std::string_view word = until_space(rest);
      tokenizer_.for_each_character_word(marked(word, neighbors), on_word);
      rest = without_leading_space(rest.substr(word.size()));
      neighbors = {};
    }
  }

  /// Replaces and adds marks as "Metaspace" does.
  std::string_view marked(std::string_view text, const TextNeighbors& neighbors) {
    if (!bpe_.metaspace) return text;
    std::string& made = made_.emplace_back(normalize(text, {Normalization::replace}));
    const bool gets_mark = !neighbors.follows_text &&
                           (*bpe_.metaspace == PrefixMark::always ||
                            (*bpe_.metaspace == PrefixMark::first && !neighbors.before && !moved_));
    if (gets_mark && made.rfind(kSpaceMark, 0) != 0) made.insert(0, kSpaceMark);
    return made;
  }

  void add(std::string_view word) {
    const auto single = tokenizer_.single_.find(word);
    if (single != tokenizer_.single_.end()) {
      tokens_.push_back(single->second);
      return;
    }
    const auto [place, is_new] = known_.try_emplace(word);
    auto& [begin, count] = place->second;
    if (is_new) {
      tokenizer_.encode_word(word, word_, workspace_);
      begin = tokens_.size();
      count = word_.size();
      tokens_.insert(tokens_.end(), word_.begin(), word_.end());
    } else {
      for (size_t i = begin; i < begin + count; ++i) tokens_.push_back(tokens_[i]);
    }
  }

  const BpeTokenizer& tokenizer_;
  const BpeDescription& bpe_;
  std::vector<int32_t>& tokens_;
  std::deque<std::string> made_;  ///< texts that words are parts of
  bool moved_ = false;            ///< whether a normalizer removed the start of the text
  std::unordered_map<std::string_view, Place, WordHash> known_;
  std::vector<int32_t> word_;
  BpeMerges::Workspace workspace_;
};

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      merges_(vocabulary_.merges()),
      before_normalizing_(vocabulary_.added_tokens(false)),
      after_normalizing_(vocabulary_.added_tokens(true)) {
  if (vocabulary_.description().is_unigram()) {
    pieces_.emplace(vocabulary_.unigram_pieces());
    return;
  }
  std::vector<int32_t> word;
  BpeMerges::Workspace workspace;
  single_.reserve(vocabulary_.size());
  for (int32_t token = 0; token < vocab_size(); ++token) {
    const std::string_view bytes = vocabulary_.bytes(token);
    if (bytes.empty()) continue;
    split_word(bytes, word);
    merges_.join(word, workspace);
    const bool is_single = word.size() == 1 && word[0] == token;
    if (is_single || vocabulary_.description().ignore_merges) single_.emplace(bytes, token);
  }
}

std::string_view BpeTokenizer::kind() const {
  return to_string(pieces_ ? TokenizerKind::unigram : TokenizerKind::bpe);
}

void BpeTokenizer::encode_word(std::string_view word, std::vector<int32_t>& tokens,
                               BpeMerges::Workspace& workspace) const {
  if (!pieces_) {
    split_word(word, tokens);
    return merges_.join(tokens, workspace);
  }
  const BpeDescription& unigram = vocabulary_.description();
  tokens.clear();
  pieces_->split(
      word, [&](int32_t piece) { tokens.push_back(piece); },
      [&](std::string_view text) {
        if (!unigram.byte_fallback) return tokens.push_back(unigram.unknown);
        for (const char byte : text) tokens.push_back(vocabulary_.byte_token(byte));
      });
}

void BpeTokenizer::split_word(std::string_view word, std::vector<int32_t>& tokens) const {
  tokens.clear();
  const auto add_bytes = [&](std::string_view bytes) {
    for (const char byte : bytes) tokens.push_back(vocabulary_.byte_token(byte));
  };
  if (!vocabulary_.description().characters) return add_bytes(word);
  for (std::string_view rest = word; !rest.empty();) {
    const std::string_view character = rest.substr(0, first_character_end(rest));
    rest.remove_prefix(character.size());
    const auto token = vocabulary_.find_character(character);
    if (token) {
      tokens.push_back(*token);
    } else {
      add_bytes(character);
    }
  }
}

template <typename OnWord>
void BpeTokenizer::for_each_character_word(std::string_view text, OnWord&& on_word) const {
  const bool at_each = vocabulary_.description().split_words;
  size_t begin = 0;
  if (at_each || vocabulary_.splits_before_mark()) {
    size_t previous = std::string_view::npos;  // the end of the last mark
    for (size_t at = text.find(kSpaceMark); at != std::string_view::npos;
         at = text.find(kSpaceMark, previous)) {
      if (at > begin && (at_each || at != previous)) {
        on_word(text.substr(begin, at - begin));
        begin = at;
      }
      previous = at + kSpaceMark.size();
    }
  }
  if (begin < text.size()) on_word(text.substr(begin));
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text, bool special,
                                          const TextNeighbors& neighbors) const {
  std::string valid;
  const BpeDescription& bpe = vocabulary_.description();
  if (bpe.characters && count_invalid_utf8(text) > 0) text = valid = replace_invalid_utf8(text);
  std::vector<int32_t> tokens;
  tokens.reserve(text.size() / 4);
  Encoding(*this, tokens).add_text(text, special, neighbors);
  return tokens;
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text) const {
  return encode(text, /*special=*/false, {});
}

std::vector<int32_t> BpeTokenizer::encode_with_special(std::string_view text) const {
  return encode(text, /*special=*/true, {});
}

std::vector<int32_t> BpeTokenizer::encode_part(std::string_view text,
                                               const TextNeighbors& neighbors) const {
  return encode(text, /*special=*/false, neighbors);
}

int64_t BpeTokenizer::count_invalid(std::string_view text) const {
  return vocabulary_.description().characters ? count_invalid_utf8(text) : 0;
}

size_t BpeTokenizer::last_cut(std::string_view text) const {
  const BpeDescription& bpe = vocabulary_.description();
  if (bpe.is_unigram()) {
    if (!bpe.split_spaces && !bpe.split_words) return 0;
    return last_ascii_word_end(text, [&](char last, char first) {
      return first == ' ' && may_cut_before_space(bpe.normalizer, last) &&
             before_normalizing_.may_cut(last, first) && after_normalizing_.may_cut(last, first) &&
             after_normalizing_.may_cut(last, kSpaceMark.front());
    });
  }
  const auto normalizes = [&](Normalization kind) {
    return std::ranges::find(bpe.normalizer, kind, &NormalizationStep::kind) !=
           bpe.normalizer.end();
  };
  // The text after a cut would get a "▁".
  if (bpe.metaspace.value_or(PrefixMark::never) != PrefixMark::never ||
      normalizes(Normalization::prepend)) {
    return 0;
  }
  const bool marks_spaces = bpe.metaspace || normalizes(Normalization::replace);
  if (bpe.characters && !(marks_spaces && vocabulary_.splits_before_mark())) return 0;
  // If text gets a space prefix, only text that starts with a space can be cut off.
  const bool before_space = bpe.add_prefix_space || bpe.characters;
  if (bpe.is_plain()) return last_byte_level_word_end(text, before_space);
  return last_ascii_word_end(text, [&](char last, char first) {
    if (before_space && first != ' ') return false;
    if (first == ' ' && (!after_normalizing_.may_cut(last, kSpaceMark.front()) && bpe.characters)) {
      return false;
    }
    return before_normalizing_.may_cut(last, first) && after_normalizing_.may_cut(last, first);
  });
}

size_t BpeTokenizer::forced_cut(std::string_view text) const {
  const size_t start = last_character_start(text);
  return start > 0 ? start : text.size();
}

std::string BpeTokenizer::decode(std::span<const int32_t> tokens) const {
  for (const int32_t token : tokens) require_token(token);
  if (vocabulary_.description().characters) return decode_characters(tokens);
  std::string text;
  text.reserve(4 * tokens.size());
  for (const int32_t token : tokens) {
    if (!vocabulary_.is_special(token)) text += text_of(token);
  }
  return text;
}

std::string_view BpeTokenizer::text_of(int32_t token) const {
  const std::string_view bytes = vocabulary_.bytes(token);
  return bytes.empty() ? vocabulary_.text(token) : bytes;
}

std::string BpeTokenizer::decode_characters(std::span<const int32_t> tokens) const {
  std::string text, bytes;
  const auto end_bytes = [&] {
    if (count_invalid_utf8(bytes) == 0) {
      text += bytes;
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) text += "\uFFFD";
    }
    bytes.clear();
  };
  const BpeDescription& description = vocabulary_.description();
  bool is_first = true;
  for (const int32_t token : tokens) {
    if (vocabulary_.is_special(token)) continue;
    const bool drops_marks = description.metaspace_decoder && description.strip_start && is_first;
    is_first = false;
    if (const auto byte = vocabulary_.fallback_byte(token)) {
      bytes += *byte;
      continue;
    }
    end_bytes();
    std::string_view rest = vocabulary_.text(token);
    for (size_t at = rest.find(kSpaceMark); at != rest.npos; at = rest.find(kSpaceMark)) {
      text.append(rest.substr(0, at)).append(drops_marks ? "" : " ");
      rest.remove_prefix(at + kSpaceMark.size());
    }
    text += rest;
  }
  end_bytes();
  const bool strips = description.strip_start && !description.metaspace_decoder;
  if (strips && text.rfind(' ', 0) == 0) text.erase(0, 1);
  return text;
}

size_t BpeTokenizer::settled_bytes(std::span<const int32_t> tokens) const {
  const auto is_open = [&](int32_t token) {
    require_token(token);
    return vocabulary_.is_special(token) || vocabulary_.fallback_byte(token).has_value();
  };
  if (vocabulary_.description().characters) {
    while (!tokens.empty() && is_open(tokens.back())) tokens = tokens.first(tokens.size() - 1);
  }
  return decode(tokens).size();
}

std::string BpeTokenizer::token_text(int32_t token) const {
  require_token(token);
  const bool verbatim = vocabulary_.is_special(token) || vocabulary_.description().characters;
  return verbatim ? vocabulary_.text(token) : printable(text_of(token));
}

std::optional<int32_t> BpeTokenizer::end_of_document() const {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}) {
    const auto end = vocabulary_.find_special(name);
    if (end) return end;
  }
  return std::nullopt;
}

std::vector<bool> BpeTokenizer::continues_word() const {
  std::vector<bool> continues(vocabulary_.size());
  for (int32_t token = 0; token < vocab_size(); ++token) {
    if (vocabulary_.is_special(token)) continue;
    const std::string_view text = text_of(token);
    continues[static_cast<size_t>(token)] =
        std::string_view(" \t\n\v\f\r").find(text.front()) == text.npos &&
        (!vocabulary_.description().characters || text.rfind(kSpaceMark, 0) != 0);
  }
  return continues;
}

std::vector<int32_t> BpeTokenizer::named_tokens() const {
  std::vector<int32_t> tokens = vocabulary_.special_tokens();
  const std::vector<int32_t>& added = vocabulary_.description().added;
  tokens.insert(tokens.end(), added.begin(), added.end());
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

Json BpeTokenizer::to_json() const {
  Json json = tessera::to_json(vocabulary_.description());
  json["kind"] = kind();
  return json;
}

}  // namespace tessera
