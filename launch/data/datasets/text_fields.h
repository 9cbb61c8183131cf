#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The texts that each line of a file has, by name. All are strings.
struct TextFields {
  std::span<const std::string_view> names;  ///< the required ones first
  size_t required;
  std::string_view allowed;  ///< for messages: "anchor, positive and negative"
};

/// One line of a file of named texts.
struct TextRecord {
  int64_t number = 0;                                        ///< from 1, including a header
  std::span<const std::optional<std::string_view>> texts{};  ///< by place in TextFields::names
};

/// Calls `visit` for each line of a UTF-8 file of named texts, in order. The views are valid only
/// during the call. The file name's extension selects the format, as for labeled texts
/// (labeled_lines.h):
///
///     .jsonl   an object per line: {"source": "...", "target": "..."}
///     .tsv     a header line with the names as columns, in any order, separated by tabs; then one
///              record per line, without quoting
///
/// A text that is not required is in all lines or in none. Other fields or columns are errors, and
/// so are empty lines. Throws, naming file and line.
void for_each_text_record(const std::string& path, const TextFields& fields,
                          const std::function<void(const TextRecord&)>& visit);

/// Calls `visit` with the first text of each line, and the line's number: all of a line of a .txt
/// file, or the first of `fields` of a file as above. Throws as that does.
void for_each_first_text(const std::string& path, const TextFields& fields,
                         const std::function<void(std::string_view text, int64_t number)>& visit);

/// The names in the first line of a .jsonl or .tsv file; none if the file is of another type or
/// cannot be read, which its reader reports.
std::vector<std::string> text_field_names(const std::string& path);

}  // namespace tessera
