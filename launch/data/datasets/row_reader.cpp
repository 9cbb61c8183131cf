#include "launch/data/datasets/row_reader.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "launch/config/values/source_text.h"
#include "launch/support/files/piece_reader.h"
#include "launch/support/input/json_lines.h"

namespace tessera {
namespace {

constexpr std::string_view kJsonSpace = " \t\r\n";

std::string_view after_mark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

/// The end of the value at the start of `text`, which is an object or invalid.
size_t end_of_object(std::string_view text) {
  int64_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else {
      in_string = c == '"';
      depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      if (depth == 0) return i + 1;
    }
  }
  return text.size();
}

/// Whether a cell is a text in quotation marks that has doubled ones, which only a program that
/// quotes cells writes.
bool is_quoted(std::string_view cell) {
  if (cell.size() < 4 || cell.front() != '"' || cell.back() != '"') return false;
  cell = cell.substr(1, cell.size() - 2);
  size_t quotes = 0;
  for (size_t i = cell.find('"'); i < cell.size(); i = cell.find('"', i + 2), ++quotes) {
    if (i + 1 >= cell.size() || cell[i + 1] != '"') return false;
  }
  return quotes > 0;
}

}  // namespace

bool has_columns(std::string_view path) {
  return has_json_rows(path) || path.ends_with(".csv") || path.ends_with(".tsv");
}

RowReader::RowReader(const std::string& path, RowFormat format, const RowOptions& options)
    : path_(path),
      format_(std::move(format)),
      options_(options),
      file_(path),
      lines_(file_),
      rest_(after_mark(file_.text())),
      is_json_(has_json_rows(path)) {
  require(has_columns(path), "{}: the name must end in .jsonl, .json, .csv or .tsv", path);
  for (const auto* names : {&format_.required, &format_.optional, &format_.in_some}) {
    known_.insert(known_.end(), names->begin(), names->end());
  }
  for (const auto& [name, in_file] : options.columns) {
    require(std::ranges::find(known_, name) != known_.end(),
            "{}: data.columns names the column {}, but the columns are {}", path, name,
            fmt::join(known_, ", "));
  }
  if (!is_json_) return;
  const size_t first = rest_.find_first_not_of(kJsonSpace);
  in_list_ = first < rest_.size() && rest_[first] == '[';
  if (!in_list_) return;
  require(path.ends_with(".json"),
          "{}: has a list, but a .jsonl file has an object on each line: give it a name in .json",
          path);
  line_ += std::count(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(first), '\n');
  rest_.remove_prefix(first + 1);
}

bool RowReader::next() {
  if (!is_json_ && header_.empty()) read_header();
  if (is_json_ ? !read_object() : header_.empty() || !read_cells(cells_)) {
    add_note();
    return false;
  }
  if (!is_json_) {
    require(cells_.size() == header_.size(),
            "{}: the number of columns is {}, but line 1 names {}: {}", where_, cells_.size(),
            header_.size(),
            path_.ends_with(".csv")
                ? "write quotation marks around a text with commas or line ends"
                : "write a tab between columns and none in a text, or a .csv file with quotes");
  }
  ++rows_;
  if (is_json_) check_columns();
  return true;
}

void RowReader::read_header() {
  if (!read_cells(header_)) return;
  for (const std::string& name : header_) {
    const auto twice = std::ranges::count(header_, name);
    require(twice == 1, "{}: the column {} appears twice", where_, quote(name));
  }
  check_columns();
}

std::string_view RowReader::name_in_file(std::string_view name) const {
  const auto found = options_.columns.find(name);
  return found == options_.columns.end() ? name : std::string_view(found->second);
}

std::optional<size_t> RowReader::column_of(std::string_view name) const {
  const auto found = std::ranges::find(header_, name_in_file(name));
  if (found == header_.end()) return std::nullopt;
  return static_cast<size_t>(found - header_.begin());
}

bool RowReader::has(std::string_view name) const {
  return is_json_ ? object_.contains(name_in_file(name)) : column_of(name).has_value();
}

std::string_view RowReader::text(std::string_view name) const {
  if (!is_json_) return cells_[*column_of(name)];
  const Json& value = *json(name);
  require(value.is_string(), "{}: \"{}\" must be a string, but is {}", where_, name_in_file(name),
          json_type(value));
  return value.get_ref<const std::string&>();
}

const Json* RowReader::json(std::string_view name) const {
  return is_json_ ? &*object_.find(name_in_file(name)) : nullptr;
}

std::vector<std::string_view> RowReader::names() const {
  std::vector<std::string_view> names(header_.begin(), header_.end());
  for (const auto& item : object_.items()) names.push_back(item.key());
  return names;
}

/// Checks an object, or the header.
void RowReader::check_columns() {
  const std::string_view kind = is_json_ ? "field" : "column";
  const auto is_missing = [&](std::string_view name) { return !has(name); };
  if (const auto missing = std::ranges::find_if(format_.required, is_missing);
      missing != format_.required.end()) {
    const std::vector<std::string_view> all = names();
    std::vector<std::string> found;
    for (const std::string_view name : all) {
      if (found.size() < 8) found.push_back(quote(excerpt(name, 60)));
    }
    std::string advice = fmt::format(
        ": if a {0} of another name is meant, set data.columns={{{1}: NAME}}, or pass --columns "
        "{1}=NAME to a command that predicts",
        kind, *missing);
    for (const auto& [name, text] : format_.advice) {
      if (std::ranges::find(all, name) != all.end()) advice = fmt::format(" ({})", text);
    }
    if (!is_json_ && header_.size() == 1 && header_[0].find_first_of(";\t,") != std::string::npos) {
      advice = fmt::format(": separate columns by {}",
                           path_.ends_with(".csv") ? "commas" : "tabs, or name the file .csv");
    }
    fail("{}: there is no {} {}, but {}{}{}", where_, kind, quote(name_in_file(*missing)),
         found.empty() ? "nothing" : fmt::format("{}", fmt::join(found, ", ")),
         is_json_ || header_.size() == 1 ? "" : "; the first line must name the columns", advice);
  }
  for (const std::string_view name : format_.optional) {
    const bool is_there = has(name);
    require(is_there || !options_.columns.contains(name),
            "{}: there is no {} {}, which data.columns names", where_, kind,
            quote(name_in_file(name)));
    if (rows_ <= 1 && is_there) present_.insert(name);
    require(is_there == present_.contains(name),
            "{}: there is {} {}, unlike in the first row: all rows must have it, or none", where_,
            is_there ? "a" : "no", quote(name_in_file(name)));
  }
  for (const std::string_view name : names()) {
    const auto is_it = [&](std::string_view known) { return name_in_file(known) == name; };
    if (std::ranges::none_of(known_, is_it) && not_read_.size() < 20) not_read_.emplace(name);
  }
}

void RowReader::add_note() {
  if (options_.notes == nullptr || not_read_.empty()) return;
  std::vector<std::string> shown;
  for (const std::string& name : not_read_) shown.push_back(quote(excerpt(name, 60)));
  const bool one = shown.size() == 1;
  options_.notes->push_back(fmt::format("{}: the {}{} {} {} not read", path_,
                                        is_json_ ? "field" : "column", one ? "" : "s",
                                        fmt::join(shown, ", "), one ? "is" : "are"));
  not_read_.clear();
}

bool RowReader::read_cells(Cells& cells) {
  if (path_.ends_with(".csv")) return read_csv(cells);
  if (!lines_.next()) return false;
  number_ = lines_.number();
  where_ = lines_.where();
  read_tsv(cells);
  return true;
}

void RowReader::read_tsv(Cells& cells) const {
  cells.clear();
  for (const std::string_view cell : split(lines_.line(), '\t')) {
    require(!is_quoted(cell),
            "{}: column {} is {}, in quotes, which a .tsv file does not have: write it without "
            "(quoting=csv.QUOTE_NONE), or as a .csv file",
            where_, cells.size() + 1, quote(excerpt(cell, 60)));
    cells.emplace_back(cell);
  }
}

bool RowReader::read_csv(Cells& cells) {
  if (rest_.empty()) return false;
  cells.assign(1, "");
  number_ = line_;
  where_ = fmt::format("{}:{}", path_, number_);
  bool in_quotes = false, was_quoted = false;
  size_t i = 0;
  for (; i < rest_.size(); ++i) {
    const char c = rest_[i];
    require(i < kMaxLineBytes, "{}: a row has at most {} bytes{}", where_, kMaxLineBytes,
            in_quotes ? ": the quotation mark at the start of a text has no second one" : "");
    line_ += c == '\n' ? 1 : 0;
    if (in_quotes) {
      if (c != '"') {
        cells.back() += c;
      } else if (i + 1 < rest_.size() && rest_[i + 1] == '"') {
        cells.back() += rest_[++i];
      } else {
        in_quotes = false;
      }
    } else if (c == ',') {
      cells.emplace_back();
      was_quoted = false;
    } else if (c == '\n') {
      break;
    } else if (c == '\r' && (i + 1 == rest_.size() || rest_[i + 1] == '\n')) {
      continue;
    } else if (c == '"' && cells.back().empty() && !was_quoted) {
      in_quotes = was_quoted = true;
    } else {
      require(!was_quoted,
              "{}: column {} has text after its quotation marks: double those within a text",
              where_, cells.size());
      cells.back() += c;
    }
  }
  require(!in_quotes, "{}: the quotation mark at the start of column {} has no second one", where_,
          cells.size());
  require(i > 0 && rest_.substr(0, i) != "\r", "{}: the line is empty: remove it", where_);
  rest_.remove_prefix(std::min(i + 1, rest_.size()));
  return true;
}

bool RowReader::read_object() {
  if (in_list_) return read_list_item();
  if (!lines_.next()) return false;
  number_ = lines_.number();
  where_ = lines_.where();
  json_text_ = lines_.line();
  const std::vector<std::string_view>& known = format_.required;
  object_ =
      parse_json_line(lines_, known.empty() ? "fields" : fmt::format("{}", fmt::join(known, ", ")));
  return true;
}

/// Advances in "{...}, {...}]".
bool RowReader::read_list_item() {
  const auto skip = [&](size_t count) {
    line_ += std::count(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(count), '\n');
    rest_.remove_prefix(count);
  };
  const auto skip_space = [&] {
    skip(std::min(rest_.find_first_not_of(kJsonSpace), rest_.size()));
    where_ = fmt::format("{}:{}", path_, line_);
  };
  skip_space();
  const bool ends = rest_.starts_with(']');
  if (!ends && number_ > 0) {
    require(rest_.starts_with(','), "{}: a comma or ] must follow an object of the list", where_);
    skip(1);
    skip_space();
  }
  if (ends) {
    skip(1);
    skip_space();
    require(rest_.empty(), "{}: nothing may follow the list", where_);
    rest_ = "]";  // for another call
    return false;
  }
  require(rest_.starts_with('{'), "{}: the list must have objects, from {{ to }}, and end with ]",
          where_);
  number_ = line_;
  const size_t end = end_of_object(rest_);
  require(end <= kMaxLineBytes, "{}: an object has at most {} bytes", where_, kMaxLineBytes);
  json_text_ = rest_.substr(0, end);
  object_ = parse_json(json_text_, where_);
  skip(end);
  return true;
}

void for_each_txt_line(const std::string& path, const RowOptions& options,
                       const std::function<void(std::string_view text, int64_t number)>& visit) {
  require(options.columns.empty(), "{}: names of columns are given, but a .txt file has none",
          path);
  const MappedFile file(path);
  LineReader lines(file);
  while (lines.next()) visit(lines.line(), lines.number());
}

Json first_row(const std::string& path, const ColumnNames& columns) {
  if (!has_columns(path)) return {};
  try {
    RowReader reader(path, {});
    reader.next();
    Json row = Json::object();
    for (const std::string_view name : reader.names()) {
      const auto ours =
          std::ranges::find(columns, name, [](const auto& item) { return item.second; });
      const Json* value = reader.json(name);
      if (ours == columns.end() && columns.contains(name)) continue;
      row[ours == columns.end() ? std::string(name) : ours->first] = value ? *value : Json("");
    }
    return row;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace tessera
