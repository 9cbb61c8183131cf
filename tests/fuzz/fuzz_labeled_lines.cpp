// A .tsv, .csv, .jsonl or .json file of labeled texts or words, of texts that belong together, of
// prompts and completions or messages, of prompts alone, or of multiple-choice questions. The first
// byte of the input says which, whether labels are names, and how many a text has.

#include "launch/data/datasets/chat_messages.h"
#include "launch/data/datasets/choice_lines.h"
#include "launch/data/datasets/labeled_lines.h"
#include "launch/data/datasets/labeled_words.h"
#include "launch/data/datasets/sft_lines.h"
#include "launch/data/datasets/text_tuples.h"
#include "tests/fuzz/fuzz_input.h"

using namespace tessera;

namespace {

void read_words(const std::string& path, const Labels& labels, size_t size) {
  for_each_labeled_sentence(path, labels, [&](const LabeledSentence& sentence) {
    fuzz::expect(sentence.words.size() == sentence.labels.size(), "words without a label");
    fuzz::expect(sentence.words.size() <= size, "more words than bytes");
  });
}

void read_texts(const std::string& path, const Labels& labels, size_t size) {
  for_each_labeled_line(path, labels, [&](const LabeledLine& line) {
    fuzz::expect(line.label == 0 || line.label == 1, "a label out of range");
    fuzz::expect(line.text.size() <= size, "a text longer than the file");
  });
}

void read_tuples(const std::string& path, size_t size) {
  tuple_columns(path);
  RowReader rows(path, {{"anchor", "positive"}, {"negative"}});
  while (rows.next()) {
    fuzz::expect(rows.text("anchor").size() + rows.text("positive").size() <= size,
                 "longer than the file");
  }
}

void check_messages(std::span<const Message> messages, size_t size) {
  for (const Message& message : messages) {
    fuzz::expect(message.text.size() <= size, "a message longer than the file");
  }
}

void read_sft(const std::string& path, size_t size) {
  for_each_sft_line(path, [&](const SftLine& line) {
    fuzz::expect(line.messages.back().role == Role::assistant, "nothing to learn");
    fuzz::expect(line.given < line.messages.size(), "nothing to learn");
    check_messages(line.messages, size);
  });
}

void read_prompts(const std::string& path, size_t size) {
  for_each_prompt(path, [&](const PromptLine& line) {
    fuzz::expect(line.text.size() <= size, "a prompt longer than the file");
    check_messages(line.messages, size);
  });
}

void read_choices(const std::string& path, size_t size) {
  for_each_choice_line(path, [&](const ChoiceLine& line) {
    fuzz::expect(line.answer >= 0 && line.answer < std::ssize(line.choices), "no such choice");
    fuzz::expect(line.context.size() <= size + 1, "a context longer than the file");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const char* const names[] = {"labels.tsv", "labels.jsonl", "labels.csv", "labels.json"};
  const std::string path =
      fuzz::file_of(names[(data[0] & 1) + 2 * (size & 1)], fuzz::text_of(data + 1, size - 1));
  Labels labels{2};
  if ((data[0] & 2) != 0) labels.names = {"no", "yes"};
  if ((data[0] & 4) != 0) labels.problem_type = ProblemType::multi_label_classification;
  if ((data[0] & 8) != 0) labels = {1, {}, ProblemType::regression};
  const bool words = (data[0] & 16) != 0, tuples = (data[0] & 32) != 0;
  const bool sft = (data[0] & 64) != 0, choices = (data[0] & 128) != 0;
  fuzz::refuse_or_take([&] {
    if (choices) return read_choices(path, size);
    if (sft) return words ? read_prompts(path, size) : read_sft(path, size);
    if (tuples) return read_tuples(path, size);
    words ? read_words(path, labels, size) : read_texts(path, labels, size);
  });
  return 0;
}
