#pragma once

#include <string>
#include <string_view>

#include "launch/support/input/document_splitter.h"
#include "launch/support/input/text_part.h"

namespace tessera {

/// What is text in a file of JSON lines: an object a line, whose field of this name is a document.
struct JsonLinesOptions {
  std::string field = "text";
  Sentences sentences = Sentences::none;
  bool skip_malformed = false;
};

/// Sets `text` to the field of the object that `line` is. Returns what is wrong, or nothing. The
/// line may be hostile: it is refused if it is not one JSON object in UTF-8, nests deeper than
/// kMaxJsonDepth, or has the field not at all, twice, or as anything but a string. Takes time
/// linear in the line, and memory for its longest string.
std::string read_json_field(std::string_view line, const std::string& field, std::string& text);

/// The documents of some lines as text, and what was skipped. Blank lines are none. Throws, naming
/// file and line, at a line that is malformed, unless those are skipped.
struct JsonDocuments {
  TextPart text;
  int64_t malformed_lines = 0;
  std::string first_malformed;
};
JsonDocuments read_json_lines(const JsonLines& lines, const JsonLinesOptions& options);

}  // namespace tessera
