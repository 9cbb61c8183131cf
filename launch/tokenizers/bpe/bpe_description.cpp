#include "launch/tokenizers/bpe/bpe_description.h"

#include <filesystem>
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

}  // namespace

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
  if (object.has("strip_left")) {
    bpe.strip_left = token_ids(object.list("strip_left"), object.where() + ": \"strip_left\"");
  }
  bpe.add_prefix_space = object.flag("add_prefix_space");
  return bpe;
}

Json to_json(const BpeDescription& bpe) {
  Json json = {{"tokens", bpe.tokens},
               {"merges", bpe.merges},
               {"special", bpe.special},
               {"add_prefix_space", bpe.add_prefix_space}};
  if (!bpe.strip_left.empty()) json["strip_left"] = bpe.strip_left;
  return json;
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
  require(vocabulary.is_object(),
          "{}: a vocabulary must be an object of token: number, but is a {}", source_,
          vocabulary.type_name());
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
  require(list.is_array(), "{} must be a list, but is a {}", where, list.type_name());
  std::vector<std::string> strings;
  strings.reserve(list.size());
  for (const Json& item : list) {
    require(item.is_string(), "{}: item {} must be a string, but is a {}", where, strings.size(),
            item.type_name());
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

}  // namespace tessera
