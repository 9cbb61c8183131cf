#include "launch/tokenizers/huggingface_normalizer.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "launch/support/text/base64.h"
#include "launch/tokenizers/huggingface_part.h"

namespace tessera {
namespace {

/// The steps whose only setting is their type.
constexpr Normalization kPlain[] = {
    Normalization::nfc, Normalization::nfd,       Normalization::nfkc,         Normalization::nfkd,
    Normalization::nmt, Normalization::lowercase, Normalization::strip_accents};

/// The regular expressions of "Replace", and their replacement if only one is supported.
struct Expression {
  Normalization kind;
  const char* regex;
  const char* to;
};
constexpr Expression kExpressions[] = {{Normalization::squeeze, " {2,}", nullptr},
                                       {Normalization::trim, R"(\A +| +\z)", ""},
                                       {Normalization::double_mark, "\\A\u2581", "\u2581\u2581"}};

NormalizationStep read_replace(HuggingFacePart& part) {
  part.know({"pattern", "content"});
  const Json& pattern = part.object().object("pattern");
  const std::string to = part.object().text("content");
  if (const Json& from = part_of(pattern, "String"); from.is_string()) {
    NormalizationStep step = Normalization::replace;
    step.from = from.get<std::string>();
    step.to = to;
    return step;
  }
  const auto* found = std::ranges::find_if(kExpressions, [&](const Expression& known) {
    return part_of(pattern, "Regex") == Json(known.regex);
  });
  require(found != std::end(kExpressions),
          "{}: \"pattern\" is {}, but only strings and the regular expressions \" {{2,}}\", "
          "\"\\A +| +\\z\" and \"\\A\u2581\" are supported",
          part.where(), quote(pattern.dump()));
  if (found->to != nullptr) part.must_be("content", {found->to});
  NormalizationStep step = found->kind;
  if (found->to == nullptr) step.to = to;
  return step;
}

/// A "Strip" is up to two steps.
Normalizer read_step(HuggingFacePart& part, const char* allowed) {
  const std::string type = part.type();
  const auto* plain =
      std::ranges::find(kPlain, type, [](Normalization kind) { return to_string(kind); });
  if (plain != std::end(kPlain)) return {*plain};
  if (type == "Replace") return {read_replace(part)};
  if (type == "Prepend") {
    part.must_be("prepend", {std::string(kSpaceMark)});
    return {Normalization::prepend};
  }
  if (type == "Precompiled") {
    part.know({"precompiled_charsmap"});
    const std::string where = part.where() + ": \"precompiled_charsmap\"";
    const Json& rules = part.object().at("precompiled_charsmap");
    require(rules.is_string(), "{} must be a string, but is {}", where, json_type(rules));
    NormalizationStep step = Normalization::precompiled;
    step.rules = std::make_shared<Charsmap>(from_base64(rules.get<std::string>(), where), where);
    return {step};
  }
  if (type != "Strip") refuse_type(part.where(), type, allowed);
  Normalizer steps;
  part.know({"strip_left", "strip_right"});
  if (part.object().flag("strip_left")) steps.push_back(Normalization::strip_left);
  if (part.object().flag("strip_right")) steps.push_back(Normalization::strip_right);
  return steps;
}

Json replace_json(const Json& pattern, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", to}};
}

Json part_of_step(const NormalizationStep& step) {
  switch (step.kind) {
    case Normalization::prepend:
      return {{"type", "Prepend"}, {"prepend", kSpaceMark}};
    case Normalization::replace:
      return replace_json({{"String", step.from}}, step.to);
    case Normalization::precompiled:
      return {{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(step.rules->bytes())}};
    case Normalization::strip_left:
    case Normalization::strip_right:
      return {{"type", "Strip"},
              {"strip_left", step == Normalization::strip_left},
              {"strip_right", step == Normalization::strip_right}};
    case Normalization::squeeze:
    case Normalization::trim:
    case Normalization::double_mark: {
      const auto* found = std::ranges::find(kExpressions, step.kind, &Expression::kind);
      return replace_json({{"Regex", found->regex}}, found->to == nullptr ? step.to : found->to);
    }
    default:
      return {{"type", to_string(step.kind)}};
  }
}

}  // namespace

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

Normalizer read_normalizer(const Json& json, const std::string& source, const Normalizer& allowed,
                           const char* allowed_names) {
  const std::string where = where_part(source, "normalizer");
  Normalizer steps;
  for (const Json* item : steps_of(part_of(json, "normalizer"), where, "normalizers")) {
    HuggingFacePart part(*item, where);
    for (const NormalizationStep& step : read_step(part, allowed_names)) {
      const bool is_allowed = allowed.empty() || std::ranges::count(allowed, step) > 0;
      if (!is_allowed) refuse_type(where, part.type(), allowed_names);
      steps.push_back(step);
    }
    part.refuse_others();
  }
  return steps;
}

Normalizer read_normalizer(const Json& json, const std::string& source) {
  return read_normalizer(json, source, {},
                         "null, \"NFC\", \"NFD\", \"NFKC\", \"NFKD\", \"Nmt\", \"Lowercase\", "
                         "\"StripAccents\", \"Strip\", "
                         "\"Precompiled\", \"Prepend\", \"Replace\" or a \"Sequence\" of these, "
                         "with a \"Unigram\" model,");
}

Json normalizer_json(const Normalizer& steps) {
  Json list = Json::array();
  for (const NormalizationStep& step : steps) list.push_back(part_of_step(step));
  if (list.empty()) return nullptr;
  if (list.size() == 1) return list[0];
  return {{"type", "Sequence"}, {"normalizers", list}};
}

}  // namespace tessera
