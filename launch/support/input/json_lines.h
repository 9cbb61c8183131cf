#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launch/support/input/document_splitter.h"
#include "launch/support/input/text_part.h"

namespace tessera {

/// Whether the name of a file says that its rows are JSON objects: .jsonl or .json.
inline bool has_json_rows(std::string_view path) {
  return path.ends_with(".jsonl") || path.ends_with(".json");
}

/// Which field of each JSON object is the document.
struct JsonLinesOptions {
  std::string field = "text";
  Sentences sentences = Sentences::none;
  bool skip_malformed = false;
};

/// Sets `text` to the requested field of the JSON object in `line`. Returns a description of the
/// problem, or nullopt. Treats the line as untrusted: rejects it unless it is one JSON
/// object in UTF-8, nests at most kMaxJsonDepth deep, and has the field exactly once, as a string.
/// Takes linear time, and memory for the longest string.
std::optional<std::string> read_json_field(std::string_view line, const std::string& field,
                                           std::string& text);

/// Parses lines into documents and reports skipped lines. Ignores blank lines. Throws, naming file
/// and line, at a malformed line unless those are skipped.
struct JsonDocuments {
  TextPart text;
  int64_t malformed_lines = 0;
  std::string first_malformed;
};
JsonDocuments read_json_lines(const TextLines& lines, const JsonLinesOptions& options);

}  // namespace tessera
