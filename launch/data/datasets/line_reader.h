#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/support/files/mapped_file.h"
#include "launch/support/text/json.h"

namespace tessera {

/// The longest line of a file, and the longest text that is read as one.
inline constexpr size_t kMaxLineBytes = size_t{16} << 20;

/// Whether a file of lines may have empty ones.
enum class EmptyLines : uint8_t { allowed, errors };

/// Reads the lines of a UTF-8 file without their line ends and counts them from 1. Ignores a byte
/// order mark. Lines of more than 16 MiB are errors.
class LineReader {
 public:
  /// `file` must outlive this.
  explicit LineReader(const MappedFile& file, EmptyLines empty = EmptyLines::errors);

  /// Advances; returns false after the last line. Throws, naming file and line.
  bool next();

  std::string_view line() const { return line_; }
  int64_t number() const { return number_; }
  /// "data/texts.tsv:7", for messages.
  std::string where() const;

 private:
  std::string path_;
  EmptyLines empty_;
  std::string_view rest_, line_;
  int64_t number_ = 0;
};

/// Parses the line as one JSON object. Throws, naming the line and the fields `known`, if it is
/// something else.
Json parse_json_line(const LineReader& lines, std::string_view known);

/// The parts of a line between separators: one more than there are separators.
std::vector<std::string_view> split(std::string_view line, char separator);

}  // namespace tessera
