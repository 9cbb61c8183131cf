#include "launch/tokenizers/bpe/bpe_description.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <limits>

#include "core/checked.h"
#include "core/error.h"
#include "launch/support/text/base64.h"
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
                           {"byte_fallback", &BpeDescription::byte_fallback},
                           {"split_spaces", &BpeDescription::split_spaces},
                           {"split_words", &BpeDescription::split_words},
                           {"strip_start", &BpeDescription::strip_start},
                           {"metaspace_decoder", &BpeDescription::metaspace_decoder}};

template <typename Value>
Value value_of(const JsonObject& object, const char* key, std::initializer_list<Value> values) {
  const std::string name = object.text(key);
  const auto* found = std::find_if(values.begin(), values.end(),
                                   [&](Value value) { return to_string(value) == name; });
  require(found != values.end(), "{}: there is no \"{}\" {}", object.where(), key, quote(name));
  return *found;
}

/// A step as its name, or with parameters as a list of the name and these.
NormalizationStep step_from_json(const Json& item, const std::string& where) {
  const std::vector<std::string> words =
      strings_of(item.is_array() ? item : Json::array({item}), where);
  require(!words.empty(), "{} has a step without a name", where);
  NormalizationStep step = normalization_of(words[0], where);
  const bool has_rules = step.kind == Normalization::precompiled;
  const size_t parameters = step.kind == Normalization::replace                ? 2
                            : step.kind == Normalization::squeeze || has_rules ? 1
                                                                               : 0;
  require(words.size() == 1 + parameters || (words.size() == 1 && !has_rules),
          "{}: the step {} has {} parameters instead of {}", where, quote(words[0]),
          words.size() - 1, parameters);
  if (has_rules) {
    step.rules = std::make_shared<Charsmap>(from_base64(words[1], where), where);
  } else if (words.size() > 1) {
    step.to = words.back();
    if (parameters == 2) step.from = words[1];
  }
  return step;
}

Json step_json(const NormalizationStep& step) {
  Json json = Json::array({to_string(step.kind)});
  if (step.kind == Normalization::precompiled) {
    json.push_back(to_base64(step.rules->bytes()));
  } else if (step != NormalizationStep(step.kind)) {
    if (step.kind == Normalization::replace) json.push_back(step.from);
    json.push_back(step.to);
  }
  return json.size() == 1 ? json[0] : json;
}

Normalizer normalizer_from_json(const JsonObject& object) {
  const std::string where = object.where() + ": \"normalizer\"";
  Normalizer steps;
  for (const Json& item : object.list("normalizer")) steps.push_back(step_from_json(item, where));
  return steps;
}

struct WordRuleName {
  WordRule rule;
  std::string_view name;
};
constexpr WordRuleName kWordRules[] = {
    {WordRule::gpt2, "gpt2"},     {WordRule::qwen2, "qwen2"},         {WordRule::llama3, "llama3"},
    {WordRule::o200k, "o200k"},   {WordRule::deepseek3, "deepseek3"}, {WordRule::digit, "digit"},
    {WordRule::digits, "digits"}, {WordRule::digits3, "digits3"},     {WordRule::cjk, "cjk"},
};

std::vector<WordRule> word_rules_from_json(const JsonObject& object) {
  constexpr size_t kMost = 8;
  const std::string where = object.where() + ": \"words\"";
  std::vector<WordRule> rules;
  for (const std::string& name : strings_of(object.list("words"), where)) {
    const auto* found = std::ranges::find(kWordRules, name, &WordRuleName::name);
    require(found != std::end(kWordRules), "{}: there is no rule {}", where, quote(name));
    rules.push_back(found->rule);
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
  if (object.has("scores")) {
    bpe.scores = scores_of(object.list("scores"), object.where() + ": \"scores\"");
    bpe.unknown = token_id(object.at("unknown"), object.where() + ": \"unknown\"");
  } else {
    bpe.merges = strings_of(object.list("merges"), object.where() + ": \"merges\"");
  }
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
  Json json = {
      {"tokens", bpe.tokens}, {"special", bpe.special}, {"add_prefix_space", bpe.add_prefix_space}};
  if (bpe.is_unigram()) {
    json["scores"] = bpe.scores;
    json["unknown"] = bpe.unknown;
  } else {
    json["merges"] = bpe.merges;
  }
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
  for (const NormalizationStep& step : bpe.normalizer)
    json["normalizer"].push_back(step_json(step));
  return json;
}

std::string_view to_string(WordRule rule) {
  return std::ranges::find(kWordRules, rule, &WordRuleName::rule)->name;
}

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

std::vector<double> scores_of(const Json& list, const std::string& where) {
  std::vector<double> scores;
  scores.reserve(list.size());
  for (const Json& item : list) {
    require(item.is_number(), "{}: item {} must be a number, but is {}", where, scores.size(),
            json_type(item));
    scores.push_back(item.get<double>());
  }
  require(!scores.empty(), "{} is empty", where);
  return scores;
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
