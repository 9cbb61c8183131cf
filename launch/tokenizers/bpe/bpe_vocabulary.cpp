#include "launch/tokenizers/bpe/bpe_vocabulary.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/byte_alphabet.h"

namespace tessera {
namespace {

using Ids = std::unordered_map<std::string_view, int32_t>;

Ids ids_of(const BpeDescription& bpe) {
  Ids ids;
  ids.reserve(bpe.tokens.size());
  for (size_t i = 0; i < bpe.tokens.size(); ++i) {
    require(!bpe.tokens[i].empty(), "{}: token {} is empty", bpe.tokens_source, i);
    const auto [place, is_new] = ids.emplace(bpe.tokens[i], narrow<int32_t>(i));
    require(is_new, "{}: tokens {} and {} are both {}", bpe.tokens_source, place->second, i,
            quote(bpe.tokens[i]));
  }
  return ids;
}

BpeMerge merge_of(const BpeDescription& bpe, size_t index, const Ids& ids) {
  const std::string_view line = bpe.merges[index];
  const size_t space = line.find(' ');
  const bool two = space != std::string_view::npos && line.find(' ', space + 1) == line.npos;
  require(two && space > 0 && space + 1 < line.size(),
          "{}: a merge is two tokens with a space between them, but this is {}",
          bpe.where_merge(index), quote(line));
  const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
  const auto find = [&](std::string_view token, std::string_view what) {
    const auto found = ids.find(token);
    require(found != ids.end(),
            "{}: the merge {} {} {}, which is not a token of {}: do these files belong together?",
            bpe.where_merge(index), quote(line), what, quote(token), bpe.tokens_source);
    return found->second;
  };
  const std::string joined = std::string(left).append(right);
  return {find(left, "is of"), find(right, "is of"), find(joined, "makes")};
}

/// `list` is sorted.
bool is_in(const std::vector<int32_t>& list, int32_t token) {
  return std::binary_search(list.begin(), list.end(), token);
}

uint64_t key_of(const BpeMerge& merge) {
  return static_cast<uint64_t>(merge.left) << 32 | static_cast<uint32_t>(merge.right);
}

}  // namespace

bool is_special_name(std::string_view text) {
  const auto is_within = [&](char first, char last) {
    return text.size() > 2 && text.front() == first && text.back() == last;
  };
  return is_within('<', '>') || is_within('[', ']') || text.rfind("madeupword", 0) == 0 ||
         !from_alphabet(text);
}

BpeVocabulary::BpeVocabulary(BpeDescription bpe) : bpe_(std::move(bpe)) {
  check_settings();
  const Ids ids = ids_of(bpe_);
  std::vector<bool> is_plain(size(), false);  // occurs in text
  if (bpe_.falls_back() || !bpe_.characters) find_byte_tokens(ids, is_plain);
  add_merges(ids, is_plain);
  mark_special(is_plain);
  if (bpe_.characters) {
    find_characters(ids);
  } else {
    find_bytes();
  }
}

void BpeVocabulary::check_settings() const {
  const std::string& source = bpe_.tokens_source;
  if (bpe_.is_unigram()) check_unigram();
  require(bpe_.normalizer.size() <= kMostNormalizationSteps,
          "{}: its normalizer has {} steps, but at most {} are supported", source,
          bpe_.normalizer.size(), kMostNormalizationSteps);
  for (const NormalizationStep& step : bpe_.normalizer) {
    require(!step.from.empty() && step.from.size() <= kMostReplacedBytes &&
                step.to.size() <= kMostReplacedBytes,
            "{}: its normalizer replaces {} by {}, but texts of up to {} bytes are supported",
            source, quote(step.from), quote(step.to), kMostReplacedBytes);
    const bool is_of_bpe = step == Normalization::nfc || step == Normalization::prepend ||
                           step == Normalization::replace;
    require(bpe_.is_unigram() || is_of_bpe,
            "{}: a normalizer of BPE may not have {}, only one of a unigram model", source,
            to_string(step.kind));
  }
  const bool only_composes =
      std::ranges::count(bpe_.normalizer, Normalization::nfc, &NormalizationStep::kind) ==
      std::ssize(bpe_.normalizer);
  require(bpe_.characters || only_composes,
          "{}: a normalizer of byte-level BPE may only be NFC, but this one changes spaces",
          source);
  require(bpe_.characters || (!bpe_.metaspace && !bpe_.strip_start),
          "{}: byte-level BPE has no \"\u2581\" for spaces", source);
  require(
      bpe_.is_unigram() || (!bpe_.byte_fallback && !bpe_.split_spaces && !bpe_.metaspace_decoder),
      "{}: only a unigram model has \"byte_fallback\", \"split_spaces\" and "
      "\"metaspace_decoder\"",
      source);
  require(bpe_.metaspace || !bpe_.split_words,
          "{}: words start with \"\u2581\", but nothing makes a space one", source);
  require(!bpe_.characters || (!bpe_.ignore_merges && !bpe_.add_prefix_space &&
                               bpe_.words == BpeDescription().words),
          "{}: BPE of characters has no \"ignore_merges\", no \"add_prefix_space\" and no rule of "
          "words",
          source);
}

void BpeVocabulary::check_unigram() const {
  const std::string& source = bpe_.tokens_source;
  require(bpe_.characters && bpe_.merges.empty(), "{}: a unigram model is one of characters",
          source);
  require(bpe_.scores.size() <= bpe_.tokens.size() &&
              static_cast<size_t>(bpe_.unknown) < bpe_.scores.size(),
          "{}: has {} scores, {} tokens and the unknown piece {}, but pieces are tokens with a "
          "score, and the unknown one is a piece",
          source, bpe_.scores.size(), bpe_.tokens.size(), bpe_.unknown);
  require(!bpe_.split_spaces || bpe_.metaspace.value_or(PrefixMark::first) != PrefixMark::first,
          "{}: \"metaspace\" must be \"never\" or \"always\" where words end at white space",
          source);
  require(
      bpe_.metaspace != PrefixMark::first || knows_start(bpe_.normalizer),
      "{}: with \"metaspace\" \"first\", a normalizer that drops what a text begins with is only "
      "supported before \"NFKC\", \"NFKD\" and \"Precompiled\"",
      source);
  require(!bpe_.metaspace_decoder || !bpe_.byte_fallback,
          "{}: a decoder \"Metaspace\" does not join bytes, so \"byte_fallback\" must be false",
          source);
}

std::string BpeVocabulary::byte_text(uint8_t byte) const {
  if (bpe_.characters) return fmt::format("<0x{:02X}>", byte);
  return to_alphabet({reinterpret_cast<const char*>(&byte), 1});
}

void BpeVocabulary::find_byte_tokens(const Ids& ids, std::vector<bool>& is_plain) {
  for (const uint8_t byte : bytes_in_alphabet_order()) {
    const std::string text = byte_text(byte);
    const auto found = ids.find(text);
    require(found != ids.end(),
            "{}: has no token {} for the byte 0x{:02x}, but {} has one for each of the 256 bytes, "
            "so that it can encode any text: is this {} vocabulary?",
            bpe_.tokens_source, quote(text), byte,
            bpe_.characters ? "a model with \"byte_fallback\"" : "byte-level BPE",
            bpe_.characters ? "its" : "a byte-level");
    byte_tokens_[byte] = found->second;
    is_plain[static_cast<size_t>(found->second)] = true;
  }
}

void BpeVocabulary::add_merges(const Ids& ids, std::vector<bool>& is_plain) {
  std::unordered_map<uint64_t, size_t> known;
  known.reserve(bpe_.merges.size());
  merges_.reserve(bpe_.merges.size());
  for (size_t i = 0; i < bpe_.merges.size(); ++i) {
    const BpeMerge merge = merge_of(bpe_, i, ids);
    const auto [place, is_new] = known.emplace(key_of(merge), i);
    require(is_new, "{}: the merge {} is a duplicate of {}", bpe_.where_merge(i),
            quote(bpe_.merges[i]), bpe_.where_merge(place->second));
    is_plain[static_cast<size_t>(merge.joined)] = true;
    merges_.push_back(merge);
  }
}

void BpeVocabulary::mark_special(std::vector<bool>& is_plain) {
  is_word_ = is_plain;
  std::vector<bool> said(size(), false);
  const std::array<std::vector<int32_t>*, 4> properties = {&bpe_.strip_left, &bpe_.strip_right,
                                                           &bpe_.normalized, &bpe_.single_word};
  std::vector<std::vector<int32_t>*> lists(properties.begin(), properties.end());
  lists.push_back(&bpe_.special);
  lists.push_back(&bpe_.added);
  for (std::vector<int32_t>* list : lists) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
    for (const int32_t token : *list) {
      require(static_cast<size_t>(token) < size(),
              "{}: token {} is declared as {}, but there are only {} tokens", bpe_.tokens_source,
              token, list == &bpe_.added ? "added" : "special", size());
      said[static_cast<size_t>(token)] = true;
    }
  }
  for (size_t i = 0; i < size(); ++i) {
    if (bpe_.characters) {
      is_plain[i] = !said[i];
    } else if (!said[i] && bpe_.ignore_merges && !is_special_name(bpe_.tokens[i])) {
      is_plain[i] = true;
    }
  }
  for (const int32_t token : bpe_.added) is_plain[static_cast<size_t>(token)] = true;
  const std::vector<int32_t> said_special = std::exchange(bpe_.special, {});
  for (size_t i = 0; i < size(); ++i) {
    if (!is_plain[i]) bpe_.special.push_back(static_cast<int32_t>(i));
  }
  for (const int32_t token : said_special) {
    require(!is_in(bpe_.added, token), "{}: the token {} is both special and added",
            bpe_.tokens_source, quote(text(token)));
  }
  for (const std::vector<int32_t>* list : lists) {
    for (const int32_t token : list == &bpe_.special ? said_special : *list) {
      require(is_in(bpe_.special, token) || is_in(bpe_.added, token),
              "{}: the token {} is declared as special, but it is a byte or the result of a merge, "
              "so it occurs in text",
              bpe_.tokens_source, quote(text(token)));
    }
  }
  check_special_names(said_special);
  is_special_ = is_plain;
  is_special_.flip();
}

void BpeVocabulary::check_special_names(const std::vector<int32_t>& said_special) const {
  const std::unordered_set<int32_t> said(said_special.begin(), said_special.end());
  std::vector<int32_t> unmade;
  for (const int32_t token : bpe_.special) {
    if (said.count(token) == 0 && !is_special_name(text(token))) unmade.push_back(token);
  }
  require(unmade.empty(),
          "{}: the token {}{} is not made by a merge and has no name of a special token, <...> or "
          "[...]: do vocabulary and merges belong together, and are the merges complete?",
          bpe_.tokens_source, unmade.empty() ? "" : quote(text(unmade.front())),
          unmade.size() > 1 ? fmt::format(" (and {} more)", unmade.size() - 1) : "");
}

void BpeVocabulary::find_bytes() {
  bytes_.resize(size());
  for (size_t i = 0; i < size(); ++i) {
    const bool only_added = is_in(bpe_.added, static_cast<int32_t>(i)) && !is_word_[i];
    if (is_special_[i] || only_added) continue;
    auto bytes = from_alphabet(bpe_.tokens[i]);
    require(bytes.has_value(),
            "{}: the token {} has a character that is not in GPT-2's alphabet of bytes: is this a "
            "vocabulary of byte-level BPE?",
            bpe_.tokens_source, quote(bpe_.tokens[i]));
    bytes_[i] = std::move(*bytes);
  }
}

void BpeVocabulary::find_characters(const Ids& ids) {
  bytes_.resize(size());
  for (size_t byte = 0; bpe_.falls_back() && byte < byte_tokens_.size(); ++byte) {
    byte_of_.emplace(byte_tokens_[byte], static_cast<char>(byte));
  }
  if (bpe_.is_unigram()) return;
  // An added token is also one of the model if merges have it.
  std::vector<bool> in_merges = is_word_;
  for (const BpeMerge& merge : merges_) {
    in_merges[static_cast<size_t>(merge.left)] = in_merges[static_cast<size_t>(merge.right)] = true;
  }
  for (const auto& [text, token] : ids) {
    if (byte_of_.count(token) > 0) continue;
    if (is_special(token)) continue;
    if (is_in(bpe_.added, token) && !in_merges[static_cast<size_t>(token)]) continue;
    if (last_character_start(text) == 0) characters_.emplace(text, token);
    bytes_[static_cast<size_t>(token)] = text;
  }
  // Vocabularies made from SentencePiece's have merges that make "</s>" from ordinary text.
  merges_.erase(std::remove_if(merges_.begin(), merges_.end(),
                               [&](const BpeMerge& merge) { return is_special(merge.joined); }),
                merges_.end());
  splits_before_mark_ = std::none_of(merges_.begin(), merges_.end(), [&](const BpeMerge& merge) {
    const std::string_view left = text(merge.left), right = text(merge.right);
    return right.substr(0, kSpaceMark.size()) == kSpaceMark &&
           (left.size() < kSpaceMark.size() ||
            left.substr(left.size() - kSpaceMark.size()) != kSpaceMark);
  });
}

UnigramPieces BpeVocabulary::unigram_pieces() const {
  constexpr double kUnknownPenalty = 10;
  std::vector<UnigramPieces::Piece> pieces;
  for (size_t i = 0; i < bpe_.scores.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!is_special(id)) pieces.push_back({bpe_.tokens[i], id, bpe_.scores[i]});
  }
  return {std::move(pieces), bpe_.unknown, std::ranges::min(bpe_.scores) - kUnknownPenalty};
}

std::optional<int32_t> BpeVocabulary::find_character(std::string_view character) const {
  const auto found = characters_.find(std::string(character));
  return found == characters_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<char> BpeVocabulary::fallback_byte(int32_t token) const {
  const auto found = byte_of_.find(token);
  return found == byte_of_.end() ? std::nullopt : std::optional(found->second);
}

AddedTokens BpeVocabulary::added_tokens(bool normalized) const {
  std::vector<AddedToken> found;
  for (size_t i = 0; i < size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!is_special(id) && !is_in(bpe_.added, id)) continue;
    if (is_in(bpe_.normalized, id) != normalized) continue;
    found.push_back({id, normalized ? normalize(text(id), bpe_.normalizer) : text(id),
                     is_special(id), is_in(bpe_.strip_left, id), is_in(bpe_.strip_right, id),
                     is_in(bpe_.single_word, id)});
  }
  return AddedTokens(std::move(found));
}

std::optional<int32_t> BpeVocabulary::find_special(std::string_view name) const {
  const auto found = std::find_if(bpe_.special.begin(), bpe_.special.end(),
                                  [&](int32_t token) { return text(token) == name; });
  return found == bpe_.special.end() ? std::nullopt : std::optional(*found);
}

SpecialTokens BpeVocabulary::special() const {
  const auto either = [&](std::string_view bert, std::string_view roberta) {
    const auto found = find_special(bert);
    return found ? found : find_special(roberta);
  };
  return {.unknown = either("[UNK]", "<unk>"),
          .start = either("[CLS]", "<s>"),
          .end = either("[SEP]", "</s>"),
          .padding = either("[PAD]", "<pad>"),
          .mask = either("[MASK]", "<mask>")};
}

}  // namespace tessera
