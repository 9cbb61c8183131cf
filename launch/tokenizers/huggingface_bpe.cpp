#include "launch/tokenizers/huggingface_bpe.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "launch/tokenizers/huggingface_vocabulary.h"

namespace tessera {
namespace {

struct WordPattern {
  WordRule rule;
  const char* regex;
};
constexpr WordPattern kWordPatterns[] = {
    {WordRule::gpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {WordRule::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordRule::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordRule::o200k,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordRule::deepseek3,
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
     R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordRule::digit, R"(\p{N})"},
    {WordRule::digits, R"(\p{N}+)"},
    {WordRule::digits3, R"(\p{N}{1,3})"},
    {WordRule::cjk, "[一-龥぀-ゟ゠-ヿ]+"},
};

const std::string kMark(kSpaceMark);

Json replace_step(const char* type, const std::string& from, const std::string& to) {
  return {{"type", type}, {"pattern", {{"String", from}}}, {"content", to}};
}

/// Accepts "LEFT RIGHT", the older form, and ["LEFT", "RIGHT"].
std::vector<std::string> merges_of(const Json& list, const std::string& where) {
  std::vector<std::string> merges;
  merges.reserve(list.size());
  for (const Json& item : list) {
    const bool is_pair =
        item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string();
    require(item.is_string() || is_pair, "{}{} must be a string or two strings", where,
            merges.size() + 1);
    merges.push_back(is_pair ? item[0].get<std::string>() + " " + item[1].get<std::string>()
                             : item.get<std::string>());
  }
  return merges;
}

/// Returns the items of a "Sequence" whose list is called `key`, or else the part itself.
std::vector<const Json*> steps_of(const Json& json, const std::string& where, const char* key) {
  std::vector<const Json*> steps;
  if (json.is_null()) return steps;
  HuggingFacePart part(json, where);
  if (part.type() != "Sequence") return {&json};
  part.know({key});
  part.refuse_others();
  for (const Json& item : part.object().list(key)) steps.push_back(&item);
  return steps;
}

std::vector<Normalization> normalizer_of(const Json& json, const std::string& source,
                                         bool characters) {
  const std::string where = where_part(source, "normalizer");
  std::vector<Normalization> steps;
  for (const Json* item : steps_of(part_of(json, "normalizer"), where, "normalizers")) {
    HuggingFacePart part(*item, where);
    const std::string type = part.type();
    if (type == "NFC") {
      steps.push_back(Normalization::nfc);
    } else if (characters && type == "Prepend") {
      part.must_be("prepend", {kMark});
      steps.push_back(Normalization::prepend);
    } else if (characters && type == "Replace") {
      part.must_be("pattern", {{{"String", " "}}});
      part.must_be("content", {kMark});
      steps.push_back(Normalization::replace);
    } else {
      refuse_type(where, type,
                  characters
                      ? "null, \"NFC\", \"Prepend\", \"Replace\" or a \"Sequence\" of these, "
                        "with a \"BPE\" model of characters,"
                      : "null, \"NFC\" or a \"Sequence\" of it, with a \"BPE\" model of bytes,");
    }
    part.refuse_others();
  }
  return steps;
}

/// The rule of a "Split" whose regular expression is one of those known, or of "Digits".
WordRule split_rule(HuggingFacePart& split) {
  const std::string type = split.type();
  if (type == "Digits") {
    split.must_be("individual_digits", {true, false});
    split.refuse_others();
    const bool has_each = split.object().has("individual_digits");
    return has_each && split.object().flag("individual_digits") ? WordRule::digit
                                                                : WordRule::digits;
  }
  if (type != "Split")
    refuse_type(split.where(), type, "\"Split\" or \"Digits\" before \"ByteLevel\"");
  const Json& pattern = split.object().object("pattern");
  split.know({"pattern"});
  const Json& regex = part_of(pattern, "Regex");
  const auto* found =
      std::find_if(std::begin(kWordPatterns), std::end(kWordPatterns),
                   [&](const WordPattern& known) { return regex == Json(known.regex); });
  require(
      found != std::end(kWordPatterns),
      "{}: \"pattern\" is {}, but only the regular expressions of GPT-2, GPT-4o, Llama 3, Qwen2 "
      "and DeepSeek-V3 are supported",
      split.where(), quote(pattern.dump()));
  // "Removed" and "invert" keep the matches alone.
  const bool covers_all = found->rule <= WordRule::o200k;
  split.must_be("behavior", {"Isolated", covers_all ? "Removed" : "Isolated"});
  split.must_be("invert", {split.object().text("behavior") == "Removed"});
  split.refuse_others();
  return found->rule;
}

void read_byte_level(const Json& json, const std::string& source, BpeDescription& bpe) {
  const std::string where = where_part(source, "pre_tokenizer");
  const Json& part = part_of(json, "pre_tokenizer");
  const std::vector<const Json*> steps = steps_of(part, where, "pretokenizers");
  if (steps.empty()) refuse_type(where, "", "\"ByteLevel\"");
  HuggingFacePart words(*steps.back(), where);
  if (words.type() != "ByteLevel") refuse_type(where, words.type(), "\"ByteLevel\" at the end");
  words.know({"trim_offsets"});
  words.must_be("use_regex", {true, false});
  words.must_be("add_prefix_space", {steps.size() == 1, false});
  bpe.add_prefix_space = words.object().flag("add_prefix_space");
  bpe.words.clear();
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    HuggingFacePart split(*steps[i], where);
    bpe.words.push_back(split_rule(split));
  }
  if (!words.object().has("use_regex") || words.object().flag("use_regex")) {
    bpe.words.push_back(WordRule::gpt2);
  }
  const auto covers_all = [](WordRule rule) { return rule <= WordRule::deepseek3; };
  require(std::any_of(bpe.words.begin(), bpe.words.end(), covers_all),
          "{}: \"use_regex\" of \"ByteLevel\" must be true unless a \"Split\" makes words", where);
  words.refuse_others();
  HuggingFacePart decoder = required_part(json, "decoder", source, "ByteLevel");
  decoder.know({"add_prefix_space", "trim_offsets", "use_regex"});  // ignored by the decoder
  decoder.refuse_others();
}

PrefixMark prefix_mark(HuggingFacePart& part) {
  part.must_be("add_prefix_space", {true, false});
  if (!part.object().has("prepend_scheme")) {  // an older form
    const bool prefix =
        !part.object().has("add_prefix_space") || part.object().flag("add_prefix_space");
    return prefix ? PrefixMark::always : PrefixMark::never;
  }
  part.must_be("prepend_scheme", {"never", "first", "always"});
  const std::string scheme = part.object().text("prepend_scheme");
  for (const PrefixMark mark : {PrefixMark::never, PrefixMark::first}) {
    if (scheme == to_string(mark)) return mark;
  }
  return PrefixMark::always;
}

void read_metaspace(const Json& json, const std::string& source, BpeDescription& bpe) {
  const std::string where = where_part(source, "pre_tokenizer");
  if (part_of(json, "pre_tokenizer").is_null()) return;
  HuggingFacePart part(part_of(json, "pre_tokenizer"), where);
  if (part.type() == "Split") {  // Gemma's, which finds nothing
    part.must_be("pattern", {{{"String", " "}}});
    part.must_be("behavior", {"MergedWithPrevious"});
    part.must_be("invert", {false});
    part.refuse_others();
    const auto& steps = bpe.normalizer;
    require(std::find(steps.begin(), steps.end(), Normalization::replace) != steps.end(),
            "{}: \"Split\" at spaces is only supported after a normalizer that replaces them",
            where);
    return;
  }
  if (part.type() != "Metaspace") {
    refuse_type(
        where, part.type(),
        "null, \"Metaspace\" or a \"Split\" at spaces, with a \"BPE\" model of characters,");
  }
  part.must_be("replacement", {kMark});
  part.must_be("str_rep", {kMark});
  part.must_be("split", {true, false});
  bpe.metaspace = prefix_mark(part);
  bpe.split_words = !part.object().has("split") || part.object().flag("split");
  part.refuse_others();
}

/// Whether the decoder of characters drops a space at the start.
bool strips_start(const Json& json, const std::string& source) {
  const std::string where = where_part(source, "decoder");
  Json wanted = {
      replace_step("Replace", kMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  Json steps = Json::array();
  for (const Json* step : steps_of(part_of(json, "decoder"), where, "decoders")) {
    steps.push_back(*step);
  }
  if (steps == wanted) return false;
  wanted.push_back(strip);
  require(
      steps == wanted,
      "{} of a \"BPE\" model of characters must be a \"Sequence\" of \"Replace\" (of \"\u2581\" by "
      "a space), \"ByteFallback\", \"Fuse\" and optionally \"Strip\" (of one space at the start)",
      where);
  return true;
}

Json split_json(WordRule rule) {
  if (rule == WordRule::digit || rule == WordRule::digits) {
    return {{"type", "Digits"}, {"individual_digits", rule == WordRule::digit}};
  }
  const auto* known =
      std::find_if(std::begin(kWordPatterns), std::end(kWordPatterns),
                   [&](const WordPattern& pattern) { return pattern.rule == rule; });
  return {{"type", "Split"},
          {"pattern", {{"Regex", known->regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

}  // namespace

BpeDescription read_huggingface_bpe(const Json& json, HuggingFacePart& model,
                                    const std::string& source) {
  model.know({"vocab", "merges", "unk_token", "fuse_unk"});  // no byte is unknown if all are tokens
  model.must_be("dropout", {nullptr, 0.0});
  model.must_be("continuing_subword_prefix", {nullptr, ""});
  model.must_be("end_of_word_suffix", {nullptr, ""});
  model.must_be("byte_fallback", {true, false});
  BpeDescription bpe;
  bpe.characters = model.object().has("byte_fallback") && model.object().flag("byte_fallback");
  if (bpe.characters) {
    model.must_be("ignore_merges", {false});
  } else {
    model.must_be("ignore_merges", {true, false});
  }
  model.refuse_others();
  bpe.ignore_merges = model.object().has("ignore_merges") && model.object().flag("ignore_merges");
  bpe.normalizer = normalizer_of(json, source, bpe.characters);
  if (bpe.characters) {
    read_metaspace(json, source, bpe);
    bpe.strip_start = strips_start(json, source);
  } else {
    read_byte_level(json, source, bpe);
  }

  bpe.tokens_source = source;
  bpe.merges_source = source + ": merge ";
  const std::vector<HuggingFaceToken> added = read_added_tokens(json, source);
  bpe.tokens = all_tokens(model, added, source);
  bpe.merges = merges_of(model.object().list("merges"), bpe.merges_source);
  // Without a normalizer, tokens that are looked for in normalized text only come second, which
  // makes no difference between special tokens.
  const bool all_special = std::all_of(added.begin(), added.end(),
                                       [](const HuggingFaceToken& token) { return token.special; });
  const bool in_phases = !all_special || !bpe.normalizer.empty();
  for (const HuggingFaceToken& token : added) {
    const auto id = token.id.get<int32_t>();
    (token.special ? bpe.special : bpe.added).push_back(id);
    if (token.strip_left) bpe.strip_left.push_back(id);
    if (token.strip_right) bpe.strip_right.push_back(id);
    if (token.single_word) bpe.single_word.push_back(id);
    if (token.normalized && in_phases) bpe.normalized.push_back(id);
  }
  return bpe;
}

Json huggingface_bpe_parts(const BpeDescription& bpe) {
  const auto byte_level = [](bool add_prefix_space, bool use_regex) {
    return Json{{"type", "ByteLevel"},
                {"add_prefix_space", add_prefix_space},
                {"trim_offsets", true},
                {"use_regex", use_regex}};
  };
  Json normalizers = Json::array();
  for (const Normalization step : bpe.normalizer) {
    if (step == Normalization::nfc) normalizers.push_back({{"type", "NFC"}});
    if (step == Normalization::prepend) {
      normalizers.push_back({{"type", "Prepend"}, {"prepend", kMark}});
    }
    if (step == Normalization::replace) normalizers.push_back(replace_step("Replace", " ", kMark));
  }
  Json json = {{"normalizer", nullptr}, {"pre_tokenizer", nullptr}};
  if (normalizers.size() == 1) json["normalizer"] = normalizers[0];
  if (normalizers.size() > 1) {
    json["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
  }
  if (bpe.characters) {
    Json decoders = {
        replace_step("Replace", kMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
    if (bpe.strip_start) {
      decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    json["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
    if (bpe.metaspace) {
      json["pre_tokenizer"] = {{"type", "Metaspace"},
                               {"replacement", kMark},
                               {"prepend_scheme", to_string(*bpe.metaspace)},
                               {"split", bpe.split_words}};
    }
  } else {
    json["decoder"] = byte_level(true, true);
    std::vector<WordRule> splits = bpe.words;
    const bool uses_regex = splits.back() == WordRule::gpt2;
    if (uses_regex) splits.pop_back();
    Json steps = Json::array();
    for (const WordRule rule : splits) steps.push_back(split_json(rule));
    steps.push_back(byte_level(bpe.add_prefix_space, uses_regex));
    json["pre_tokenizer"] =
        steps.size() == 1 ? steps[0] : Json{{"type", "Sequence"}, {"pretokenizers", steps}};
  }
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", bpe.characters ? Json(nullptr) : Json("")},
                   {"end_of_word_suffix", bpe.characters ? Json(nullptr) : Json("")},
                   {"fuse_unk", false},
                   {"byte_fallback", bpe.characters},
                   {"ignore_merges", bpe.ignore_merges}};
  return json;
}

}  // namespace tessera
