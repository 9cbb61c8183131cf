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
#include "launch/support/text/number_text.h"

namespace tessera {
namespace {

/// The column of a text's labels.
std::string_view label_field(ProblemType type) {
  return type == ProblemType::multi_label_classification ? "labels" : "label";
}

RowFormat format_of(ProblemType type) {
  constexpr std::string_view kTuples = "for embeddings of texts, set model.head to embedding";
  constexpr std::string_view kWords =
      "for a label of each word, set model.head to token_classification";
  const bool several = type == ProblemType::multi_label_classification;
  return {{"text", label_field(type)},
          {"text_pair"},
          {{several ? "label" : "labels",
            several ? "model.problem_type is multi_label_classification"
                    : "for several labels per text, set model.problem_type to "
                      "multi_label_classification"},
           {"anchor", kTuples},
           {"positive", kTuples},
           {"tokens", kWords},
           {"tags", kWords}}};
}

/// The labels of a text as a list: in JSON, or as texts of a column that separates them by |.
Json list_of_labels(const RowReader& rows) {
  if (const Json* value = rows.json("labels")) {
    require(value->is_array(), "{}: \"labels\" is {}, but must be a list, as in [\"a\", \"b\"]",
            rows.where(), shown(*value));
    return *value;
  }
  const std::string_view text = rows.text("labels");
  if (text.starts_with('[')) return parse_json(text, rows.where() + ": the labels");
  Json list = Json::array();
  if (text.empty()) return list;
  for (const std::string_view label : split(text, '|')) {
    require(!label.empty(),
            "{}: the labels are {}, and one of them is empty: separate labels by one |",
            rows.where(), quote(text));
    list.push_back(label);
  }
  return list;
}

/// 1 or 0 if an entry of a list of labels may say whether the text has a label.
std::optional<float> hot(const Json& entry) {
  if (entry.is_boolean()) return entry.get<bool>() ? 1.0f : 0.0f;
  if (entry == 0 || entry == "0") return 0.0f;
  if (entry == 1 || entry == "1") return 1.0f;
  return std::nullopt;
}

/// The length of a file's lists if they are multi-hot; otherwise 0. As lists of labels they would
/// repeat labels, or give all of them to all texts. `count` is that of the labels, or 0.
size_t multi_hot_length(const std::string& path, size_t count, const RowOptions& options) {
  size_t length = 0;
  RowReader rows(path, format_of(ProblemType::multi_label_classification), {options.columns});
  while (rows.next()) {
    const Json list = list_of_labels(rows);
    if (length == 0) length = list.size();
    const bool is_hot = list.size() == length && list.size() >= 2 &&
                        std::ranges::all_of(list, [](const Json& x) { return hot(x).has_value(); });
    if (!is_hot || (count > 0 && count != length)) return 0;
  }
  return length;
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

  void start_file(const std::string& path, const RowOptions& options) {
    if (type_ != ProblemType::multi_label_classification) return;
    hot_length_ = multi_hot_length(path, values_.size(), options);
    if (hot_length_ == 0 || options.notes == nullptr) return;
    options.notes->push_back(fmt::format(
        "{}: the labels are multi-hot: 1 or 0 for each of {} labels", path, hot_length_));
  }

  void read(const RowReader& rows, LabeledLine& line) {
    const std::string& where = rows.where();
    if (type_ == ProblemType::multi_label_classification) {
      read_list(list_of_labels(rows), rows.json("labels") != nullptr, where);
    } else if (const Json* value = rows.json("label")) {
      if (type_ == ProblemType::single_label_classification) {
        line.label = reader_.of_json(*value, where);
        return;
      }
      require(value->is_number(), "{}: the label is {}, but must be a number", where,
              shown(*value));
      set_number(value->get<double>(), shown(*value), where);
    } else {
      const std::string_view text = rows.text("label");
      if (type_ == ProblemType::single_label_classification) {
        require(!text.starts_with('['),
                "{}: the label is {}, a list: name the column labels, and set model.problem_type "
                "to multi_label_classification",
                where, quote(text));
        line.label = reader_.of_column(text, where);
        return;
      }
      const std::optional<double> number = parse_number(text);
      require(number.has_value(), "{}: the label is {}, but must be a number, as in 3.5 or -1e-2",
              where, quote(text));
      set_number(*number, quote(text), where);
    }
    line.values = values_;
  }

 private:
  void read_list(const Json& list, bool of_json, const std::string& where) {
    std::ranges::fill(values_, 0.0f);
    if (hot_length_ > 0) {
      reader_.of_multi_hot(hot_length_, where);
      for (size_t i = 0; i < values_.size(); ++i) values_[i] = *hot(list[i]);
      return;
    }
    std::set<std::string, std::less<>> found;
    for (const Json& label : list) {
      const auto number =
          static_cast<size_t>(of_json || !label.is_string()
                                  ? reader_.of_json(label, where)
                                  : reader_.of_column(label.get_ref<const std::string&>(), where));
      require(found.insert(shown(label)).second, "{}: the label {} is given twice", where,
              shown(label));
      if (number < values_.size()) values_[number] = 1.0f;
    }
  }

  void set_number(double number, std::string_view found, const std::string& where) {
    require(std::fabs(number) <= static_cast<double>(std::numeric_limits<float>::max()),
            "{}: the label is {}, which is beyond fp32's range", where, found);
    values_.assign(1, static_cast<float>(number));
  }

  LabelReader& reader_;
  ProblemType type_;
  size_t hot_length_ = 0;  ///< of the file's lists if they are multi-hot
  std::vector<float> values_;
};

/// Without `labels`, those in the file are not read and may be missing.
void read_file(const std::string& path, TextLabels* labels, const RowOptions& options,
               const std::function<void(const LabeledLine&)>& visit) {
  if (labels != nullptr) labels->start_file(path, options);
  RowReader rows(path,
                 labels != nullptr ? format_of(labels->type()) : RowFormat{{"text"}, {"text_pair"}},
                 options);
  while (rows.next()) {
    LabeledLine line{rows.number(), rows.text("text")};
    if (labels != nullptr) labels->read(rows, line);
    if (rows.has("text_pair")) line.text_pair = rows.text("text_pair");
    visit(line);
  }
}

}  // namespace

void for_each_labeled_line(const std::string& path, const Labels& labels,
                           const std::function<void(const LabeledLine&)>& visit,
                           const RowOptions& options) {
  KnownLabels known(labels);
  TextLabels of_text(known, labels.problem_type, labels.count);
  read_file(path, &of_text, options, visit);
}

void for_each_unlabeled_line(const std::string& path,
                             const std::function<void(const LabeledLine&)>& visit,
                             const RowOptions& options) {
  if (!path.ends_with(".txt")) return read_file(path, nullptr, options, visit);
  for_each_txt_line(path, options, [&](std::string_view text, int64_t number) {
    visit({number, text});
  });
}

Labels find_labels(std::span<const std::string> paths, ProblemType type,
                   std::optional<int64_t> count, const RowOptions& options) {
  FoundLabels found;
  TextLabels of_text(found, type, 0);
  bool has_lines = false;
  for (const std::string& path : paths) {
    read_file(path, &of_text, {options.columns}, [&](const LabeledLine&) { has_lines = true; });
  }
  require(has_lines, "{}: there is no text", fmt::join(paths, ", "));
  Labels labels = found.labels(count);
  labels.problem_type = type;
  require(labels.count >= 2, "{}: {}, but classification needs two labels", fmt::join(paths, ", "),
          labels.count == 1 ? "all texts have the same label" : "no text has a label");
  return labels;
}

}  // namespace tessera
