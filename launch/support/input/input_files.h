#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// How a file's documents are written down.
enum class InputFormat : uint8_t {
  text,   ///< the file is text
  jsonl,  ///< an object a line, one field of which is a document (json_lines.h)
};

struct InputFile {
  std::string path;
  InputFormat format = InputFormat::text;
};

/// Which inputs are JSON lines, and which are text.
enum class InputFormats : uint8_t {
  by_name,  ///< JSON lines: names in .jsonl or .json, with or without .gz or .zst
  text,
  jsonl,
};

/// What a person says of the text to be read.
struct InputOptions {
  /// Files, pipes, "-" and patterns (find_inputs()). They are read once, in this order.
  std::vector<std::string> inputs = {};
  InputFormats formats = InputFormats::by_name;
  std::optional<std::string> field = {};  ///< of JSON lines that is the text; else "text"
  bool skip_malformed = false;            ///< lines of JSON, instead of failing
};

/// The files, with their formats. Throws, starting with `who`, what find_inputs() does, and if
/// options are given that say something of JSON lines, but all inputs are text.
std::vector<InputFile> find_input_files(const InputOptions& options, std::string_view who);

/// Text to be read once, piece by piece.
struct InputText {
  std::vector<InputFile> files;
  std::string field = "text";  ///< of JSON lines
  bool skip_malformed = false;

  explicit InputText(std::vector<InputFile> some_files) : files(std::move(some_files)) {}
  /// Files of text.
  InputText(std::initializer_list<std::string> paths);
};

/// Calls `on_piece` with the text, piece by piece, and `on_end` where a file of text, or a document
/// of JSON lines, ends. A piece is valid only during the call. Throws, naming the file, if one can
/// not be read, and its line if that is malformed JSON that is not skipped.
void for_each_text(const InputText& input, const std::function<void(std::string_view)>& on_piece,
                   const std::function<void()>& on_end);

}  // namespace tessera
