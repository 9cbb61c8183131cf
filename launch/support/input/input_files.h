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
  text,     ///< plain text
  jsonl,    ///< one JSON object per line; one field is the document (json_lines.h)
  parquet,  ///< a table; each row of one column is a document (parquet_texts.h)
  ids,      ///< lines of ids, each a document
};

struct InputFile {
  std::string path;
  InputFormat format = InputFormat::text;
};

/// "text", "JSON lines", ...
std::string_view to_string(InputFormat format);

/// How to choose between these formats.
enum class InputFormats : uint8_t {
  /// JSON lines if the name ends in .jsonl or .json, Parquet if it ends in .parquet, optionally
  /// with .gz or .zst; otherwise text.
  by_name,
  text,
  jsonl,
  parquet,
};

/// The user's options for input text.
struct InputOptions {
  /// Files, pipes, "-" and patterns (find_inputs()). Read once, in this order.
  std::vector<std::string> inputs = {};
  InputFormats formats = InputFormats::by_name;
  /// The field of JSON lines, or the column of Parquet, with the text; default "text".
  std::optional<std::string> field = {};
  bool skip_malformed = false;  ///< skip malformed lines or rows instead of failing
};

/// Returns the files with their formats. Messages start with `who`. Throws as find_inputs() does,
/// if options for JSON lines and Parquet are set but all inputs are text, and if an input is
/// Parquet, which this program may be built without.
std::vector<InputFile> find_input_files(const InputOptions& options, std::string_view who);

/// Text that is read once, in pieces.
struct InputText {
  std::vector<InputFile> files;
  std::string field = "text";  ///< of JSON lines, or column of Parquet
  bool skip_malformed = false;

  explicit InputText(std::vector<InputFile> some_files) : files(std::move(some_files)) {}
  /// These files, with the other options.
  InputText(std::vector<InputFile> some_files, const InputOptions& options);
  /// Plain text files.
  InputText(std::initializer_list<std::string> paths);
};

/// Calls `on_piece` with the text in pieces, and `on_end` at the end of each text file or document
/// of JSON lines or Parquet. A piece is valid only during the call. Throws, naming the file, if it
/// cannot be read, and naming a malformed line or row unless these are skipped.
void for_each_text(const InputText& input, const std::function<void(std::string_view)>& on_piece,
                   const std::function<void()>& on_end);

}  // namespace tessera
