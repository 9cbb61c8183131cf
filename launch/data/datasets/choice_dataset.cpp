#include "launch/data/datasets/choice_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "launch/support/text/json.h"
#include "launch/support/text/utf8.h"

namespace tessera {
namespace {

std::string name_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for_each_utf8_character(text, [&](const Utf8Character&) { ++count; });
  return count;
}

}  // namespace

ChoiceDataset::ChoiceDataset(const std::string& path, const Tokenizer& tokenizer,
                             const ModelConfig& model)
    : ContinuationDataset(path, model), name_(name_of(path)) {
  for_each_choice_line(path, [&](const ChoiceLine& line) { add_question(line, tokenizer, model); });
  require(num_questions() > 0, "{}: there is no question", path);
  pack();
}

void ChoiceDataset::add_question(const ChoiceLine& line, const Tokenizer& tokenizer,
                                 const ModelConfig& model) {
  const std::string where = fmt::format("{}:{}", path(), line.number);
  const EncodedContext context = encode_context(tokenizer, line.context, where);
  questions_.push_back({line.number, num_choices(), line.answer});
  for (size_t i = 0; i < line.choices.size(); ++i) {
    const std::string here = fmt::format("{}: choice {}", where, i);
    const std::vector<int32_t> tokens =
        encode_continuation(tokenizer, context, " " + line.choices[i], here);
    add(tokens, std::ssize(tokens) - std::ssize(context.tokens), model, here);
    characters_.push_back(count_characters(line.choices[i]));
  }
}

Range ChoiceDataset::choices(int64_t question) const {
  const int64_t next = question + 1;
  return {at(question).first_choice,
          next < num_questions() ? at(next).first_choice : num_choices()};
}

std::string summary_of(const ChoiceDataset& dataset) {
  return fmt::format("{}: {} questions with {} choices{}", dataset.path(), dataset.num_questions(),
                     dataset.num_choices(), truncation_note(dataset));
}

std::vector<std::shared_ptr<const ChoiceDataset>> open_choices(
    const std::vector<std::string>& paths, const Tokenizer& tokenizer, const ModelConfig& model) {
  if (paths.empty()) return {};
  require_next_token(paths[0], model, "choose between texts");
  std::vector<std::shared_ptr<const ChoiceDataset>> opened;
  for (const std::string& path : paths) {
    const std::string name = name_of(path);
    const bool is_plain = std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-';
    });
    require(is_plain && !name.empty(),
            "{}: results are named after the file, but its name without extension, {}, has other "
            "characters than letters, digits, - and _: rename it",
            path, quote(name));
    for (const auto& other : opened) {
      require(other->name() != name,
              "{} and {}: results are named after the files, but both are called {}: rename one",
              other->path(), path, name);
    }
    opened.push_back(std::make_shared<const ChoiceDataset>(path, tokenizer, model));
  }
  return opened;
}

}  // namespace tessera
