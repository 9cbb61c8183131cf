#include "launch/data/datasets/choice_lines.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "core/error.h"
#include "launch/data/datasets/row_reader.h"
#include "launch/support/input/json_lines.h"
#include "launch/support/text/json.h"
#include "launch/support/text/number_text.h"

namespace tessera {
namespace {

/// The names of a format's fields.
struct ChoiceFormat {
  const char* choices;
  const char* answer;
};

constexpr ChoiceFormat kHellaSwag = {"endings", "label"};
constexpr ChoiceFormat kPlain = {"choices", "answer"};

const ChoiceFormat& format_of(const Json& line, const std::string& where) {
  const bool is_plain = line.contains(kPlain.choices);
  require(is_plain || line.contains(kHellaSwag.choices),
          "{}: there is neither \"endings\" nor \"choices\": a line must have ctx, endings and "
          "label, or question, choices and answer",
          where);
  return is_plain ? kPlain : kHellaSwag;
}

std::string text_in(const Json& value, const std::string& where, const std::string& what) {
  require(value.is_string(), "{}: {} must be a string, but is {}", where, what, json_type(value));
  return value.get<std::string>();
}

/// The text of a field that must exist.
std::string text_at(const Json& line, const char* key, const std::string& where) {
  const auto found = line.find(key);
  require(found != line.end(), "{}: there is no \"{}\"", where, key);
  return text_in(*found, where, fmt::format("\"{}\"", key));
}

std::string context_of(const Json& line, const ChoiceFormat& format, const std::string& where) {
  if (&format == &kPlain) {
    const bool has_question = line.contains("question");
    require(has_question != line.contains("context"),
            "{}: there is {}, but a line must have one of \"question\" and \"context\"", where,
            has_question ? "a \"question\" and a \"context\""
                         : "neither a \"question\" nor a \"context\"");
    return text_at(line, has_question ? "question" : "context", where);
  }
  if (line.contains("ctx")) return text_at(line, "ctx", where);
  require(line.contains("ctx_a"), "{}: there is neither \"ctx\" nor \"ctx_a\"", where);
  const std::string before = text_at(line, "ctx_a", where), after = text_at(line, "ctx_b", where);
  return before.empty() || after.empty() ? before + after : before + " " + after;
}

std::vector<std::string> choices_of(const Json& line, const char* key, const std::string& where) {
  const Json& list = line.at(key);
  require(list.is_array(), "{}: \"{}\" must be a list of texts, but is {}", where, key,
          json_type(list));
  require(2 <= list.size() && list.size() <= kMostChoices,
          "{}: \"{}\" has {} choices, but a question has 2 to {}", where, key, list.size(),
          kMostChoices);
  std::vector<std::string> choices;
  for (const Json& choice : list) {
    const std::string what = fmt::format("choice {} of \"{}\"", choices.size(), key);
    choices.push_back(text_in(choice, where, what));
    require(!choices.back().empty(), "{}: {} is empty, but must be a text", where, what);
  }
  return choices;
}

int64_t answer_of(const Json& line, const char* key, size_t choices, const std::string& where) {
  const auto found = line.find(key);
  require(found != line.end(), "{}: there is no \"{}\"", where, key);
  std::optional<int64_t> answer;
  if (found->is_string()) {
    answer = parse_integer(found->get_ref<const std::string&>());
  } else if (found->is_number_unsigned() && found->get<uint64_t>() <= kMostChoices) {
    answer = found->get<int64_t>();
  }
  const bool is_choice = answer && 0 <= *answer && *answer < static_cast<int64_t>(choices);
  require(is_choice, "{}: \"{}\" is {}, but must be the number of the right choice, from 0 to {}",
          where, key,
          found->is_string()       ? quote(found->get_ref<const std::string&>())
          : found->is_structured() ? std::string(json_type(*found))
                                   : found->dump(),
          choices - 1);
  return *answer;
}

}  // namespace

void for_each_choice_line(const std::string& path,
                          const std::function<void(const ChoiceLine&)>& visit) {
  require(has_json_rows(path),
          "{}: a file of multiple-choice questions must have a name that ends in .jsonl or .json",
          path);
  RowReader rows(path, {});
  while (rows.next()) {
    const std::string& where = rows.where();
    const Json& json = rows.object();
    const ChoiceFormat& format = format_of(json, where);
    ChoiceLine line;
    line.number = rows.number();
    line.context = context_of(json, format, where);
    line.choices = choices_of(json, format.choices, where);
    line.answer = answer_of(json, format.answer, line.choices.size(), where);
    visit(line);
  }
}

}  // namespace tessera
