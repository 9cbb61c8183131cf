#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/range.h"
#include "launch/data/datasets/choice_lines.h"
#include "launch/data/datasets/pack_rows.h"
#include "launch/data/sample.h"
#include "launch/tokenizers/tokenizer.h"
#include "models/model_config.h"

namespace tessera {

/// The multiple-choice questions of a file (choice_lines.h) for a model that predicts the next
/// token, in memory. A document is a context with one choice, and only the choice's tokens have a
/// target. Rows are packed with whole documents, which do not see each other and have positions
/// from 0. The label of a document is the number of its choice among all choices of the file.
///
/// Tokens are those of lm-evaluation-harness: the text is the context, a space and the choice;
/// white space at the end of the context belongs to the choice. With n tokens of the context alone,
/// the choice has all tokens of the text but the first n. A context without text is the token that
/// ends a document. Of more than seq_length + 1 tokens, the last ones are used.
class ChoiceDataset final : public Dataset {
 public:
  /// Throws as for_each_choice_line does, naming file and line, if a choice has no tokens of its
  /// own or does not fit into the model, and if there is no question.
  ChoiceDataset(const std::string& path, const Tokenizer& tokenizer, const ModelConfig& model);

  const std::string& path() const { return path_; }
  /// The file's name without folder and extension.
  const std::string& name() const { return name_; }
  /// The file's size and a checksum of its content (see sampled_checksum()).
  const std::string& identity() const { return identity_; }

  int64_t num_questions() const { return std::ssize(questions_); }
  int64_t num_choices() const { return std::ssize(choices_); }
  /// Choices whose context was cut at its beginning.
  int64_t num_truncated() const { return num_truncated_; }
  /// The choices of a question.
  Range choices(int64_t question) const;
  /// The number of the right one among them.
  int64_t answer(int64_t question) const { return at(question).answer; }
  /// The line of a question in the file, from 1.
  int64_t line(int64_t question) const { return at(question).line; }
  /// The length of a choice's text in characters, which is at least 1.
  int64_t characters(int64_t choice) const {
    return choices_[static_cast<size_t>(choice)].characters;
  }

  int64_t num_samples() const override { return rows_.num_rows(); }
  int64_t seq_length() const override { return seq_length_; }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override;

 private:
  struct Question {
    int64_t line, first_choice, answer;
  };
  struct Choice {
    int64_t begin;       ///< in tokens_
    int64_t context;     ///< tokens before its own, at least 1
    int64_t characters;  ///< of its text
  };

  const Question& at(int64_t question) const { return questions_[static_cast<size_t>(question)]; }
  void add(const ChoiceLine& line, const Tokenizer& tokenizer, const ModelConfig& model);
  /// The place of a choice's tokens, of which the last is no input.
  Range tokens_of(int64_t choice) const;

  std::string path_, name_, identity_;
  int64_t seq_length_;
  std::vector<int32_t> tokens_;
  std::vector<Question> questions_;
  std::vector<Choice> choices_;
  PackedRows rows_;
  int64_t num_truncated_ = 0;
};

/// "data/hellaswag.jsonl: 10042 questions with 40168 choices", and how many contexts were cut.
std::string summary_of(const ChoiceDataset& dataset);

/// Opens files of questions for a model, which must predict the next token. Throws as ChoiceDataset
/// does, for another model, and unless the names of the files differ and consist of letters,
/// digits, - and _: results are named after them.
std::vector<std::shared_ptr<const ChoiceDataset>> open_choices(
    const std::vector<std::string>& paths, const Tokenizer& tokenizer, const ModelConfig& model);

}  // namespace tessera
