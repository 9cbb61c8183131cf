#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/range.h"
#include "launch/data/datasets/choice_lines.h"
#include "launch/data/datasets/continuation_dataset.h"
#include "launch/tokenizers/tokenizer.h"
#include "models/model_config.h"

namespace tessera {

/// The multiple-choice questions of a file (choice_lines.h). Each choice is a continuation of the
/// question's context, of which a space and the choice are the text.
class ChoiceDataset final : public ContinuationDataset {
 public:
  /// Throws as for_each_choice_line does, naming file and line, if a choice has no tokens of its
  /// own or does not fit into the model, and if there is no question.
  ChoiceDataset(const std::string& path, const Tokenizer& tokenizer, const ModelConfig& model);

  /// The file's name without folder and extension.
  const std::string& name() const { return name_; }

  int64_t num_questions() const { return std::ssize(questions_); }
  int64_t num_choices() const { return num_continuations(); }
  /// The choices of a question.
  Range choices(int64_t question) const;
  /// The number of the right one among them.
  int64_t answer(int64_t question) const { return at(question).answer; }
  /// The line of a question in the file, from 1.
  int64_t line(int64_t question) const { return at(question).line; }
  /// The length of a choice's text in characters, which is at least 1.
  int64_t characters(int64_t choice) const { return characters_[static_cast<size_t>(choice)]; }

 private:
  struct Question {
    int64_t line, first_choice, answer;
  };

  const Question& at(int64_t question) const { return questions_[static_cast<size_t>(question)]; }
  void add_question(const ChoiceLine& line, const Tokenizer& tokenizer, const ModelConfig& model);

  std::string name_;
  std::vector<Question> questions_;
  std::vector<int64_t> characters_;  // of each choice
};

/// "data/hellaswag.jsonl: 10042 questions with 40168 choices", and how many contexts were cut.
std::string summary_of(const ChoiceDataset& dataset);

/// Opens files of questions for a model, which must predict the next token. Throws as ChoiceDataset
/// does, for another model, and unless the names of the files differ and consist of letters,
/// digits, - and _: results are named after them.
std::vector<std::shared_ptr<const ChoiceDataset>> open_choices(
    const std::vector<std::string>& paths, const Tokenizer& tokenizer, const ModelConfig& model);

}  // namespace tessera
