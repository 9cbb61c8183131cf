#include "launch/data/datasets/labeled_words.h"

#include <fmt/ranges.h>

#include "core/error.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/input/json_lines.h"

namespace tessera {
namespace {

using Visit = std::function<void(const LabeledSentence&)>;

constexpr std::string_view kDocumentStart = "-DOCSTART-";

/// Collects the words of a sentence.
class SentenceBuilder {
 public:
  explicit SentenceBuilder(const Visit& visit) : visit_(visit) {}

  void add(int64_t number, std::string_view word, std::optional<int32_t> label) {
    if (sentence_.words.empty()) sentence_.number = number;
    sentence_.words.push_back(word);
    if (label) sentence_.labels.push_back(*label);
  }

  void end() {
    if (!sentence_.words.empty()) visit_(sentence_);
    sentence_ = {};
  }

 private:
  const Visit& visit_;
  LabeledSentence sentence_;
};

constexpr const char* kColumns =
    "a line is a word, a tab and its label, without a header, and empty lines separate sentences";

void read_conll(const MappedFile& file, LabelReader* labels, const Visit& visit) {
  LineReader lines(file, EmptyLines::allowed);
  SentenceBuilder sentence(visit);
  while (lines.next()) {
    if (lines.line().empty() || lines.line().starts_with(kDocumentStart)) {
      sentence.end();
      continue;
    }
    const std::string where = lines.where();
    const std::vector<std::string_view> fields = split(lines.line(), '\t');
    const bool has_label = fields.size() == 2;
    require(has_label || (labels == nullptr && fields.size() == 1),
            "{}: there {} {} column{}, but {}", where, fields.size() == 1 ? "is" : "are",
            fields.size(), fields.size() == 1 ? "" : "s", kColumns);
    require(!fields[0].empty(), "{}: the word is empty, but {}", where, kColumns);
    require(labels == nullptr || !fields[1].empty(), "{}: the label is empty, but {}", where,
            kColumns);
    require(!has_label || lines.number() > 1 || (fields[1] != "label" && fields[1] != "labels"),
            "{}: looks like a header, but {}: remove it", where, kColumns);
    std::optional<int32_t> label;
    if (labels != nullptr) label = labels->of_column(fields[1], where);
    sentence.add(lines.number(), fields[0], label);
  }
  sentence.end();
}

const Json& list_of(const RowReader& rows, const char* key) {
  const Json* list = rows.json(key);
  require(list != nullptr, "{}: a list of words needs a .jsonl or .json file", rows.where());
  require(list->is_array(), "{}: \"{}\" must be a list, but is {}", rows.where(), key,
          json_type(*list));
  return *list;
}

void read_json_sentences(const std::string& path, LabelReader* labels, const RowOptions& options,
                         const Visit& visit) {
  const RowFormat format =
      labels != nullptr ? RowFormat{{"tokens", "tags"}} : RowFormat{{"tokens"}};
  RowReader rows(path, format, options);
  while (rows.next()) {
    const std::string& where = rows.where();
    LabeledSentence sentence;
    sentence.number = rows.number();
    for (const Json& word : list_of(rows, "tokens")) {
      require(word.is_string() && !word.get_ref<const std::string&>().empty(),
              "{}: token {} must be a string with at least one character", where,
              sentence.words.size() + 1);
      sentence.words.emplace_back(word.get_ref<const std::string&>());
    }
    require(!sentence.words.empty(), "{}: there is no token", where);
    if (labels != nullptr) {
      const Json& tags = list_of(rows, "tags");
      require(tags.size() == sentence.words.size(),
              "{}: there are {} tags for {} tokens: each token has one", where, tags.size(),
              sentence.words.size());
      for (const Json& tag : tags) sentence.labels.push_back(labels->of_json(tag, where));
    }
    visit(sentence);
  }
}

void read_text_sentences(const MappedFile& file, const Visit& visit) {
  LineReader lines(file);
  while (lines.next()) {
    LabeledSentence sentence;
    sentence.number = lines.number();
    sentence.words = words_of(lines.line());
    require(!sentence.words.empty(), "{}: there is no word", lines.where());
    visit(sentence);
  }
}

void read_sentences(const std::string& path, LabelReader* labels, const RowOptions& options,
                    const Visit& visit) {
  if (has_json_rows(path)) {
    return read_json_sentences(path, labels, options, visit);
  }
  const bool is_text = labels == nullptr && path.ends_with(".txt");
  require(is_text || path.ends_with(".tsv"),
          "{}: a file of words must have a name that ends in .jsonl, .json or .tsv{}", path,
          labels == nullptr ? ", or in .txt" : "");
  require(options.columns.empty(), "{}: data.columns is set, but the columns have no names", path);
  const MappedFile file(path);
  is_text ? read_text_sentences(file, visit) : read_conll(file, labels, visit);
}

}  // namespace

void for_each_labeled_sentence(const std::string& path, const Labels& labels, const Visit& visit,
                               const RowOptions& options) {
  KnownLabels known(labels);
  read_sentences(path, &known, options, visit);
}

void for_each_sentence(const std::string& path, const Visit& visit, const RowOptions& options) {
  read_sentences(path, nullptr, options, visit);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words = split(text, ' ');
  std::erase_if(words, [](std::string_view word) { return word.empty(); });
  return words;
}

Labels find_word_labels(std::span<const std::string> paths, std::optional<int64_t> count,
                        const RowOptions& options) {
  FoundLabels found;
  bool has_words = false;
  for (const std::string& path : paths) {
    read_sentences(path, &found, {options.columns},
                   [&](const LabeledSentence&) { has_words = true; });
  }
  require(has_words, "{}: there is no word", fmt::join(paths, ", "));
  Labels labels = found.labels(count);
  require(labels.count >= 2, "{}: all words have the same label, but classification needs two",
          fmt::join(paths, ", "));
  return labels;
}

}  // namespace tessera
