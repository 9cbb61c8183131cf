#include "launch/tokenizers/bpe/bpe_description.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <limits>

#include "core/checked.h"
#include "core/error.h"
#include "launch/tokenizers/text/vocabulary_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

int32_t token_id(const Json& value, const std::string& what) {
  const int64_t id = json_count(value, what);
  require(id <= std::numeric_limits<int32_t>::max(),
          "{} is {}, but a token's number must be below 2^31", what, id);
  return static_cast<int32_t>(id);
}

std::vector<int32_t> token_ids(const Json& list, const std::string& where) {
  std::vector<int32_t> ids;
  for (const Json& item : list) {
    ids.push_back(token_id(item, fmt::format("{}: item {}", where, ids.size())));
  }
  return ids;
}

/// The members that are lists of tokens, and false by default.
struct TokenList {
  const char* key;
  std::vector<int32_t> BpeDescription::*member;
};
constexpr TokenList kTokenLists[] = {{"added", &BpeDescription::added},
                                     {"strip_left", &BpeDescription::strip_left},
                                     {"strip_right", &BpeDescription::strip_right},
                                     {"normalized", &BpeDescription::normalized},
                                     {"single_word", &BpeDescription::single_word}};

struct Flag {
  const char* key;
  bool BpeDescription::*member;
};
constexpr Flag kFlags[] = {{"ignore_merges", &BpeDescription::ignore_merges},
                           {"characters", &BpeDescription::characters},
                           {"split_words", &BpeDescription::split_words},
                           {"strip_start", &BpeDescription::strip_start}};

template <typename Value>
Value value_of(const JsonObject& object, const char* key, std::initializer_list<Value> values) {
  const std::string name = object.text(key);
  const auto* found = std::find_if(values.begin(), values.end(),
                                   [&](Value value) { return to_string(value) == name; });
  require(found != values.end(), "{}: there is no \"{}\" {}", object.where(), key, quote(name));
  return *found;
}

std::vector<Normalization> normalizer_from_json(const JsonObject& object) {
  constexpr size_t kMost = 8;
  const std::string where = object.where() + ": \"normalizer\"";
  std::vector<Normalization> steps;
  for (const std::string& name : strings_of(object.list("normalizer"), where)) {
    steps.push_back(normalization_of(name, where));
  }
  require(steps.size() <= kMost, "{} has {} steps, but at most {} are supported", where,
          steps.size(), kMost);
  return steps;
}

constexpr std::string_view kWordRules[] = {"gpt2",  "qwen2",  "llama3",  "o200k", "deepseek3",
                                           "digit", "digits", "digits3", "cjk"};

std::vector<WordRule> word_rules_from_json(const JsonObject& object) {
  constexpr size_t kMost = 8;
  const std::string where = object.where() + ": \"words\"";
  std::vector<WordRule> rules;
  for (const std::string& name : strings_of(object.list("words"), where)) {
    const auto* found = std::find(std::begin(kWordRules), std::end(kWordRules), name);
    require(found != std::end(kWordRules), "{}: there is no rule {}", where, quote(name));
    rules.push_back(static_cast<WordRule>(found - std::begin(kWordRules)));
  }
  require(!rules.empty() && rules.size() <= kMost, "{} has {} rules, but must have 1 to {}", where,
          rules.size(), kMost);
  return rules;
}

}  // namespace

bool BpeDescription::is_plain() const {
  return added.empty() && strip_right.empty() && normalized.empty() && single_word.empty() &&
         normalizer.empty() && words == BpeDescription().words && !ignore_merges && !characters;
}

std::string BpeDescription::where_merge(size_t index) const {
  return fmt::format("{}{}", merges_source, first_merge + static_cast<int64_t>(index));
}

BpeDescription read_bpe_folder(const std::string& folder) {
  require(!fs::is_regular_file(folder),
          "{}: is a file, but a byte-level BPE tokenizer is a folder with a vocab.json and a "
          "merges.txt: name the folder",
          folder);
  BpeDescription bpe;
  bpe.tokens_source = (fs::path(folder) / "vocab.json").string();
  const std::string merges_path = (fs::path(folder) / "merges.txt").string();
  const MappedFile vocabulary = open_vocabulary_file(bpe.tokens_source, ',');
  NumberedTokens tokens(bpe.tokens_source);
  tokens.add_all(parse_json(vocabulary.text(), bpe.tokens_source));
  bpe.tokens = tokens.in_order();

  const MappedFile merges = open_vocabulary_file(merges_path, '\n');
  std::string_view rest = merges.text();
  bpe.merges_source = merges_path + ": line ";
  if (rest.substr(0, 8) == "#version") {
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    bpe.first_merge = 2;
  }
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    bpe.merges.emplace_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // The final line end is optional.
  if (!bpe.merges.empty() && bpe.merges.back().empty()) bpe.merges.pop_back();
  return bpe;
}

BpeDescription bpe_from_json(const JsonObject& object) {
  BpeDescription bpe;
  bpe.tokens_source = object.where();
  bpe.merges_source = object.where() + ": merge ";
  bpe.tokens = strings_of(object.list("tokens"), object.where() + ": \"tokens\"");
  bpe.merges = strings_of(object.list("merges"), object.where() + ": \"merges\"");
  bpe.special = token_ids(object.list("special"), object.where() + ": \"special\"");
  bpe.add_prefix_space = object.flag("add_prefix_space");
  for (const auto& [key, member] : kTokenLists) {
    if (!object.has(key)) continue;
    bpe.*member = token_ids(object.list(key), fmt::format("{}: \"{}\"", object.where(), key));
  }
  for (const auto& [key, member] : kFlags) {
    if (object.has(key)) bpe.*member = object.flag(key);
  }
  if (object.has("words")) {
    bpe.words = word_rules_from_json(object);
  }
  if (object.has("metaspace")) {
    bpe.metaspace =
        value_of(object, "metaspace", {PrefixMark::never, PrefixMark::first, PrefixMark::always});
  }
  if (object.has("normalizer")) bpe.normalizer = normalizer_from_json(object);
  return bpe;
}

Json to_json(const BpeDescription& bpe) {
  Json json = {{"tokens", bpe.tokens},
               {"merges", bpe.merges},
               {"special", bpe.special},
               {"add_prefix_space", bpe.add_prefix_space}};
  for (const auto& [key, member] : kTokenLists) {
    if (!(bpe.*member).empty()) json[key] = bpe.*member;
  }
  for (const auto& [key, member] : kFlags) {
    if (bpe.*member) json[key] = true;
  }
  if (bpe.words != BpeDescription().words) {
    for (const WordRule rule : bpe.words) json["words"].push_back(to_string(rule));
  }
  if (bpe.metaspace) json["metaspace"] = to_string(*bpe.metaspace);
  for (const Normalization step : bpe.normalizer) json["normalizer"].push_back(to_string(step));
  return json;
}

std::string_view to_string(WordRule rule) { return kWordRules[static_cast<size_t>(rule)]; }

std::string_view to_string(PrefixMark mark) {
  switch (mark) {
    case PrefixMark::never:
      return "never";
    case PrefixMark::first:
      return "first";
    case PrefixMark::always:
      return "always";
  }
  return "?";
}

std::string bpe_vocabulary_text(const std::vector<std::string>& tokens) {
  std::string text = "{";
  for (size_t i = 0; i < tokens.size(); ++i) {
    text += fmt::format("{}{}:{}", i == 0 ? "" : ",", to_text(tokens[i]), i);
  }
  return text + "}\n";
}

std::string bpe_merges_text(const std::vector<std::string>& merges) {
  std::string text = "#version: 0.2\n";
  for (const std::string& merge : merges) {
    text += merge;
    text += '\n';
  }
  return text;
}

void NumberedTokens::add(const std::string& token, const Json& id) {
  const std::string what = fmt::format("{}: the number of the token {}", source_, quote(token));
  const auto [place, is_new] = tokens_.emplace(token, token_id(id, what));
  require(is_new || place->second == token_id(id, what), "{} is {} here and {} there", what,
          place->second, token_id(id, what));
}

void NumberedTokens::add_all(const Json& vocabulary) {
  require(vocabulary.is_object(), "{}: a vocabulary must be an object of token: number, but is {}",
          source_, json_type(vocabulary));
  for (const auto& [token, id] : vocabulary.items()) add(token, id);
}

std::vector<std::string> NumberedTokens::in_order() const {
  std::vector<const std::string*> by_id(tokens_.size(), nullptr);
  for (const auto& [token, id] : tokens_) {
    const auto index = static_cast<size_t>(id);
    require(index < by_id.size(),
            "{}: the token {} has the number {}, but there are {} tokens, whose numbers must be 0 "
            "to {} without a gap",
            source_, quote(token), id, by_id.size(), by_id.size() - 1);
    require(by_id[index] == nullptr, "{}: the tokens {} and {} both have the number {}", source_,
            by_id[index] == nullptr ? "" : quote(*by_id[index]), quote(token), id);
    by_id[index] = &token;
  }
  std::vector<std::string> tokens;
  tokens.reserve(by_id.size());
  for (const std::string* token : by_id) tokens.push_back(*token);
  return tokens;
}

std::vector<std::string> strings_of(const Json& list, const std::string& where) {
  require(list.is_array(), "{} must be a list, but is {}", where, json_type(list));
  std::vector<std::string> strings;
  strings.reserve(list.size());
  for (const Json& item : list) {
    require(item.is_string(), "{}: item {} must be a string, but is {}", where, strings.size(),
            json_type(item));
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

}  // namespace tessera
