#include "launch/data/datasets/labeled_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <span>

#include "core/error.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

constexpr size_t kMaxLineBytes = size_t{16} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kKnown = "text, text_pair and label";

void check_labels(const Labels& labels) {
  require(labels.count >= 2, "there are {} labels, but classification needs at least 2",
          labels.count);
  if (labels.names.empty()) return;
  require(static_cast<int64_t>(labels.names.size()) == labels.count,
          "there are {} label names for {} labels", labels.names.size(), labels.count);
  for (auto name = labels.names.begin(); name != labels.names.end(); ++name) {
    require(std::find(labels.names.begin(), name, *name) == name,
            "the label name {} is given twice", quote(*name));
  }
}

/// "0 to 2", or the names.
std::string allowed(const Labels& labels) {
  constexpr size_t kShown = 20;
  if (labels.names.empty()) return fmt::format("an integer from 0 to {}", labels.count - 1);
  std::vector<std::string> shown;
  for (const std::string& name :
       std::span(labels.names).first(std::min(kShown, labels.names.size()))) {
    shown.push_back(quote(name));
  }
  if (labels.names.size() > kShown) {
    shown.push_back(fmt::format("and {} more", labels.names.size() - kShown));
  }
  return fmt::format("one of {}", fmt::join(shown, ", "));
}

[[noreturn]] void fail_label(std::string_view found, const Labels& labels,
                             const std::string& where) {
  fail("{}: the label is {}, but must be {}; {}", where, found, allowed(labels),
       labels.names.empty() ? "for names, list them in data.labels"
                            : "for numbers, set data.labels to null");
}

/// Converts the label of a line, as it stands in the file, to a class.
class LabelReader {
 public:
  virtual ~LabelReader() = default;
  virtual int32_t of_json(const Json& value, const std::string& where) = 0;
  virtual int32_t of_column(std::string_view text, const std::string& where) = 0;
};

/// An integer that is the whole text.
std::optional<int64_t> integer_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> integer_of(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

/// A JSON value for a message.
std::string shown(const Json& value) {
  constexpr size_t kShown = 200;
  return value.dump(-1, ' ', /*ensure_ascii=*/true).substr(0, kShown);
}

/// Accepts the labels of a configuration.
class KnownLabels final : public LabelReader {
 public:
  explicit KnownLabels(const Labels& labels) : labels_(labels) { check_labels(labels); }

  int32_t of_json(const Json& value, const std::string& where) override {
    if (!labels_.names.empty() && value.is_string()) {
      return of_name(value.get_ref<const std::string&>(), where);
    }
    const std::optional<int64_t> number = integer_of(value);
    if (!labels_.names.empty() || !number) fail_label(shown(value), labels_, where);
    return of_number(*number, where);
  }

  int32_t of_column(std::string_view text, const std::string& where) override {
    if (!labels_.names.empty()) return of_name(text, where);
    const std::optional<int64_t> number = integer_of(text);
    if (!number) fail_label(quote(text), labels_, where);
    return of_number(*number, where);
  }

 private:
  int32_t of_name(std::string_view name, const std::string& where) const {
    const auto found = std::ranges::find(labels_.names, name);
    if (found == labels_.names.end()) fail_label(quote(name), labels_, where);
    return static_cast<int32_t>(found - labels_.names.begin());
  }

  int32_t of_number(int64_t number, const std::string& where) const {
    if (number < 0 || number >= labels_.count) {
      fail_label(fmt::to_string(number), labels_, where);
    }
    return static_cast<int32_t>(number);
  }

  const Labels& labels_;
};

/// Collects the labels of files.
class FoundLabels final : public LabelReader {
 public:
  int32_t of_json(const Json& value, const std::string& where) override {
    const std::optional<int64_t> number = integer_of(value);
    require(value.is_string() || (number && *number >= 0),
            "{}: the label is {}, but must be a name or an integer from 0", where, shown(value));
    json_numbers_ = json_numbers_ || number;
    json_names_ = json_names_ || value.is_string();
    require(!json_numbers_ || !json_names_,
            "{}: the label is {}, but earlier lines have {}: use one of the two", where,
            shown(value), number ? "names" : "numbers");
    if (number) {
      numbers_.insert(*number);
    } else {
      names_.insert(value.get<std::string>());
    }
    return 0;
  }

  int32_t of_column(std::string_view text, const std::string& /*where*/) override {
    names_.emplace(text);
    return 0;
  }

  Labels labels(std::optional<int64_t> count) const {
    if (json_numbers_) return {count.value_or(*numbers_.rbegin() + 1)};
    const auto found = static_cast<int64_t>(names_.size());
    if (!json_names_ && is_numbered(count.has_value())) return {count.value_or(found)};
    return {found, {names_.begin(), names_.end()}};
  }

 private:
  /// Whether the names are integers: any, or exactly 0, 1, 2, …
  bool is_numbered(bool any) const {
    if (any) {
      return std::ranges::all_of(
          names_, [](std::string_view name) { return integer_of(name).has_value(); });
    }
    int64_t expected = 0;
    while (names_.contains(fmt::to_string(expected))) ++expected;
    return expected == static_cast<int64_t>(names_.size());
  }

  bool json_numbers_ = false, json_names_ = false;
  std::set<int64_t> numbers_;
  std::set<std::string, std::less<>> names_;
};

/// Reads the lines of a file without their line ends and counts them from 1.
class LineReader {
 public:
  explicit LineReader(const MappedFile& file) : path_(file.path()), rest_(file.text()) {
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  }

  /// Advances; returns false after the last line.
  bool next() {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    ++number_;
    require(line_.size() <= kMaxLineBytes, "{}: has {} bytes, but a line has at most {}", where(),
            line_.size(), kMaxLineBytes);
    require(!line_.empty(), "{}: the line is empty: remove it", where());
    return true;
  }

  std::string_view line() const { return line_; }
  int64_t number() const { return number_; }
  std::string where() const { return fmt::format("{}:{}", path_, number_); }

 private:
  std::string path_;
  std::string_view rest_, line_;
  int64_t number_ = 0;
};

std::string_view json_text(const Json& object, const char* key, const std::string& where) {
  const Json& value = object.at(key);
  require(value.is_string(), "{}: \"{}\" must be a string, but is a {}", where, key,
          value.type_name());
  return value.get_ref<const std::string&>();
}

void read_jsonl(LineReader& lines, LabelReader& labels,
                const std::function<void(const LabeledLine&)>& visit) {
  bool pairs = false;
  while (lines.next()) {
    const std::string where = lines.where();
    const std::string_view text = lines.line();
    const size_t first = text.find_first_not_of(" \t");
    require(first != std::string_view::npos && text[first] == '{',
            "{}: must be one object with {}, from {{ to }} on one line", where, kKnown);
    const Json object = parse_json(text, where);
    for (const auto& [key, value] : object.items()) {
      require(key == "text" || key == "text_pair" || key == "label",
              "{}: has a field {}, but only {} are allowed", where, quote(key), kKnown);
    }
    for (const char* key : {"text", "label"}) {
      require(object.contains(key), "{}: there is no \"{}\"", where, key);
    }
    const bool has_pair = object.contains("text_pair");
    if (lines.number() == 1) pairs = has_pair;
    require(has_pair == pairs,
            "{}: there is {} \"text_pair\", unlike in line 1: all lines must have it, or none",
            where, has_pair ? "a" : "no");
    LabeledLine line{lines.number(), json_text(object, "text", where), std::nullopt,
                     labels.of_json(object.at("label"), where)};
    if (pairs) line.text_pair = json_text(object, "text_pair", where);
    visit(line);
  }
}

std::vector<std::string_view> split_at_tabs(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

/// The columns of a .tsv file.
struct Columns {
  size_t count = 0;
  std::optional<size_t> text, text_pair, label;
};

/// The line that names `columns` columns, in the order most files have.
std::string header_advice(size_t columns) {
  return fmt::format(
      "the first line must name the columns text and label, and text_pair for pairs; if there is "
      "no "
      "such line, add \"{}\" at the top, where \\t is a tab, in the order of the columns",
      columns == 3 ? "text\\ttext_pair\\tlabel" : "text\\tlabel");
}

Columns read_header(const LineReader& lines) {
  const std::vector<std::string_view> names = split_at_tabs(lines.line());
  Columns columns;
  columns.count = names.size();
  for (size_t i = 0; i < names.size(); ++i) {
    std::optional<size_t>* column = names[i] == "text"        ? &columns.text
                                    : names[i] == "text_pair" ? &columns.text_pair
                                    : names[i] == "label"     ? &columns.label
                                                              : nullptr;
    require(column != nullptr, "{}: column {} is {}, but {}", lines.where(), i + 1, quote(names[i]),
            header_advice(names.size()));
    require(!*column, "{}: the column {} appears twice", lines.where(), names[i]);
    *column = i;
  }
  require(columns.text && columns.label, "{}: there is no column {}, but {}", lines.where(),
          columns.text ? "label" : "text", header_advice(names.size()));
  return columns;
}

void read_tsv(LineReader& lines, LabelReader& labels,
              const std::function<void(const LabeledLine&)>& visit) {
  if (!lines.next()) return;
  const Columns columns = read_header(lines);
  while (lines.next()) {
    const std::string where = lines.where();
    const std::vector<std::string_view> fields = split_at_tabs(lines.line());
    require(fields.size() == columns.count,
            "{}: there are {} columns, but line 1 names {}: text must have no tabs", where,
            fields.size(), columns.count);
    LabeledLine line{lines.number(), fields[*columns.text], std::nullopt,
                     labels.of_column(fields[*columns.label], where)};
    if (columns.text_pair) line.text_pair = fields[*columns.text_pair];
    visit(line);
  }
}

void read_file(const std::string& path, LabelReader& labels,
               const std::function<void(const LabeledLine&)>& visit) {
  require(is_labeled_file(path),
          "{}: a file of labeled texts must have a name that ends in .jsonl or .tsv", path);
  const MappedFile file(path);
  LineReader lines(file);
  if (path.ends_with(".jsonl")) {
    read_jsonl(lines, labels, visit);
  } else {
    read_tsv(lines, labels, visit);
  }
}

}  // namespace

bool is_labeled_file(std::string_view path) {
  return path.ends_with(".jsonl") || path.ends_with(".tsv");
}

void for_each_labeled_line(const std::string& path, const Labels& labels,
                           const std::function<void(const LabeledLine&)>& visit) {
  KnownLabels known(labels);
  read_file(path, known, visit);
}

Labels find_labels(std::span<const std::string> paths, std::optional<int64_t> count) {
  FoundLabels found;
  bool has_lines = false;
  for (const std::string& path : paths) {
    read_file(path, found, [&](const LabeledLine&) { has_lines = true; });
  }
  require(has_lines, "{}: there is no text", fmt::join(paths, ", "));
  Labels labels = found.labels(count);
  require(labels.count >= 2, "{}: all texts have the same label, but classification needs two",
          fmt::join(paths, ", "));
  return labels;
}

}  // namespace tessera
