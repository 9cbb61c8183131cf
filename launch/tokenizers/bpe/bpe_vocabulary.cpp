#include "launch/tokenizers/bpe/bpe_vocabulary.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
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
  const Ids ids = ids_of(bpe_);
  std::vector<bool> is_plain(size(), false);  // a byte or the result of a merge
  for (const uint8_t byte : bytes_in_alphabet_order()) {
    const std::string text = to_alphabet({reinterpret_cast<const char*>(&byte), 1});
    const auto found = ids.find(text);
    require(found != ids.end(),
            "{}: has no token {} for the byte 0x{:02x}, but byte-level BPE has one for each of the "
            "256 bytes, so that it can encode any text: is this a byte-level vocabulary?",
            bpe_.tokens_source, quote(text), byte);
    byte_tokens_[byte] = found->second;
    is_plain[static_cast<size_t>(found->second)] = true;
  }
  add_merges(ids, is_plain);
  mark_special(is_plain);
  find_bytes();
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

void BpeVocabulary::mark_special(const std::vector<bool>& is_plain) {
  for (const std::vector<int32_t>& list : {bpe_.special, bpe_.strip_left}) {
    for (const int32_t token : list) {
      require(static_cast<size_t>(token) < size(),
              "{}: token {} is declared as special, but there are only {} tokens",
              bpe_.tokens_source, token, size());
      require(!is_plain[static_cast<size_t>(token)],
              "{}: the token {} is declared as special, but it is a byte or the result of a merge, "
              "so it occurs in text",
              bpe_.tokens_source, quote(text(token)));
    }
  }
  const std::vector<int32_t> said_special = std::exchange(bpe_.special, {});
  for (size_t i = 0; i < size(); ++i) {
    if (!is_plain[i]) bpe_.special.push_back(static_cast<int32_t>(i));
  }
  check_special_names(said_special);
  is_special_ = is_plain;
  is_special_.flip();
  std::sort(bpe_.strip_left.begin(), bpe_.strip_left.end());
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
    if (is_special_[i]) continue;
    auto bytes = from_alphabet(bpe_.tokens[i]);
    require(bytes.has_value(),
            "{}: the token {} has a character that is not in GPT-2's alphabet of bytes: is this a "
            "vocabulary of byte-level BPE?",
            bpe_.tokens_source, quote(bpe_.tokens[i]));
    bytes_[i] = std::move(*bytes);
  }
}

bool BpeVocabulary::strips_left(int32_t token) const {
  return std::binary_search(bpe_.strip_left.begin(), bpe_.strip_left.end(), token);
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
