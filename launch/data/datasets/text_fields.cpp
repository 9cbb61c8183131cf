#include "launch/data/datasets/text_fields.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "launch/data/datasets/labeled_lines.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

using Texts = std::vector<std::optional<std::string_view>>;

void read_jsonl(LineReader& lines, const TextFields& fields,
                const std::function<void(const TextRecord&)>& visit) {
  std::vector<bool> in_first_line(fields.names.size());
  while (lines.next()) {
    const std::string where = lines.where();
    const Json object = parse_json_line(lines, fields.allowed);
    for (const auto& [key, value] : object.items()) {
      require(std::ranges::find(fields.names, key) != fields.names.end(),
              "{}: has a field {}, but only {} are allowed", where, quote(key), fields.allowed);
      require(value.is_string(), "{}: \"{}\" must be a string, but is {}", where, key,
              json_type(value));
    }
    Texts texts(fields.names.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string_view name = fields.names[i];
      const auto found = object.find(name);
      if (found != object.end()) texts[i] = found->get_ref<const std::string&>();
      require(texts[i] || i >= fields.required, "{}: there is no \"{}\"", where, name);
      if (lines.number() == 1) in_first_line[i] = texts[i].has_value();
      require(texts[i].has_value() == in_first_line[i],
              "{}: there is {} \"{}\", unlike in line 1: all lines must have it, or none", where,
              in_first_line[i] ? "no" : "a", name);
    }
    visit({lines.number(), texts});
  }
}

/// For each column, its place in the names.
std::vector<size_t> read_text_header(const LineReader& lines, const TextFields& fields) {
  const auto required = fields.names.first(fields.required);
  const auto optional = fields.names.subspan(fields.required);
  std::vector<size_t> places;
  for (const std::string_view name : split(lines.line(), '\t')) {
    const auto known = std::ranges::find(fields.names, name);
    require(known != fields.names.end(),
            "{}: column {} is {}, but the first line must name the columns {}{}, separated by tabs",
            lines.where(), places.size() + 1, quote(name), fmt::join(required, " and "),
            optional.empty() ? "" : fmt::format(", and optionally {}", fmt::join(optional, ", ")));
    const auto place = static_cast<size_t>(known - fields.names.begin());
    require(std::ranges::find(places, place) == places.end(), "{}: the column {} appears twice",
            lines.where(), name);
    places.push_back(place);
  }
  for (size_t i = 0; i < required.size(); ++i) {
    require(std::ranges::find(places, i) != places.end(), "{}: there is no column {}",
            lines.where(), required[i]);
  }
  return places;
}

void read_tsv(LineReader& lines, const TextFields& fields,
              const std::function<void(const TextRecord&)>& visit) {
  if (!lines.next()) return;
  const std::vector<size_t> places = read_text_header(lines, fields);
  Texts texts(fields.names.size());
  while (lines.next()) {
    const std::vector<std::string_view> columns = split(lines.line(), '\t');
    require(
        columns.size() == places.size(),
        "{}: the number of columns is {}, but line 1 names {}: write a tab between columns, and "
        "none in a text",
        lines.where(), columns.size(), places.size());
    for (size_t i = 0; i < places.size(); ++i) texts[places[i]] = columns[i];
    visit({lines.number(), texts});
  }
}

}  // namespace

void for_each_text_record(const std::string& path, const TextFields& fields,
                          const std::function<void(const TextRecord&)>& visit) {
  require(is_labeled_file(path),
          "{}: a file with the texts {} must have a name that ends in .jsonl or .tsv", path,
          fields.allowed);
  const MappedFile file(path);
  LineReader lines(file);
  path.ends_with(".jsonl") ? read_jsonl(lines, fields, visit) : read_tsv(lines, fields, visit);
}

void for_each_first_text(const std::string& path, const TextFields& fields,
                         const std::function<void(std::string_view text, int64_t number)>& visit) {
  if (!path.ends_with(".txt")) {
    return for_each_text_record(
        path, fields, [&](const TextRecord& record) { visit(*record.texts[0], record.number); });
  }
  const MappedFile file(path);
  LineReader lines(file);
  while (lines.next()) visit(lines.line(), lines.number());
}

std::vector<std::string> text_field_names(const std::string& path) {
  std::vector<std::string> names;
  if (!is_labeled_file(path)) return names;
  if (path.ends_with(".jsonl")) {
    const Json object = first_json_line(path);
    for (const auto& item : object.items()) names.push_back(item.key());
    return names;
  }
  try {
    const MappedFile file(path);
    LineReader lines(file);
    if (!lines.next()) return names;
    for (const std::string_view name : split(lines.line(), '\t')) names.emplace_back(name);
  } catch (const Error&) {
    names.clear();
  }
  return names;
}

}  // namespace tessera
