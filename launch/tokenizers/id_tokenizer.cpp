#include "launch/tokenizers/id_tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "core/error.h"

namespace tessera {
namespace {

constexpr std::string_view kSeparators = " \t\r\n\v\f";

/// The id in decimal digits, or a negative number if `word` is something else.
int64_t id_in(std::string_view word) {
  int64_t id = -1;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, id);
  return error == std::errc() && stop == end ? id : -1;
}

}  // namespace

std::vector<int32_t> parse_ids(std::string_view text, int64_t vocab_size, std::string_view where) {
  std::vector<int32_t> ids;
  for (size_t begin = text.find_first_not_of(kSeparators); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const int64_t id = id_in(word);
    if (id < 0 || id >= vocab_size) {
      fail("{}: word {} is {}, but must be an id from 0 to {}: the vocabulary has {} ids", where,
           ids.size() + 1, quote(word), vocab_size - 1, vocab_size);
    }
    ids.push_back(static_cast<int32_t>(id));
    begin = text.find_first_not_of(kSeparators, end);
  }
  return ids;
}

IdTokenizer::IdTokenizer(int64_t vocab_size, SpecialTokenIds special)
    : vocab_size_(vocab_size), special_(std::move(special)) {
  require(0 < vocab_size && vocab_size <= std::numeric_limits<int32_t>::max(),
          "a vocabulary cannot have {} ids: 1 to {} are allowed", vocab_size,
          std::numeric_limits<int32_t>::max());
  for (const auto& [name, id] : special_) {
    require(std::ranges::find(kSpecialTokenNames, name) != kSpecialTokenNames.end(),
            "there is no special token {}: choose {}", quote(name),
            fmt::join(kSpecialTokenNames, ", "));
    require(0 <= id && id < vocab_size, "the special token {} is {}, but ids are 0 to {}", name, id,
            vocab_size - 1);
  }
}

std::vector<int32_t> IdTokenizer::encode(std::string_view text) const {
  return parse_ids(text, vocab_size_, "the text");
}

size_t IdTokenizer::last_cut(std::string_view text) const {
  const size_t space = text.find_last_of(kSeparators);
  return space == std::string_view::npos ? 0 : space + 1;
}

std::string IdTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    require_token(token);
    const bool silent = token == id_of("cls") || token == id_of("sep") || token == id_of("pad");
    if (!silent) text += fmt::format("{}{}", text.empty() ? "" : " ", token);
  }
  return text;
}

std::string IdTokenizer::token_text(int32_t token) const {
  require_token(token);
  return std::to_string(token);
}

SpecialTokens IdTokenizer::special() const {
  return {id_of("unk"), id_of("cls"), id_of("sep"), id_of("pad"), id_of("mask")};
}

Json IdTokenizer::to_json() const {
  Json json = {{"kind", kind()}, {"vocab_size", vocab_size_}};
  if (!special_.empty()) json["special_tokens"] = special_;
  return json;
}

std::optional<int32_t> IdTokenizer::id_of(std::string_view name) const {
  const auto found = special_.find(name);
  return found == special_.end() ? std::nullopt : std::optional(found->second);
}

std::unique_ptr<IdTokenizer> id_tokenizer_from_json(const JsonObject& object) {
  const int64_t vocab_size = object.count("vocab_size");
  SpecialTokenIds special;
  if (object.has("special_tokens")) {
    for (const auto& [name, id] : object.object("special_tokens").items()) {
      const int64_t value = json_count(id, fmt::format("{}: {}", object.where(), quote(name)));
      require(value < vocab_size, "{}: the special token {} is {}, but \"vocab_size\" is {}",
              object.where(), quote(name), value, vocab_size);
      special[name] = static_cast<int32_t>(value);
    }
  }
  try {
    return std::make_unique<IdTokenizer>(vocab_size, std::move(special));
  } catch (const Error& error) {
    fail("{}: {}", object.where(), error.what());
  }
}

}  // namespace tessera
