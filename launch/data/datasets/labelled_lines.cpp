#include "launch/data/datasets/labelled_lines.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
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

int32_t label_of_name(std::string_view name, const Labels& labels, const std::string& where) {
  const auto found = std::ranges::find(labels.names, name);
  if (found == labels.names.end()) fail_label(quote(name), labels, where);
  return static_cast<int32_t>(found - labels.names.begin());
}

int32_t label_of_number(int64_t number, const Labels& labels, const std::string& where) {
  if (number < 0 || number >= labels.count) fail_label(fmt::to_string(number), labels, where);
  return static_cast<int32_t>(number);
}

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

int32_t json_label(const Json& value, const Labels& labels, const std::string& where) {
  if (!labels.names.empty() && value.is_string()) {
    return label_of_name(value.get_ref<const std::string&>(), labels, where);
  }
  if (labels.names.empty() && value.is_number_integer()) {
    const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
    if (!huge) return label_of_number(value.get<int64_t>(), labels, where);
  }
  constexpr size_t kShown = 200;
  fail_label(value.dump(-1, ' ', /*ensure_ascii=*/true).substr(0, kShown), labels, where);
}

void read_jsonl(LineReader& lines, const Labels& labels,
                const std::function<void(const LabelledLine&)>& visit) {
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
    require(
        has_pair == pairs,
        "{}: there is {} \"text_pair\", unlike in line 1: either all lines must have it or none",
        where, has_pair ? "a" : "no");
    LabelledLine line{lines.number(), json_text(object, "text", where), std::nullopt,
                      json_label(object.at("label"), labels, where)};
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

Columns read_header(const LineReader& lines) {
  const std::vector<std::string_view> names = split_at_tabs(lines.line());
  Columns columns;
  columns.count = names.size();
  for (size_t i = 0; i < names.size(); ++i) {
    std::optional<size_t>* column = names[i] == "text"        ? &columns.text
                                    : names[i] == "text_pair" ? &columns.text_pair
                                    : names[i] == "label"     ? &columns.label
                                                              : nullptr;
    require(column != nullptr,
            "{}: the first line must name the columns, {} separated by tabs (text_pair may be "
            "missing), but column {} is {}",
            lines.where(), kKnown, i + 1, quote(names[i]));
    require(!*column, "{}: the column {} appears twice", lines.where(), names[i]);
    *column = i;
  }
  require(columns.text && columns.label,
          "{}: there is no column {}: the first line must name the columns, {} separated by tabs "
          "(text_pair may be missing)",
          lines.where(), columns.text ? "label" : "text", kKnown);
  return columns;
}

int32_t tsv_label(std::string_view field, const Labels& labels, const std::string& where) {
  if (!labels.names.empty()) return label_of_name(field, labels, where);
  int64_t number = -1;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  const bool whole = error == std::errc() && end == field.data() + field.size();
  if (!whole) fail_label(quote(field), labels, where);
  return label_of_number(number, labels, where);
}

void read_tsv(LineReader& lines, const Labels& labels,
              const std::function<void(const LabelledLine&)>& visit) {
  if (!lines.next()) return;
  const Columns columns = read_header(lines);
  while (lines.next()) {
    const std::string where = lines.where();
    const std::vector<std::string_view> fields = split_at_tabs(lines.line());
    require(fields.size() == columns.count,
            "{}: there are {} columns, but line 1 names {}: text must have no tabs", where,
            fields.size(), columns.count);
    LabelledLine line{lines.number(), fields[*columns.text], std::nullopt,
                      tsv_label(fields[*columns.label], labels, where)};
    if (columns.text_pair) line.text_pair = fields[*columns.text_pair];
    visit(line);
  }
}

}  // namespace

void for_each_labelled_line(const std::string& path, const Labels& labels,
                            const std::function<void(const LabelledLine&)>& visit) {
  check_labels(labels);
  const bool jsonl = path.ends_with(".jsonl");
  require(jsonl || path.ends_with(".tsv"),
          "{}: a file of labelled texts must have a name that ends in .jsonl or .tsv", path);
  const MappedFile file(path);
  LineReader lines(file);
  if (jsonl) {
    read_jsonl(lines, labels, visit);
  } else {
    read_tsv(lines, labels, visit);
  }
}

}  // namespace tessera
