#include "launch/data/datasets/line_reader.h"

#include <algorithm>

#include "core/error.h"
#include "launch/support/files/piece_reader.h"
#include "launch/support/files/replace.h"

namespace tessera {

LineReader::LineReader(const MappedFile& file, EmptyLines empty)
    : path_(file.path()), empty_(empty), rest_(file.text()) {
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  remember_input(path_);
}

bool LineReader::next() {
  if (rest_.empty()) return false;
  // A sparse file may have no line end for terabytes: search no further than a line may go.
  const std::string_view near = rest_.substr(0, kMaxLineBytes + 2);
  const size_t end = std::min(near.find('\n'), near.size());
  line_ = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  if (line_.ends_with('\r')) line_.remove_suffix(1);
  ++number_;
  require(line_.size() <= kMaxLineBytes, "{}: has more than {} bytes, the most of a line", where(),
          kMaxLineBytes);
  require(empty_ == EmptyLines::allowed || !line_.empty(), "{}: the line is empty: remove it",
          where());
  return true;
}

std::string LineReader::where() const { return fmt::format("{}:{}", path_, number_); }

Json parse_json_line(const LineReader& lines, std::string_view known) {
  const std::string_view text = lines.line();
  const size_t first = text.find_first_not_of(" \t");
  require(first != std::string_view::npos && text[first] == '{',
          "{}: must be one object with {}, from {{ to }} on one line", lines.where(), known);
  return parse_json(text, lines.where());
}

std::vector<std::string_view> split(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t end = line.find(separator);
    fields.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

}  // namespace tessera
