#include "launch/data/datasets/labeled_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <span>

#include "core/error.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"
#include "launch/support/text/number_text.h"

namespace tessera {
namespace {

/// The field or column of a text's labels.
std::string_view label_field(ProblemType type) {
  return type == ProblemType::multi_label_classification ? "labels" : "label";
}

/// Advice if a file has the field of another problem type; otherwise "".
std::string_view problem_type_advice(std::string_view found, std::string_view expected) {
  if (found == expected) return "";
  if (found == "labels") {
    return " (for several labels per text, set model.problem_type to multi_label_classification)";
  }
  if (found == "label") return " (model.problem_type is multi_label_classification)";
  if (found == "anchor" || found == "positive") {
    return " (for embeddings of texts, set model.head to embedding)";
  }
  return found == "tokens" || found == "tags"
             ? " (for a label of each word, set model.head to token_classification)"
             : "";
}

/// Reads the labels of a text, of one problem type.
class TextLabels {
 public:
  TextLabels(LabelReader& reader, ProblemType type, int64_t count)
      : reader_(reader),
        type_(type),
        values_(type == ProblemType::single_label_classification ? 0 : static_cast<size_t>(count)) {
  }

  ProblemType type() const { return type_; }

  void of_json(const Json& value, const std::string& where, LabeledLine& line) {
    switch (type_) {
      case ProblemType::single_label_classification:
        line.label = reader_.of_json(value, where);
        return;
      case ProblemType::regression:
        require(value.is_number(), "{}: the label is {}, but must be a number", where,
                shown(value));
        set_number(value.get<double>(), shown(value), where);
        break;
      case ProblemType::multi_label_classification:
        require(value.is_array(), "{}: \"labels\" is {}, but must be a list, as in [\"a\", \"b\"]",
                where, shown(value));
        clear();
        for (const Json& label : value) add(reader_.of_json(label, where), shown(label), where);
        break;
    }
    line.values = values_;
  }

  void of_column(std::string_view text, const std::string& where, LabeledLine& line) {
    switch (type_) {
      case ProblemType::single_label_classification:
        line.label = reader_.of_column(text, where);
        return;
      case ProblemType::regression: {
        const std::optional<double> number = parse_number(text);
        require(number.has_value(), "{}: the label is {}, but must be a number, as in 3.5 or -1e-2",
                where, quote(text));
        set_number(*number, quote(text), where);
        break;
      }
      case ProblemType::multi_label_classification:
        clear();
        if (text.empty()) break;
        for (const std::string_view label : split(text, '|')) {
          require(!label.empty(),
                  "{}: the labels are {}, and one of them is empty: separate labels by one |",
                  where, quote(text));
          add(reader_.of_column(label, where), quote(label), where);
        }
        break;
    }
    line.values = values_;
  }

 private:
  void set_number(double number, std::string_view found, const std::string& where) {
    require(std::fabs(number) <= static_cast<double>(std::numeric_limits<float>::max()),
            "{}: the label is {}, which is beyond fp32's range", where, found);
    values_.assign(1, static_cast<float>(number));
  }

  void clear() {
    std::ranges::fill(values_, 0.0f);
    found_.clear();
  }

  /// `label` is its number or, while labels are collected, 0.
  void add(int32_t label, std::string_view found, const std::string& where) {
    require(found_.emplace(found).second, "{}: the label {} is given twice", where, found);
    if (static_cast<size_t>(label) < values_.size()) values_[static_cast<size_t>(label)] = 1.0f;
  }

  LabelReader& reader_;
  ProblemType type_;
  std::vector<float> values_;
  std::set<std::string, std::less<>> found_;  // of this text
};

std::string_view json_text(const Json& object, const char* key, const std::string& where) {
  const Json& value = object.at(key);
  require(value.is_string(), "{}: \"{}\" must be a string, but is {}", where, key,
          json_type(value));
  return value.get_ref<const std::string&>();
}

/// Advice if a file of texts to predict for has other fields or columns.
constexpr std::string_view kTextsAdvice =
    ": name the texts \"text\", and leave out what else there is, or pass a .txt file with a text "
    "on each line";

/// Whether a field or column has labels of any problem type.
bool has_labels(std::string_view name) { return name == "label" || name == "labels"; }

std::string_view label_field_of(const TextLabels* labels) {
  return labels == nullptr ? "label" : label_field(labels->type());
}

/// Without `labels`, those in the file are not read and may be missing.
void read_jsonl(LineReader& lines, TextLabels* labels,
                const std::function<void(const LabeledLine&)>& visit) {
  bool pairs = false;
  const std::string field(label_field_of(labels));
  const std::string known = fmt::format("text, text_pair and {}", field);
  while (lines.next()) {
    const std::string where = lines.where();
    const Json object = parse_json_line(lines, known);
    for (const auto& [key, value] : object.items()) {
      require(key == "text" || key == "text_pair" || key == field ||
                  (labels == nullptr && has_labels(key)),
              "{}: has a field {}, but only {} are allowed{}", where, quote(key), known,
              labels == nullptr ? kTextsAdvice : problem_type_advice(key, field));
    }
    require(object.contains("text"), "{}: there is no \"text\"", where);
    require(labels == nullptr || object.contains(field), "{}: there is no \"{}\"", where, field);
    const bool has_pair = object.contains("text_pair");
    if (lines.number() == 1) pairs = has_pair;
    require(has_pair == pairs,
            "{}: there is {} \"text_pair\", unlike in line 1: all lines must have it, or none",
            where, has_pair ? "a" : "no");
    LabeledLine line{lines.number(), json_text(object, "text", where)};
    if (labels != nullptr) labels->of_json(object.at(field), where, line);
    if (pairs) line.text_pair = json_text(object, "text_pair", where);
    visit(line);
  }
}

/// The columns of a .tsv file.
struct Columns {
  size_t count = 0;
  std::optional<size_t> text, text_pair, label;
};

constexpr std::string_view kWordAdvice =
    " (for a label of each word, set model.head to token_classification)";

/// The line that names `columns` columns, in the order most files have.
std::string header_advice(size_t columns, const TextLabels* labels) {
  if (labels == nullptr) {
    return "the first line must name the column text, and may name text_pair and label" +
           std::string(kTextsAdvice);
  }
  const std::string_view label = label_field(labels->type());
  return fmt::format(
      "the first line must name the columns text and {}, and text_pair for pairs; if there is no "
      "such line, add \"{}\\t{}\" at the top, where \\t is a tab, in the order of the columns",
      label, columns == 3 ? "text\\ttext_pair" : "text", label);
}

Columns read_header(const LineReader& lines, const TextLabels* labels) {
  const std::string_view label = label_field_of(labels);
  const std::vector<std::string_view> names = split(lines.line(), '\t');
  const auto is_label = [&](std::string_view name) {
    return name == label || (labels == nullptr && has_labels(name));
  };
  Columns columns;
  columns.count = names.size();
  for (size_t i = 0; i < names.size(); ++i) {
    std::optional<size_t>* column = names[i] == "text"        ? &columns.text
                                    : names[i] == "text_pair" ? &columns.text_pair
                                    : is_label(names[i])      ? &columns.label
                                                              : nullptr;
    std::string_view advice = problem_type_advice(names[i], label);
    if (advice.empty()) advice = kWordAdvice;
    require(column != nullptr, "{}: column {} is {}, but {}{}", lines.where(), i + 1,
            quote(names[i]), header_advice(names.size(), labels), labels == nullptr ? "" : advice);
    require(!*column, "{}: the column {} appears twice", lines.where(), names[i]);
    *column = i;
  }
  require(columns.text && (columns.label || labels == nullptr), "{}: there is no column {}, but {}",
          lines.where(), columns.text ? label : "text", header_advice(names.size(), labels));
  return columns;
}

void read_tsv(LineReader& lines, TextLabels* labels,
              const std::function<void(const LabeledLine&)>& visit) {
  if (!lines.next()) return;
  const Columns columns = read_header(lines, labels);
  while (lines.next()) {
    const std::string where = lines.where();
    const std::vector<std::string_view> fields = split(lines.line(), '\t');
    require(
        fields.size() == columns.count,
        "{}: the number of columns is {}, but line 1 names {}: write a tab between columns, and "
        "none in a text",
        where, fields.size(), columns.count);
    LabeledLine line{lines.number(), fields[*columns.text]};
    if (labels != nullptr) labels->of_column(fields[*columns.label], where, line);
    if (columns.text_pair) line.text_pair = fields[*columns.text_pair];
    visit(line);
  }
}

void read_texts(LineReader& lines, const std::function<void(const LabeledLine&)>& visit) {
  while (lines.next()) {
    LabeledLine line;
    line.number = lines.number();
    line.text = lines.line();
    visit(line);
  }
}

void read_file(const std::string& path, TextLabels* labels,
               const std::function<void(const LabeledLine&)>& visit) {
  const MappedFile file(path);
  LineReader lines(file);
  if (path.ends_with(".jsonl")) {
    read_jsonl(lines, labels, visit);
  } else if (path.ends_with(".tsv")) {
    read_tsv(lines, labels, visit);
  } else {
    read_texts(lines, visit);
  }
}

void require_labeled_file(const std::string& path) {
  require(is_labeled_file(path),
          "{}: a file of labeled texts must have a name that ends in .jsonl or .tsv", path);
}

}  // namespace

bool is_labeled_file(std::string_view path) {
  return path.ends_with(".jsonl") || path.ends_with(".tsv");
}

void for_each_labeled_line(const std::string& path, const Labels& labels,
                           const std::function<void(const LabeledLine&)>& visit) {
  require_labeled_file(path);
  KnownLabels known(labels);
  TextLabels of_text(known, labels.problem_type, labels.count);
  read_file(path, &of_text, visit);
}

void for_each_text_line(const std::string& path,
                        const std::function<void(const LabeledLine&)>& visit) {
  require(is_labeled_file(path) || path.ends_with(".txt"),
          "{}: a file of texts must have a name that ends in .jsonl, .tsv or .txt", path);
  read_file(path, nullptr, visit);
}

Labels find_labels(std::span<const std::string> paths, ProblemType type,
                   std::optional<int64_t> count) {
  FoundLabels found;
  TextLabels of_text(found, type, 0);
  bool has_lines = false;
  for (const std::string& path : paths) {
    require_labeled_file(path);
    read_file(path, &of_text, [&](const LabeledLine&) { has_lines = true; });
  }
  require(has_lines, "{}: there is no text", fmt::join(paths, ", "));
  Labels labels = found.labels(count);
  labels.problem_type = type;
  require(labels.count >= 2, "{}: {}, but classification needs two labels", fmt::join(paths, ", "),
          labels.count == 1 ? "all texts have the same label" : "no text has a label");
  return labels;
}

}  // namespace tessera
