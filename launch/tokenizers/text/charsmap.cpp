#include "launch/tokenizers/text/charsmap.h"

#include <unicode/brkiter.h>
#include <unicode/utext.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "core/error.h"
#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/text_normalizer.h"
#include "launch/tokenizers/text/unicode.h"

namespace tessera {
namespace {

constexpr size_t kUnitBytes = 4;
constexpr size_t kMostUnits = size_t{1} << 20;  // SentencePiece's own rules have fewer than 2^17
constexpr size_t kLongestResult = 100;          // the longest result of NFKC has 33 bytes
constexpr int kMostNestedRules = 32;            // the library's limit

/// A unit of a Darts-clone array: https://github.com/s-yata/darts-clone
struct Unit {
  uint32_t bits = 0;

  uint32_t label() const { return bits & (0x80000000U | 0xFFU); }
  bool has_leaf() const { return (bits >> 8 & 1) == 1; }
  uint32_t offset() const { return bits >> 10 << (bits >> 6 & 8); }
  uint32_t value() const { return bits & 0x7FFFFFFFU; }
};

class CharsmapCheck {
 public:
  CharsmapCheck(std::string_view charsmap, const std::string& where) : where_(where) {
    uint32_t trie_bytes = 0;
    require(charsmap.size() > sizeof(trie_bytes), "{}: its rules are damaged: too short", where);
    std::memcpy(&trie_bytes, charsmap.data(), sizeof(trie_bytes));
    charsmap.remove_prefix(sizeof(trie_bytes));
    // The array consists of blocks of 256 units, so that a label never leads outside.
    require(trie_bytes > 0 && trie_bytes % (256 * kUnitBytes) == 0 && trie_bytes < charsmap.size(),
            "{}: its rules are damaged: their trie claims {} of {} bytes", where, trie_bytes,
            charsmap.size());
    require(trie_bytes / kUnitBytes <= kMostUnits,
            "{}: its rules have {} units, but at most {} are allowed", where,
            trie_bytes / kUnitBytes, kMostUnits);
    units_.resize(trie_bytes / kUnitBytes);
    std::memcpy(units_.data(), charsmap.data(), trie_bytes);
    results_ = charsmap.substr(trie_bytes);
    require(results_.back() == '\0', "{}: its rules are damaged: the last result is not terminated",
            where);
    nested_.assign(units_.size(), kNew);
  }

  CharsmapFacts run() {
    walk();
    CharsmapFacts facts{"", makes_space_marks_};
    for (size_t i = 0; i < kSpaces.size(); ++i) {
      const bool is_space = becomes_space_[i] || (kSpaces[i] == ' ' && !has_rule_[i]);
      if (is_space && !inside_[i]) facts.spaces += kSpaces[i];
    }
    return facts;
  }

 private:
  static constexpr std::string_view kSpaces = " \n\t\r";
  static constexpr int8_t kNew = -1;   ///< not visited
  static constexpr int8_t kOpen = -2;  ///< on the current path

  struct Step {
    uint32_t unit = 0;
    uint32_t base = 0;   ///< of its successors
    uint32_t label = 0;  ///< next label to try
    int nested = 0;      ///< longest chain of nested rules below
  };

  /// Visits each unit once, depth first, with an explicit stack, because the file determines the
  /// depth.
  void walk() {
    std::vector<Step> path{enter(0)};
    while (!path.empty()) {
      Step& step = path.back();
      if (step.label > 0xFF) {
        const int nested = step.nested + (is_rule(step.unit) ? 1 : 0);
        require(nested <= kMostNestedRules,
                "{}: its rules are damaged: more than {} of them are prefixes of one another",
                where_, kMostNestedRules);
        nested_[step.unit] = static_cast<int8_t>(nested);
        path.pop_back();
        if (!path.empty()) path.back().nested = std::max(path.back().nested, nested);
        continue;
      }
      const uint32_t label = step.label++;
      const uint32_t next = step.base ^ label;
      if (units_[next].label() != label) continue;
      note_space(label, path.size());
      require(nested_[next] != kOpen, "{}: its rules are damaged: they contain a cycle", where_);
      if (path.size() == 1) note_first(label, next);
      if (nested_[next] == kNew) {
        path.push_back(enter(next));
      } else {
        step.nested = std::max<int>(step.nested, nested_[next]);
      }
    }
  }

  Step enter(uint32_t unit) {
    const uint32_t base = unit ^ units_[unit].offset();
    require((base | 0xFF) < units_.size(), "{}: its rules are damaged: they lead outside", where_);
    nested_[unit] = kOpen;
    if (is_rule(unit)) result_of(base);
    return {unit, base, 0, 0};
  }

  bool is_rule(uint32_t unit) const { return unit != 0 && units_[unit].has_leaf(); }

  std::string_view result_of(uint32_t leaf) {
    const uint32_t value = units_[leaf].value();
    require(value < results_.size(), "{}: its rules are damaged: a result lies outside", where_);
    const std::string_view result(results_.data() + value);
    require(result.size() <= kLongestResult,
            "{}: a rule produces {} bytes of text, but at most {} are allowed", where_,
            result.size(), kLongestResult);
    require(count_invalid_utf8(result) == 0, "{}: a rule produces text that is not UTF-8", where_);
    makes_space_marks_ |= result.find(kSpaceMark) != std::string_view::npos;
    return result;
  }

  void note_space(uint32_t label, size_t depth) {
    const size_t i = kSpaces.find(static_cast<char>(label));
    if (i != std::string_view::npos && depth > 1) inside_[i] = true;
  }

  /// Records which rules start with this byte.
  void note_first(uint32_t label, uint32_t unit) {
    const size_t i = kSpaces.find(static_cast<char>(label));
    if (i == std::string_view::npos) return;
    const uint32_t base = unit ^ units_[unit].offset();
    require((base | 0xFF) < units_.size(), "{}: its rules are damaged: they lead outside", where_);
    for (uint32_t next = 0; next <= 0xFF; ++next) {
      if (units_[base ^ next].label() == next) inside_[i] = true;
    }
    has_rule_[i] = units_[unit].has_leaf();
    becomes_space_[i] = has_rule_[i] && result_of(base) == " ";
  }

  const std::string& where_;
  std::vector<Unit> units_;
  std::string_view results_;
  std::vector<int8_t>
      nested_;  ///< by unit: kNew, kOpen, or the longest chain of nested rules from there
  bool makes_space_marks_ = false;
  std::array<bool, kSpaces.size()> inside_{};  ///< part of a rule for several bytes
  std::array<bool, kSpaces.size()> has_rule_{};
  std::array<bool, kSpaces.size()> becomes_space_{};
};

/// Calls `body` with each grapheme of `text`, which is valid UTF-8.
template <typename Body>
void for_each_grapheme(std::string_view text, Body&& body) {
  thread_local const std::unique_ptr<icu::BreakIterator> graphemes = [] {
    UErrorCode status = U_ZERO_ERROR;
    std::unique_ptr<icu::BreakIterator> made(
        icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
    require_icu(status, "cannot find graphemes");
    return made;
  }();
  UErrorCode status = U_ZERO_ERROR;
  UText bytes = UTEXT_INITIALIZER;
  utext_openUTF8(&bytes, text.data(), static_cast<int64_t>(text.size()), &status);
  graphemes->setText(&bytes, status);
  require_icu(status, "cannot read a text");
  int32_t begin = graphemes->first();
  for (int32_t end = graphemes->next(); end != icu::BreakIterator::DONE; end = graphemes->next()) {
    body(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    begin = end;
  }
  utext_close(&bytes);
}

}  // namespace

CharsmapFacts check_charsmap(std::string_view charsmap, const std::string& where) {
  return charsmap.empty() ? CharsmapFacts() : CharsmapCheck(charsmap, where).run();
}

Charsmap::Charsmap(std::string bytes, const std::string& where) : bytes_(std::move(bytes)) {
  require(!bytes_.empty(), "{}: has no rules", where);
  facts_ = check_charsmap(bytes_, where);
  uint32_t trie_bytes = 0;
  std::memcpy(&trie_bytes, bytes_.data(), sizeof(trie_bytes));
  units_.resize(trie_bytes / kUnitBytes);
  std::memcpy(units_.data(), bytes_.data() + sizeof(trie_bytes), trie_bytes);
  results_begin_ = sizeof(trie_bytes) + trie_bytes;
}

std::optional<std::string_view> Charsmap::result_of(std::string_view text) const {
  uint32_t at = Unit{units_[0]}.offset();
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    const Unit unit{units_[at]};
    if (byte == 0 || unit.label() != byte) return std::nullopt;
    at ^= unit.offset();
    if (unit.has_leaf()) return bytes_.data() + results_begin_ + Unit{units_[at]}.value();
  }
  return std::nullopt;
}

void Charsmap::append(std::string_view grapheme, std::string& out) const {
  constexpr size_t kMostAsWhole = 5;
  if (grapheme.size() <= kMostAsWhole) {
    if (const auto result = result_of(grapheme)) {
      out += *result;
      return;
    }
  }
  while (!grapheme.empty()) {
    const std::string_view character = grapheme.substr(0, first_character_end(grapheme));
    out += result_of(character).value_or(character);
    grapheme.remove_prefix(character.size());
  }
}

std::string Charsmap::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  // Two ASCII characters are two graphemes, unless they are a line end.
  const auto is_break = [&](size_t at) {
    return is_ascii(text.substr(at - 1, 2)) && text.substr(at - 1, 2) != "\r\n";
  };
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    while (end < text.size() && !is_break(end)) ++end;
    const std::string_view part = text.substr(begin, end - begin);
    if (part.size() == 1) {
      append(part, out);
    } else {
      for_each_grapheme(part, [&](std::string_view grapheme) { append(grapheme, out); });
    }
    begin = end;
  }
  return out;
}

}  // namespace tessera
