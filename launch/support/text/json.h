#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/shape.h"

namespace tessera {

using Json = nlohmann::json;

/// The maximum nesting depth: later passes over a value recurse.
inline constexpr int kMaxJsonDepth = 32;
/// The maximum number of values in a text. Each takes many times its bytes in the text.
inline constexpr size_t kMaxJsonValues = size_t{1} << 23;
/// The maximum length of names in a checkpoint's files.
inline constexpr size_t kMaxJsonText = 1000;

/// Parses a JSON text. `source` names it in messages. Throws if it is invalid JSON, nests deeper
/// than kMaxJsonDepth, has more than kMaxJsonValues values or repeats a key in an object.
Json parse_json(std::string_view text, const std::string& source);

/// Parses a file of at most `most_bytes` (read_small_file), which messages name.
Json read_json_file(const std::filesystem::path& path, size_t most_bytes = size_t{64} << 20);

/// Formats the library's error at `byte` (from 1) of a text: "at byte 3: ...".
std::string json_problem(size_t byte, const Json::exception& error);

/// Returns `value` as compact JSON. Throws if a string in it is not valid UTF-8.
std::string to_text(const Json& value);

/// Returns `text`, which may be any bytes, quoted, escaped and truncated for a message.
std::string quote(std::string_view text);

/// Names the type of `value` in a message: "a string", "an array", "null".
std::string_view json_type(const Json& value);

/// Checked read access to an object from a file. Messages start with `where`. The value must
/// outlive this view.
class JsonObject {
 public:
  /// Throws if `value` is not an object.
  JsonObject(const Json& value, std::string where);

  /// Returns the value of `key`; throws if it is missing.
  const Json& at(const char* key) const;
  bool has(const char* key) const { return value_.contains(key); }
  /// Returns an integer from 0 to 2^63 - 1.
  int64_t count(const char* key) const;
  /// Returns a boolean.
  bool flag(const char* key) const;
  /// Returns a string of at most kMaxJsonText bytes.
  std::string text(const char* key) const;
  const Json& list(const char* key) const;
  const Json& object(const char* key) const;
  /// Returns a list of at most Shape::kMaxDims counts.
  Shape shape(const char* key) const;

  const std::string& where() const { return where_; }

 private:
  const Json& value_;
  std::string where_;
};

/// Returns `value` as an integer from 0 to 2^63 - 1; throws, naming `what`, for anything else.
int64_t json_count(const Json& value, const std::string& what);

}  // namespace tessera
