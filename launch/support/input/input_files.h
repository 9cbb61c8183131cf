#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// How a file stores its documents.
enum class InputFormat : uint8_t {
  text,   ///< plain text
  jsonl,  ///< one JSON object per line; one field is the document (json_lines.h)
  ids,    ///< lines of ids, each a document
};

struct InputFile {
  std::string path;
  InputFormat format = InputFormat::text;
};

/// How to choose between JSON lines and text.
enum class InputFormats : uint8_t {
  by_name,  ///< JSON lines if the name ends in .jsonl or .json, optionally with .gz or .zst
  text,
  jsonl,
};

/// The user's options for input text.
struct InputOptions {
  /// Files, pipes, "-" and patterns (find_inputs()). Read once, in this order.
  std::vector<std::string> inputs = {};
  InputFormats formats = InputFormats::by_name;
  std::optional<std::string> field = {};  ///< the JSON lines field with the text; default "text"
  bool skip_malformed = false;            ///< skip malformed JSON lines instead of failing
};

/// Returns the files with their formats. Messages start with `who`. Throws as find_inputs() does,
/// and if JSON lines options are set but all inputs are text.
std::vector<InputFile> find_input_files(const InputOptions& options, std::string_view who);

/// Text that is read once, in pieces.
struct InputText {
  std::vector<InputFile> files;
  std::string field = "text";  ///< for JSON lines
  bool skip_malformed = false;

  explicit InputText(std::vector<InputFile> some_files) : files(std::move(some_files)) {}
  /// Plain text files.
  InputText(std::initializer_list<std::string> paths);
};

/// Calls `on_piece` with the text in pieces, and `on_end` at the end of each text file or JSON
/// lines document. A piece is valid only during the call. Throws, naming the file, if it cannot be
/// read, and naming the line of malformed JSON unless malformed lines are skipped.
void for_each_text(const InputText& input, const std::function<void(std::string_view)>& on_piece,
                   const std::function<void()>& on_end);

}  // namespace tessera
