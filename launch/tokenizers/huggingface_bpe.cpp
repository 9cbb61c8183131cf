#include "launch/tokenizers/huggingface_bpe.h"

#include <algorithm>
#include <iterator>

#include "core/checked.h"
#include "core/error.h"
#include "launch/tokenizers/huggingface_normalizer.h"
#include "launch/tokenizers/huggingface_vocabulary.h"

namespace tessera {
namespace {

struct WordPattern {
  WordRule rule;
  bool makes_words;  ///< whether a word needs no other rule
  bool matches_all;  ///< whether matches cover any text
  const char* regex;
};
constexpr WordPattern kWordPatterns[] = {
    {WordRule::gpt2, true, true,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {WordRule::qwen2, true, true,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordRule::llama3, true, true,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordRule::o200k, true, true,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordRule::deepseek3, true, false,
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
     R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordRule::digit, false, false, R"(\p{N})"},
    {WordRule::digits, false, false, R"(\p{N}+)"},
    {WordRule::digits3, false, false, R"(\p{N}{1,3})"},
    {WordRule::cjk, false, false, "[一-龥぀-ゟ゠-ヿ]+"},
};

const std::string kMark(kSpaceMark);

const WordPattern* find_pattern(WordRule rule) {
  return std::ranges::find(kWordPatterns, rule, &WordPattern::rule);
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
  split.must_be("behavior", {"Isolated", found->matches_all ? "Removed" : "Isolated"});
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
  const auto makes_words = [](WordRule rule) {
    const WordPattern* pattern = find_pattern(rule);
    return pattern != std::end(kWordPatterns) && pattern->makes_words;
  };
  require(std::ranges::any_of(bpe.words, makes_words),
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

const char* model_name(const BpeDescription& bpe) {
  return bpe.is_unigram() ? "a \"Unigram\" model" : "a \"BPE\" model of characters";
}

/// Reads the pre-tokenizer of a model of characters.
void read_metaspace(const Json& json, const std::string& source, BpeDescription& bpe) {
  const std::string where = where_part(source, "pre_tokenizer");
  std::vector<const Json*> steps = steps_of(part_of(json, "pre_tokenizer"), where, "pretokenizers");
  const auto type_of = [&](size_t i) { return HuggingFacePart(*steps[i], where).type(); };
  if (bpe.is_unigram() && steps.size() == 2 && type_of(0) == "WhitespaceSplit") {
    HuggingFacePart(*steps[0], where).refuse_others();
    bpe.split_spaces = true;
    steps.erase(steps.begin());
  }
  if (steps.empty()) return;
  HuggingFacePart part(*steps[0], where);
  const std::string allowed =
      fmt::format("null, \"Metaspace\"{} or a \"Split\" at spaces, with {},",
                  bpe.is_unigram() ? ", also after \"WhitespaceSplit\"," : "", model_name(bpe));
  if (steps.size() > 1) refuse_type(where, type_of(part.type() == "Metaspace" ? 1 : 0), allowed);
  if (part.type() == "Split") {  // Gemma's, which finds nothing
    part.must_be("pattern", {{{"String", " "}}});
    part.must_be("behavior", {"MergedWithPrevious"});
    part.must_be("invert", {false});
    part.refuse_others();
    require(std::ranges::count(bpe.normalizer, NormalizationStep(Normalization::replace)) > 0,
            "{}: \"Split\" at spaces is only supported after a normalizer that replaces them",
            where);
    return;
  }
  if (part.type() != "Metaspace") refuse_type(where, part.type(), allowed);
  part.must_be("replacement", {kMark});
  part.must_be("str_rep", {kMark});
  part.must_be("split", {true, false});
  bpe.metaspace = prefix_mark(part);
  if (bpe.split_spaces) part.must_be("prepend_scheme", {"never", "always"});
  bpe.split_words = !part.object().has("split") || part.object().flag("split");
  part.refuse_others();
}

Json strip_step() { return {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}; }

/// The steps of a decoder of characters, before "Strip".
Json decoder_steps(const BpeDescription& bpe) {
  Json steps = Json::array();
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}});
  if (bpe.falls_back()) steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  return steps;
}

/// Reads the decoder of a model of characters.
void read_decoder(const Json& json, const std::string& source, BpeDescription& bpe) {
  const std::string where = where_part(source, "decoder");
  const Json& decoder = part_of(json, "decoder");
  if (bpe.is_unigram() && part_of(decoder, "type") == "Metaspace") {
    HuggingFacePart part(decoder, where);
    part.must_be("replacement", {kMark});
    part.must_be("str_rep", {kMark});
    part.know({"split"});
    bpe.metaspace_decoder = true;
    bpe.strip_start = prefix_mark(part) != PrefixMark::never;
    part.refuse_others();
    return;
  }
  Json wanted = decoder_steps(bpe);
  Json steps = Json::array();
  for (const Json* step : steps_of(decoder, where, "decoders")) steps.push_back(*step);
  if (steps == wanted) return;
  wanted.push_back(strip_step());
  require(steps == wanted,
          "{} of {} must be {}a \"Sequence\" of \"Replace\" (of \"\u2581\" by a space), {}"
          "\"Fuse\" and optionally \"Strip\" (of one space at the start)",
          where, model_name(bpe), bpe.is_unigram() ? "\"Metaspace\" or " : "",
          bpe.falls_back() ? "\"ByteFallback\", " : "");
  bpe.strip_start = true;
}

Json split_json(WordRule rule) {
  if (rule == WordRule::digit || rule == WordRule::digits) {
    return {{"type", "Digits"}, {"individual_digits", rule == WordRule::digit}};
  }
  return {{"type", "Split"},
          {"pattern", {{"Regex", find_pattern(rule)->regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

/// Adds the tokens of "added_tokens" to those of the model.
void take_added_tokens(const std::vector<HuggingFaceToken>& added, BpeDescription& bpe) {
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
}

Json model_json(const BpeDescription& bpe) {
  if (bpe.is_unigram()) {
    return {{"type", "Unigram"}, {"unk_id", bpe.unknown}, {"byte_fallback", bpe.byte_fallback}};
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", bpe.characters ? Json(nullptr) : Json("")},
          {"end_of_word_suffix", bpe.characters ? Json(nullptr) : Json("")},
          {"fuse_unk", false},
          {"byte_fallback", bpe.characters},
          {"ignore_merges", bpe.ignore_merges}};
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
  if (bpe.characters) {
    bpe.normalizer = read_normalizer(
        json, source, {Normalization::nfc, Normalization::prepend, Normalization::replace},
        "null, \"NFC\", \"Prepend\" of \"\u2581\", \"Replace\" of a space by it, or a \"Sequence\" "
        "of these, with a \"BPE\" model of characters,");
    read_metaspace(json, source, bpe);
    read_decoder(json, source, bpe);
  } else {
    bpe.normalizer =
        read_normalizer(json, source, {Normalization::nfc},
                        "null, \"NFC\" or a \"Sequence\" of it, with a \"BPE\" model of bytes,");
    read_byte_level(json, source, bpe);
  }

  bpe.tokens_source = source;
  bpe.merges_source = source + ": merge ";
  const std::vector<HuggingFaceToken> added = read_added_tokens(json, source);
  bpe.tokens = all_tokens(model, added, source);
  bpe.merges = merges_of(model.object().list("merges"), bpe.merges_source);
  take_added_tokens(added, bpe);
  return bpe;
}

BpeDescription read_huggingface_unigram(const Json& json, HuggingFacePart& model,
                                        const std::string& source) {
  model.know({"vocab", "unk_id"});
  model.must_be("byte_fallback", {true, false});
  model.must_be("alpha", {nullptr});
  model.must_be("nbest_size", {nullptr});
  model.refuse_others();
  BpeDescription unigram;
  unigram.characters = true;
  unigram.byte_fallback =
      model.object().has("byte_fallback") && model.object().flag("byte_fallback");
  const Json& unknown = part_of(model.json(), "unk_id");
  require(!unknown.is_null(),
          "{}: \"unk_id\" is missing, but it must be the token of unknown characters, so that any "
          "text can be encoded: train the tokenizer with an \"unk_token\"",
          model.where());
  unigram.unknown = narrow<int32_t>(json_count(unknown, model.where() + ": \"unk_id\""));
  NumberedTokens tokens(source);
  for (const Json& item : model.object().list("vocab")) {
    require(item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_number(),
            "{}: \"vocab\": item {} must be a piece and its score", model.where(),
            unigram.scores.size());
    tokens.add(item[0].get<std::string>(), unigram.scores.size());
    unigram.scores.push_back(item[1].get<double>());
  }
  require(!unigram.scores.empty(), "{}: \"vocab\" is empty", model.where());
  const std::vector<HuggingFaceToken> added = read_added_tokens(json, source);
  for (const HuggingFaceToken& token : added) tokens.add(token.text, token.id);
  unigram.tokens = tokens.in_order();
  unigram.tokens_source = source;
  unigram.normalizer = read_normalizer(json, source);
  read_metaspace(json, source, unigram);
  read_decoder(json, source, unigram);
  take_added_tokens(added, unigram);
  return unigram;
}

Json huggingface_bpe_parts(const BpeDescription& bpe) {
  const auto byte_level = [](bool add_prefix_space, bool use_regex) {
    return Json{{"type", "ByteLevel"},
                {"add_prefix_space", add_prefix_space},
                {"trim_offsets", true},
                {"use_regex", use_regex}};
  };
  const auto metaspace = [](PrefixMark mark, bool split) {
    return Json{{"type", "Metaspace"},
                {"replacement", kMark},
                {"prepend_scheme", to_string(mark)},
                {"split", split}};
  };
  Json json = {{"normalizer", normalizer_json(bpe.normalizer)}, {"pre_tokenizer", nullptr}};
  if (bpe.characters) {
    const PrefixMark mark = bpe.metaspace.value_or(PrefixMark::always);
    if (bpe.metaspace_decoder) {
      const bool adds = mark != PrefixMark::never;
      const PrefixMark first = adds ? mark : PrefixMark::always;
      json["decoder"] = metaspace(bpe.strip_start ? first : PrefixMark::never, true);
    } else {
      Json steps = decoder_steps(bpe);
      if (bpe.strip_start) steps.push_back(strip_step());
      json["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
    }
    if (bpe.metaspace) json["pre_tokenizer"] = metaspace(mark, bpe.split_words);
    if (bpe.split_spaces) {
      json["pre_tokenizer"] = {
          {"type", "Sequence"},
          {"pretokenizers", {{{"type", "WhitespaceSplit"}}, json["pre_tokenizer"]}}};
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
  json["model"] = model_json(bpe);
  return json;
}

}  // namespace tessera
